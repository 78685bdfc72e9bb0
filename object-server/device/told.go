package device

import (
	"errors"

	"martlet/object-server/bundle"
)

// toldPeer is no peer: its positions in the table of what peers have are those through
// which containers know the rows of a partition.
const toldPeer = "\x00rows"

// RowPosition is how far a partition had got at some time.
type RowPosition struct {
	Replica
	bundle.Position
}

// RowsBegun returns how far partitions have got of whose last records it is not noted
// that containers know them.
func (d *Device) RowsBegun() []RowPosition {
	var all []RowPosition
	for _, b := range d.bundles.all() {
		at := bundle.Position{Bundle: b.Identity(), LSN: b.Acknowledged()}
		if d.synced.of(b, toldPeer).LSN < at.LSN {
			all = append(all, RowPosition{d.Replica(b.ID().Policy, b.ID().Partition), at})
		}
	}
	return all
}

// NoteRows notes that all rows through positions of RowsBegun are delivered or pending:
// after a crash, Unreported does not visit these records. It notes nothing while rows of
// this process or the one before are neither. What cannot be noted is visited.
func (d *Device) NoteRows(all []RowPosition) error {
	if d.unreported.Load() || d.owesRows.Load() {
		return nil
	}
	for _, one := range all {
		err := one.SetSyncedThrough(toldPeer, one.Position)
		isGone := errors.Is(err, ErrChanged) || errors.Is(err, ErrInvalid) || errors.Is(err, errMoved) // or it was split
		if err != nil && !isGone && !errors.Is(err, ErrQuarantined) {
			return err
		}
	}
	return nil
}

// inheritRows notes for halves of a partition what is noted of it: LSNs stay. One that gets
// the place of the partition must wait until the halves count, the other must not. What
// cannot be noted is visited within the bounds of Visit.
func (d *Device) inheritRows(told bundle.Position, parent bundle.ID, halves []*half, inPlace bool) {
	for _, h := range halves {
		at := placeOf(h.bundle.ID())
		if told.LSN == 0 || (at == placeOf(parent)) != inPlace {
			continue
		}
		position := bundle.Position{Bundle: h.bundle.Identity(), LSN: told.LSN}
		if err := d.call(func() error { return d.synced.set(at, toldPeer, position) }); err != nil {
			d.options.Logger.Warn("not noted which rows of a split partition containers know", "device", d.root,
				"policy", at.policy, "partition", at.partition, "error", err)
		}
	}
}
