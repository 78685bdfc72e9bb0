package device

import (
	"fmt"
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

// Heal ends a doubt that Doubt told, for good. Since then the caller must have imported
// all that every peer has of the partition, and nothing was refused: an Export from the
// zero position, of which nothing was skipped, or equal digests, prove it for one peer.
// What the lost records said is then in later records, or no replica has it. One thing
// is not: a tombstone that all peers have reclaimed. What it deleted counts again, and
// looks like an object that the peers have missed. The caller finds such ones by
// SyncedThrough: a record up to there that a peer does not have was deleted there.
//
// The damaged segments are written anew without the lost records, as by Device.Repair:
// they cannot come back when the disk can read them again. Requests to the partition
// wait. A crash leaves each segment as it was or repaired; the doubt has ended once all
// are. Without a doubt nothing happens.
//
// Errors beside those of Repair: ErrChanged if the doubt is another one, as after a
// restart that met more damage. ErrQuarantined if a damaged record still counts that was
// not lost when the partition was opened: nothing was imported in its place. Import it,
// or leave it to Device.Repair.
func (r Replica) Heal(doubt bundle.Position) error {
	return r.unsplit(func(d *Device, id bundle.ID) error { return d.heal(id, doubt) })
}

// heal is Replica.Heal of one bundle, which is not split meanwhile.
func (d *Device) heal(id bundle.ID, doubt bundle.Position) error {
	s := d.partitionOf(id)
	b, err := d.open(s, id)
	if err != nil || b.Doubt().LSN == 0 {
		return err
	}
	return d.repair(s, id, NewRepaired(d.root, id, time.Now()), true, func(b *bundle.Bundle, damages []bundle.Damage) (uint64, error) {
		if now := b.Doubt(); now != doubt {
			return 0, fmt.Errorf("%w: records up to %d of %x are lost", ErrChanged, now.LSN, now.Bundle)
		}
		for i := range damages {
			if err := unhealed(b, &damages[i]); err != nil {
				return 0, err
			}
		}
		return 0, nil
	})
}

// unhealed is why damage must stay: it is of a record that counts, or that may count.
func unhealed(b *bundle.Bundle, x *bundle.Damage) error {
	if x.LastLSN == 0 || b.WasLost(x.FirstLSN, x.LastLSN) {
		return nil
	}
	isKnown := x.Unnamed == 0
	for _, l := range x.Lost {
		isKnown = isKnown && l.Hash != format.Hash{}
	}
	if !isKnown {
		return fmt.Errorf("%w: it was not so when the partition was opened: %s", ErrQuarantined, x)
	}
	for _, l := range x.Lost {
		if counts, err := b.Counts(l.Hash, l.LSN); err != nil || counts {
			return fmt.Errorf("%w: %s: %w", ErrQuarantined, x, err)
		}
	}
	return nil
}
