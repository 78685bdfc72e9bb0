package device

import (
	"errors"
	"fmt"

	"martlet/object-server/bundle"
	"martlet/object-server/bundle/format"
	"martlet/object-server/bundle/sethash"
)

// Replica is a partition of a device as replication sees it; see
// doc/formats/replication.md. All methods are safe for concurrent use, beside
// reads and writes. A partition without a directory is an empty one. Errors of all:
// ErrOut, ErrClosed, ErrBusy, ErrStuck, and ErrInvalid for what is left of a split.
type Replica struct {
	device    *Device
	policy    int
	partition uint32
}

// Replica returns a partition.
func (d *Device) Replica(policy int, partition uint32) Replica { return Replica{d, policy, partition} }

// during calls do with the bundle, which is not split or repaired meanwhile. An empty
// partition without a directory leaves nothing in memory: do is not called then.
func (r Replica) during(do func(b *bundle.Bundle) error) error {
	d := r.device
	if err := d.enter(); err != nil {
		return err
	}
	defer d.leave()
	s, err := r.opened(false)
	if err != nil || s == nil {
		return err
	}
	defer s.done()
	return do(s.bundle)
}

// unsplit calls do with the partition's bundle, which is not split meanwhile; nothing else waits. Where there is no
// directory, do is not called.
func (r Replica) unsplit(do func(d *Device, id bundle.ID) error) error {
	d := r.device
	if err := d.enter(); err != nil {
		return err
	}
	defer d.leave()
	d.splitter.marking.Lock()
	defer d.splitter.marking.Unlock()
	id, ok := d.bundleIn(r.policy, r.partition)
	if !ok {
		return fmt.Errorf("%w: %s is what is left of a split", ErrInvalid, d.pathOf(r.policy, r.partition))
	}
	if has, err := d.hasDirectory(id); err != nil || !has {
		return err
	}
	return do(d, id)
}

// opened is the partition, which is open until done is called. It is nil
// where there is no directory, unless that is to be made.
func (r Replica) opened(makes bool) (*partition, error) {
	d := r.device
	for {
		id, ok := d.bundleIn(r.policy, r.partition)
		if !ok {
			return nil, fmt.Errorf("%w: %s is what is left of a split", ErrInvalid, d.pathOf(r.policy, r.partition))
		}
		d.bundles.mu.RLock()
		isKnown := d.bundles.open[id] != nil
		d.bundles.mu.RUnlock()
		if !isKnown && !makes {
			if has, err := d.hasDirectory(id); err != nil || !has {
				return nil, err
			}
		}
		s := d.partitionOf(id)
		s.use.RLock()
		_, err := d.open(s, id)
		if err == nil {
			return s, nil
		}
		s.use.RUnlock()
		if !errors.Is(err, errMoved) {
			return nil, err
		}
	}
}

// Position tells how far the log of the partition goes.
func (r Replica) Position() (p bundle.Position, err error) {
	err = r.during(func(b *bundle.Bundle) error {
		p = b.Position()
		return nil
	})
	return p, err
}

// Horizon is the time before which the partition may have reclaimed tombstones.
func (r Replica) Horizon() (t format.Timestamp, err error) {
	err = r.during(func(b *bundle.Bundle) error {
		t = b.Horizon()
		return nil
	})
	return t, err
}

// Digest is that of the slice of a level and a prefix, without tombstones from before
// the horizon, at a position. Level 0 with prefix 0 is the whole partition. It costs
// no read but as bundle.Bundle.Slices says. ErrQuarantined where damage keeps it from
// being known.
func (r Replica) Digest(level uint8, prefix uint32, horizon format.Timestamp) (sethash.Digest, bundle.Position, error) {
	found, at, err := r.Slices(level, prefix, level, horizon)
	if err != nil || len(found) == 0 {
		return sethash.Digest{}, at, err
	}
	return found[0].Digest, at, nil
}

// Slices returns the digests of the slices of a level that one of another level
// consists of; empty ones are left out. Errors as of Digest.
func (r Replica) Slices(above uint8, prefix uint32, level uint8, horizon format.Timestamp) (found []sethash.Slice, at bundle.Position, err error) {
	err = r.during(func(b *bundle.Bundle) error {
		return r.device.longCalls.during(func() (err error) {
			found, at, err = b.Slices(above, prefix, level, horizon)
			return err
		})
	})
	return found, at, err
}

// IsPartial tells whether the last Elements, or digests, left out names whose newest records
// are hidden by damage.
func (r Replica) IsPartial() (is bool, err error) {
	err = r.during(func(b *bundle.Bundle) error {
		is = b.IsPartial()
		return nil
	})
	return is, err
}

// Elements lists what is in a slice: replicas tell by it which names differ. It reads
// the runs of the partition, and no records but those behind the last checkpoint.
func (r Replica) Elements(level uint8, prefix uint32) (all []sethash.Element, at bundle.Position, err error) {
	err = r.during(func(b *bundle.Bundle) error {
		return r.device.longCalls.during(func() (err error) {
			all, at, err = b.Elements(level, prefix)
			return err
		})
	})
	return all, at, err
}
