package device

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"martlet/object-server/bundle"
	"martlet/object-server/bundle/format"
)

// Doubt is the position up to which records of unknown names are lost; its LSN is 0
// if none is. Until that is healed, that a name is not there is not known.
func (r Replica) Doubt() (p bundle.Position, err error) {
	err = r.during(func(b *bundle.Bundle) error {
		p = b.Doubt()
		return nil
	})
	return p, err
}

// doubtPatience is how long a doubt stays for the sake of records that no peer has. A hand-off
// brings its primaries what they have missed long before.
const doubtPatience = time.Hour

// Compared is what Heal must know of the peers: how they compare with this replica.
type Compared struct {
	// Peers have everything that they ever had: they are not in doubt themselves.
	Peers []ComparedPeer
	// Alone are the names of which this replica has a version that no peer has. No peer is in
	// doubt.
	Alone []format.Hash
	// Doubted are the names of which it has a version that none of Peers has. A peer that is
	// in doubt may have it, or may have lost it.
	Doubted []format.Hash
}

// ComparedPeer is a peer under the name that SetSyncedThrough had, and its horizon.
type ComparedPeer struct {
	Name    string
	Horizon format.Timestamp
}

// Heal ends a doubt that Doubt told, for good. Since then the caller must have imported
// what every peer has of the partition, and nothing was refused. What the lost records said is
// then in later records, or no replica has it.
//
// One thing is not: a tombstone that all peers have reclaimed. What it deleted counts again,
// and looks like an object that the peers have missed. So a record that may be older than a
// lost one, and that the peers lack, is not sent to them. It is erased, with all records of its
// name, if a peer once had it, as SyncedThrough says, or may have reclaimed its tombstone.
// Otherwise the lost tombstone has reached no peer. Then the doubt stays for an hour, because
// hand-offs may bring the record or the tombstone. After that the record is erased, unless a
// peer may have lost it, too: one in doubt, or one that has never had all of this replica. Its
// disk may be new.
//
// The damaged segments are written anew without the lost records, as by Device.Repair:
// they cannot come back when the disk can read them again. What is erased is in quarantine
// with them. Requests to the partition wait. A crash leaves each segment as it was or
// repaired; the doubt has ended once all are. Without a doubt nothing happens.
//
// Errors beside those of Repair: ErrChanged if the doubt is another one, as after a
// restart that met more damage. ErrQuarantined if a damaged record still counts that was
// not lost when the partition was opened: nothing was imported in its place. Import it,
// or leave it to Device.Repair. ErrQuarantined as well while the doubt must stay.
func (r Replica) Heal(doubt bundle.Position, with Compared) error {
	return r.unsplit(func(d *Device, id bundle.ID) error { return d.heal(id, doubt, with) })
}

// heal is Replica.Heal of one bundle, which is not split meanwhile.
func (d *Device) heal(id bundle.ID, doubt bundle.Position, with Compared) error {
	s := d.partitionOf(id)
	b, err := d.open(s, id)
	if err != nil || b.Doubt().LSN == 0 {
		return err
	}
	s.mu.Lock()
	isPatient := time.Since(s.opened) < d.options.doubtPatience
	s.mu.Unlock()
	if err := d.mustStay(b, with, isPatient); err != nil { // before requests wait
		return err
	}
	var unknown []bundle.Damage
	err = d.repair(s, id, newMended(d.root, id), true, func(b *bundle.Bundle, damages []bundle.Damage) (map[format.Hash]uint64, error) {
		now := b.Doubt()
		isOther := now.Bundle != doubt.Bundle && doubt.Bundle != format.Identity{} // what was imported may have given it one
		if now.LSN != doubt.LSN || isOther {
			return nil, fmt.Errorf("%w: records up to %d of %x are lost", ErrChanged, now.LSN, now.Bundle)
		}
		erased, err := d.unproven(b, with, isPatient)
		if err == nil {
			err = eraseLost(b, damages, erased)
		}
		if err != nil {
			return nil, err
		}
		var refused error
		isNew := false
		for i := range damages {
			err := unhealed(b, &damages[i], erased)
			isNew = isNew || errors.Is(err, errUnknownRecord)
			refused = errors.Join(refused, err)
		}
		if isNew { // what is known to be lost stays so
			unknown = slices.DeleteFunc(slices.Clone(damages), func(x bundle.Damage) bool { return !isUnknown(&x) })
		}
		if refused != nil {
			d.damages.wasRead(id, time.Now())
		}
		return erased, refused
	})
	if len(unknown) == 0 {
		return err
	}
	return errors.Join(err, d.alone(s, id, true, func(*bundle.Bundle) error { // the next comparison knows of them
		d.renew(s, id, unknown)
		return nil
	}))
}

