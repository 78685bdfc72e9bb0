package device

import (
	"errors"
	"sync/atomic"

	"martlet/object-server/bundle"
)

// These are no peers: their positions in the table of what peers have are of rows.
const (
	toldPeer      = "\x00rows"      // through there, all rows are delivered or pending
	deliveredPeer = "\x00delivered" // through there, all are delivered
)

func isRowPeer(peer string) bool { return peer == toldPeer || peer == deliveredPeer }

// RowPosition is how far a partition had got at some time.
type RowPosition struct {
	Replica
	bundle.Position
}

// RowsBegun returns how far partitions have got of whose last records it is not noted
// that their rows are delivered.
func (d *Device) RowsBegun() []RowPosition {
	var all []RowPosition
	for _, b := range d.bundles.all() {
		at := bundle.Position{Bundle: b.Identity(), LSN: b.Acknowledged()}
		if min(d.synced.of(b, toldPeer).LSN, d.synced.of(b, deliveredPeer).LSN) < at.LSN {
			all = append(all, RowPosition{d.Replica(b.ID().Policy, b.ID().Partition), at})
		}
	}
	return all
}

// NoteRows notes that all rows through positions of RowsBegun are delivered or pending:
// after a crash, Unreported does not visit these records. It notes nothing while rows of
// this process or the one before are neither. What cannot be noted is visited.
func (d *Device) NoteRows(all []RowPosition) error { return d.noteRows(all, toldPeer) }

// NoteDelivered notes that all rows through positions of RowsBegun are delivered: after
// damage in the files of pending rows, Undelivered does not visit these records. It notes
// nothing when NoteRows does not.
func (d *Device) NoteDelivered(all []RowPosition) error { return d.noteRows(all, deliveredPeer) }

func (d *Device) noteRows(all []RowPosition, peer string) error {
	if d.unreported.Load() || d.owesRows.Load() {
		return nil
	}
	for _, one := range all {
		err := one.SetSyncedThrough(peer, one.Position)
		isGone := errors.Is(err, ErrChanged) || errors.Is(err, ErrInvalid) || errors.Is(err, errMoved) // or it was split
		if err != nil && !isGone && !errors.Is(err, ErrQuarantined) {
			return err
		}
	}
	return nil
}

// noteNew notes of a bundle that a client's write has made that none of its rows is noted
// as delivered or pending: a crash before NoteRows makes all of them.
func (d *Device) noteNew(b *bundle.Bundle) { d.noteAt(b, toldPeer, 0); d.noteAt(b, deliveredPeer, 0) }

// noteAt notes through where rows of a bundle are what the peer says. What cannot be noted
// is visited within the bounds of Visit.
func (d *Device) noteAt(b *bundle.Bundle, peer string, lsn uint64) {
	at, position := placeOf(b.ID()), bundle.Position{Bundle: b.Identity(), LSN: lsn}
	if err := d.call(func() error { return d.synced.set(at, peer, position) }); err != nil {
		d.options.Logger.Warn("not noted of which writes containers know the rows", "device", d.root,
			"policy", at.policy, "partition", at.partition, "error", err)
	}
}

// owing counts the writes to a partition of which containers must be told. Import's are none,
// nor is what a bundle writes for itself.
type owing struct{ begun, ended atomic.Uint64 }

// appendOwing appends a write of which a container must be told.
func (d *Device) appendOwing(b *bundle.Bundle, draft *bundle.Draft) error {
	owing := &d.partitionOf(b.ID()).owing
	isFirst := b.Acknowledged() == 0
	owing.begun.Add(1)
	err := d.committer.append(b, draft)
	owing.ended.Add(1)
	if isFirst && err == nil {
		d.noteNew(b)
	}
	return err
}

// beforeImport is called before Import appends to bundles, and what it returns afterwards.
// Where nothing but Import's has come since the noted position, that moves on. A bundle that
// has got a write that owes a row meanwhile is like one that such a write has made.
func (d *Device) beforeImport(bundles []*bundle.Bundle) (after func()) {
	type state struct {
		owing *owing
		begun uint64
		lsn   uint64
		alone bool
	}
	before := make(map[*bundle.Bundle]state)
	for _, b := range bundles {
		if _, ok := before[b]; !ok {
			s := state{owing: &d.partitionOf(b.ID()).owing}
			ended := s.owing.ended.Load()
			s.begun = s.owing.begun.Load()
			s.alone, s.lsn = s.begun == ended, b.Acknowledged()
			before[b] = s
		}
	}
	return func() {
		for b, s := range before {
			now := b.Acknowledged()
			if now == s.lsn {
				continue
			}
			isAlone := s.alone && s.owing.begun.Load() == s.begun
			for _, peer := range []string{toldPeer, deliveredPeer} {
				switch {
				case isAlone && d.synced.of(b, peer).LSN >= s.lsn:
					d.noteAt(b, peer, now)
				case s.lsn == 0:
					d.noteAt(b, peer, 0)
				}
			}
		}
	}
}

// rowsOf is what is noted of the rows of a bundle.
func (d *Device) rowsOf(b *bundle.Bundle) (noted []holding) {
	for _, h := range d.synced.known(placeOf(b.ID())) {
		if isRowPeer(h.peer) && h.Bundle == b.Identity() {
			noted = append(noted, h)
		}
	}
	return noted
}

// inheritRows notes for halves of a partition what is noted of it: LSNs stay. One that gets
// the place of the partition must wait until the halves count, the other must not. What
// cannot be noted is visited within the bounds of Visit.
func (d *Device) inheritRows(noted []holding, parent bundle.ID, halves []*half, inPlace bool) {
	for _, h := range halves {
		if (placeOf(h.bundle.ID()) == placeOf(parent)) != inPlace {
			continue
		}
		for _, of := range noted {
			d.noteAt(h.bundle, of.peer, of.LSN)
		}
	}
}
