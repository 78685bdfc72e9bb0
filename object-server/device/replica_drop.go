package device

import (
	"fmt"

	"martlet/object-server/bundle"
)

// Drop removes the partition with all that is in it, unless something was written to
// it since a position: ErrChanged then, and nothing has happened. A hand-off is given
// back so, once every primary has what it had at that position. Requests wait, and
// find an empty partition. A crash leaves all of it, or nothing that shows.
//
// It waits for what the compactor is doing, and for the partition that is being split.
// ErrUnfinished while files of a split partition are left that could not be removed: its
// halves are how a restart knows that these mean nothing. ErrBusy while containers may not
// know writes of the device: a crash after it would leave no record to make their rows from.
func (r Replica) Drop(unchangedSince bundle.Position) error {
	return r.unsplit(func(d *Device, id bundle.ID) error {
		if d.splitter.rests[id.Policy] {
			return fmt.Errorf("%w: its files are to be removed first", ErrUnfinished)
		}
		return d.dropUnchanged(id, unchangedSince)
	})
}

// dropUnchanged is Replica.Drop of one bundle, which is not split meanwhile.
func (d *Device) dropUnchanged(id bundle.ID, since bundle.Position) error {
	d.compactor.working.Lock()
	defer d.compactor.working.Unlock()
	d.caretaker.working.Lock()
	defer d.caretaker.working.Unlock()
	s := d.partitionOf(id)
	s.use.Lock()
	defer s.use.Unlock()
	b, err := d.open(s, id)
	if err != nil {
		return err
	}
	if now := b.Position(); now != since {
		return fmt.Errorf("%w: it is at LSN %d of %x", ErrChanged, now.LSN, now.Bundle)
	}
	if !d.mayDrop() {
		return fmt.Errorf("%w: containers may not know its last writes yet", ErrBusy)
	}
	if err := d.compactor.settle(); err != nil { // no replay of the journal brings back a file
		return err
	}
	return d.drop(s, b)
}

// drop removes the files of a bundle that is not in use. Opening it has taken its floor,
// and closing the device gives one only to bundles that are open. s.use is held.
func (d *Device) drop(s *partition, b *bundle.Bundle) error {
	s.opening.Lock()
	defer s.opening.Unlock()
	s.mu.Lock()
	s.bundle = nil
	s.mu.Unlock()
	b.Retire()
	d.committer.forget(b)
	d.compactor.forget(b.ID())
	if err := d.files.Drop(b.ID()); err != nil {
		return err
	}
	d.damages.repaired(b.ID())
	_ = d.synced.keep(placeOf(b.ID()), nil) // of no use any more, and no harm
	return nil
}