// mustStay is why a doubt must stay, as far as that is known without reading the partition.
func (d *Device) mustStay(b *bundle.Bundle, with Compared, isPatient bool) error {
	erased, err := d.unproven(b, with, isPatient)
	if err != nil || !d.damages.isRead(b.ID(), time.Now()) {
		return err
	}
	known := d.damages.of(b.ID())
	if err := eraseLost(b, known, erased); err != nil {
		return err
	}
	for i := range known {
		if err := unhealed(b, &known[i], erased); err != nil && !errors.Is(err, errUnknownRecord) {
			return err
		}
	}
	return nil
}

// unproven chooses the names whose records are to be erased, each up to an LSN.
func (d *Device) unproven(b *bundle.Bundle, with Compared, isPatient bool) (map[format.Hash]uint64, error) {
	erased := map[format.Hash]uint64{}
	hasNew := slices.ContainsFunc(with.Peers, func(p ComparedPeer) bool { return d.synced.of(b, p.Name).LSN == 0 })
	for i, names := range [][]format.Hash{with.Alone, with.Doubted} {
		isAlone := i == 0
		for _, hash := range names {
			head, buffer, err := b.ReadHead(hash)
			if err != nil && !errors.Is(err, ErrQuarantined) {
				return nil, err
			}
			if head == nil || head.LSN() == 0 || head.LSN() > b.Doubt().LSN || head.Type() == format.TypeTombstone {
				buffer.Free()
				continue
			}
			lsn, t := head.LSN(), head.Timestamp()
			buffer.Free()
			switch {
			case d.wasAtPeer(b, with.Peers, lsn, t), isAlone && !isPatient && !hasNew:
				erased[hash] = lsn
				d.options.Logger.Warn("a record may have been deleted by one that is lost; no peer has it, and it is given up",
					"device", d.root, "policy", b.ID().Policy, "partition", b.ID().Partition, "hash", hash, "timestamp", t)
			case isAlone && isPatient:
				return nil, fmt.Errorf("%w: no peer has the record of %s, which may have been deleted", ErrQuarantined, hash)
			}
		}
	}
	return erased, nil
}

// WasDeleted tells whether a record that peers lack was deleted there: one of them had it, or
// may have reclaimed its tombstone.
func (r Replica) WasDeleted(peers []ComparedPeer, lsn uint64, t format.Timestamp) (was bool, err error) {
	err = r.during(func(b *bundle.Bundle) error {
		was = r.device.wasAtPeer(b, peers, lsn, t)
		return nil
	})
	return was, err
}

// wasAtPeer tells whether a peer had a record that it lacks, or may have reclaimed the
// tombstone of it.
func (d *Device) wasAtPeer(b *bundle.Bundle, peers []ComparedPeer, lsn uint64, t format.Timestamp) bool {
	return slices.ContainsFunc(peers, func(p ComparedPeer) bool {
		return lsn <= d.synced.of(b, p.Name).LSN || t.Ticks < p.Horizon.Ticks
	})
}

// eraseLost adds the names of lost records of which a footer or checkpoint says that they were
// the newest: what they replaced or deleted must not count again.
func eraseLost(b *bundle.Bundle, damages []bundle.Damage, erased map[format.Hash]uint64) error {
	for i := range damages {
		for _, l := range damages[i].Lost {
			if !l.IsSure || !damages[i].IsGap {
				continue
			}
			head, buffer, err := b.ReadHead(l.Hash)
			isReplaced := err == nil && head != nil && head.LSN() > l.LSN
			buffer.Free()
			if err != nil && !errors.Is(err, ErrQuarantined) {
				return err
			}
			if !isReplaced {
				erased[l.Hash] = max(erased[l.Hash], l.LSN)
			}
		}
	}
	return nil
}

// unhealed is why damage must stay: it is of a record that counts, or that may count, and is
// not to be erased.
func unhealed(b *bundle.Bundle, x *bundle.Damage, erased map[format.Hash]uint64) error {
	if x.LastLSN == 0 || b.WasLost(x.FirstLSN, x.LastLSN) {
		return nil
	}
	isKnown := x.Unnamed == 0
	for _, l := range x.Lost {
		isKnown = isKnown && l.Hash != format.Hash{}
	}
	if !isKnown {
		return fmt.Errorf("%w: it was not so when the partition was opened: %s", errUnknownRecord, x)
	}
	for _, l := range x.Lost {
		if l.LSN <= erased[l.Hash] && !x.IsGap {
			continue
		}
		counts, err := b.Counts(l.Hash, l.LSN)
		switch {
		case err != nil:
			return fmt.Errorf("%w: %s: %w", ErrQuarantined, x, err)
		case counts && x.IsGap:
			return fmt.Errorf("%w: %s", errUnknownRecord, x)
		case counts:
			return fmt.Errorf("%w: %s", ErrQuarantined, x)
		}
	}
	return nil
}
