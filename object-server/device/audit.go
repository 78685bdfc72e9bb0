package device

import (
	"errors"
	"fmt"
	"time"

	"martlet/object-server/bundle"
	"martlet/object-server/bundle/format"
	"martlet/object-server/bundle/inspect"
	"martlet/object-server/vfs"
)

// Examine reads all of a partition, notes the damages in the list of the device, and
// returns them. Nothing waits meanwhile. What is split, dropped or repaired while it is
// read is not damaged. All is read through what wrap makes of the device's file system.
func (d *Device) Examine(policy int, partition uint32, wrap func(vfs.FS) vfs.FS) ([]bundle.Damage, error) {
	b, err := d.examined(policy, partition)
	if err != nil || b == nil {
		return nil, unlessMoved(err)
	}
	id := b.ID()
	found, err := verify(wrap(d.fs), d.root, id, b.Acknowledged())
	if err != nil || len(found) == 0 {
		return nil, err
	}
	if err := d.enter(); err != nil {
		return nil, err
	}
	defer d.leave()
	s := d.partitionOf(id)
	if now, err := d.opened(s, id); err != nil || now != b || b.Retired() {
		return nil, unlessMoved(err)
	}
	for i := range found {
		d.damages.note(id, found[i], isOlder(b, &found[i]))
		quarantine(b, &found[i])
	}
	return found, nil
}

// examined is the bundle of a partition; nil if there is none. It is an operation of its own:
// to read all of the bundle may take hours.
func (d *Device) examined(policy int, partition uint32) (*bundle.Bundle, error) {
	if err := d.enter(); err != nil {
		return nil, err
	}
	defer d.leave()
	id, ok := d.bundleIn(policy, partition)
	if !ok { // what is left of a split
		return nil, nil
	}
	if holds, err := d.files.Holds(id); err != nil || !holds {
		return nil, err
	}
	return d.open(d.partitionOf(id), id)
}

// quarantine stops the records of a damage from being served that are the newest of their
// names, and lets those of peers take their place.
func quarantine(b *bundle.Bundle, x *bundle.Damage) {
	for _, l := range x.Lost {
		head, buffer, err := b.ReadHead(l.Hash)
		if err == nil && head != nil && head.LSN() == l.LSN {
			_ = b.Quarantine(head, errors.New(x.Cause)) // the error says only that
		}
		buffer.Free()
	}
}

// AuditState is what a process beside the device's must know to read a partition.
type AuditState struct {
	IsThere  bool
	Power    uint8           // of bundle.ID
	Position bundle.Position // records up to there were acknowledged
}

// AuditState tells the state of a partition.
func (d *Device) AuditState(policy int, partition uint32) (state AuditState, err error) {
	err = d.Replica(policy, partition).during(func(b *bundle.Bundle) error {
		state = AuditState{true, b.ID().Power, bundle.Position{Bundle: b.Identity(), LSN: b.Acknowledged()}}
		return nil
	})
	if errors.Is(err, ErrInvalid) { // what is left of a split
		err = nil
	}
	return state, err
}

func unlessMoved(err error) error {
	if errors.Is(err, errMoved) {
		return nil
	}
	return err
}

// verify reads a partition of which records up to floor were acknowledged.
func verify(fs vfs.FS, root string, id bundle.ID, floor uint64) ([]bundle.Damage, error) {
	files := bundle.NewFiles(fs, root, repairFilesMax)
	files.Floor = func(bundle.ID, format.Identity) uint64 { return floor }
	found, err := inspect.Verify(files, id, "")
	if err = errors.Join(err, files.Close()); err != nil {
		return nil, err
	}
	return found.Damages, nil
}

// isOlder tells whether a damage is of no record that is the newest of its name.
func isOlder(b *bundle.Bundle, x *bundle.Damage) bool {
	for _, l := range x.Lost {
		head, buffer, err := b.ReadHead(l.Hash)
		isNewest := err != nil || head != nil && head.LSN() <= l.LSN
		buffer.Free()
		if isNewest {
			return false
		}
	}
	return true
}

// Suspect is a partition in which damage was met.
type Suspect struct {
	Policy    int
	Partition uint32
}

// Suspects returns the partitions in which damage was met since the last call.
func (d *Device) Suspects() []Suspect {
	l := &d.damages
	l.mu.Lock()
	defer l.mu.Unlock()
	all := make([]Suspect, 0, len(l.suspects))
	for x := range l.suspects {
		all = append(all, x)
	}
	clear(l.suspects)
	return all
}

// Mend ends the damages of a partition that cost nothing any more: each damaged record
// has been replaced by what peers have of its name, or never counted. The damaged
// segments are written anew without them, and put into quarantine, as by Device.Repair.
// Requests to the partition wait for that, not while it is read before. Without a damage that
// is known nothing happens.
//
// Of a record with a damaged header not even the name is sure. If such a record is there, or
// one that counts and that no peer has given, nothing changes: ErrQuarantined. With mayDoubt
// the partition is opened anew instead, as after a restart. So it is in doubt until Heal.
// Nothing is given up before: the damage in the log is what a later start knows the doubt by.
func (r Replica) Mend(mayDoubt bool) error {
	var before *bundle.Bundle
	err := r.during(func(b *bundle.Bundle) error {
		l := &r.device.damages
		if !l.has(b.ID()) || b.Doubt().LSN > 0 { // Heal ends a doubt
			return nil
		}
		before = b
		_, err := unmendable(b, l.of(b.ID()))
		if l.isRead(b.ID(), time.Now()) && !(mayDoubt && errors.Is(err, errUnknownRecord)) {
			return err
		}
		return nil
	})
	if err != nil || before == nil {
		return err
	}
	found, err := r.device.read(before)
	if err != nil {
		return err
	}
	return r.unsplit(func(d *Device, id bundle.ID) error {
		b, err := d.open(d.partitionOf(id), id)
		if err == nil && b != before {
			err = fmt.Errorf("%w: it was split or repaired meanwhile", ErrChanged)
		}
		if err != nil {
			return err
		}
		return d.mend(b, found, mayDoubt)
	})
}

// mendPause is how long Mend believes what reading all of a partition has found, if that is
// a reason to leave the partition as it is. A bad sector may be readable later.
const mendPause = 10 * time.Minute

// read reads all of a bundle for Mend.
func (d *Device) read(b *bundle.Bundle) ([]bundle.Damage, error) {
	found, err := verify(d.fs, d.root, b.ID(), b.Acknowledged())
	if err != nil {
		return nil, err
	}
	for i := range found {
		d.damages.note(b.ID(), found[i], isOlder(b, &found[i]))
	}
	d.damages.wasRead(b.ID(), time.Now())
	return found, nil
}

// mend is Replica.Mend of one bundle, which is not split meanwhile, with the damages that were
// found in it.
func (d *Device) mend(b *bundle.Bundle, found []bundle.Damage, mayDoubt bool) error {
	id := b.ID()
	s := d.partitionOf(id)
	unknown, err := unmendable(b, found)
	if errors.Is(err, errUnknownRecord) && mayDoubt {
		return d.alone(s, id, true, func(*bundle.Bundle) error {
			d.renew(s, id, unknown)
			return nil
		})
	}
	if err != nil {
		return err
	}
	return d.repair(s, id, newMended(d.root, id), true, func(b *bundle.Bundle, damages []bundle.Damage) (map[format.Hash]uint64, error) {
		_, err := unmendable(b, damages)
		return nil, err
	})
}

// errUnknownRecord is the ErrQuarantined of a record with a damaged header.
var errUnknownRecord = fmt.Errorf("%w: it is not known what was written", ErrQuarantined)

// unmendable is why damages must stay. If that is only records of which it is not known what
// they are, or that these may have replaced, the former are returned as well.
func unmendable(b *bundle.Bundle, damages []bundle.Damage) (unknown []bundle.Damage, err error) {
	var hidden error
	for i := range damages {
		x := &damages[i]
		if isUnknown(x) {
			unknown = append(unknown, *x)
			continue
		}
		switch err := stillCounts(b, x); {
		case errors.Is(err, bundle.ErrHidden):
			hidden = err
		case err != nil:
			return nil, err
		}
	}
	if len(unknown) > 0 {
		return unknown, fmt.Errorf("%w: %s", errUnknownRecord, &unknown[0])
	}
	return nil, hidden
}

// isUnknown tells whether a damage is of records of which it is not known what they are.
func isUnknown(x *bundle.Damage) bool {
	return x.IsGap || x.Segment == "" || x.LastLSN > 0 && x.Unnamed > 0
}

// stillCounts is ErrQuarantined if a damaged record is served, or would be.
func stillCounts(b *bundle.Bundle, x *bundle.Damage) error {
	for _, l := range x.Lost {
		isLive, err := b.IsLive(l.Hash, l.LSN)
		if isLive && err == nil {
			err = fmt.Errorf("%w: no peer has given %s", ErrQuarantined, x)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// isLost tells whether the record of an LSN is known to be damaged.
func (l *damages) isLost(id bundle.ID, lsn uint64) bool {
	if l.count.Load() == 0 {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	x := l.byKey[damageKey{policy: id.Policy, partition: id.Partition, lsn: lsn}]
	return x != nil && x.LastLSN == lsn
}

// of lists the damages of a partition that are known.
func (l *damages) of(id bundle.ID) (all []bundle.Damage) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, x := range l.byKey {
		if x.Policy == id.Policy && x.Partition == id.Partition {
			all = append(all, x.Damage)
		}
	}
	return all
}

// wasRead notes when all of a partition was read; isRead tells whether that was lately.
func (l *damages) wasRead(id bundle.ID, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.read[Suspect{id.Policy, id.Partition}] = now
}

func (l *damages) isRead(id bundle.ID, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	at, ok := l.read[Suspect{id.Policy, id.Partition}]
	return ok && now.Sub(at) < mendPause
}

// has tells whether a partition has a damage, or what is left of one that was replaced.
func (l *damages) has(id bundle.ID) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.remains[Suspect{id.Policy, id.Partition}] {
		return true
	}
	for _, x := range l.byKey {
		if x.Policy == id.Policy && x.Partition == id.Partition {
			return true
		}
	}
	return false
}
