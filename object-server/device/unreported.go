package device

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"martlet/object-server/bundle"
	"martlet/object-server/bundle/format"
)

const (
	// unreportedMax bounds the records of one partition that are visited where nothing is noted
	// of its rows: more than are written to one while a row waits for its container server.
	unreportedMax = 1000
	// newMax bounds them where all is noted to be new: a replicator may have brought more.
	newMax = 100 * unreportedMax
)

// Unreported has the records that a process which was not stopped cleanly wrote last. It
// may have been killed after a record was durable and before a container was told of it.
// No other server may know the write: then a replicator brings the record to its peers,
// and no container lists it.
type Unreported struct {
	device *Device
	peers  map[place][]holding // as the process left them
	hasAll bool                // the last Visit has read all partitions

	isUndelivered bool // it is of Undelivered
	policy        int  // then it is of this one alone
}

// Undelivered has the records of a policy of which NoteDelivered has not noted that their
// rows are delivered. Damage in the files of pending rows may have taken these rows. Drop fails
// until AskForLostRows says that they are pending again. One at a time.
func (d *Device) Undelivered(policy int) *Unreported {
	return &Unreported{device: d, isUndelivered: true, policy: policy}
}

// OweRows says whether rows of writes are nowhere but in the memory of this process. While
// they are, no clean stop is written, and SetSyncedThrough notes nothing: the next process
// then finds these writes.
func (d *Device) OweRows(owes bool) { d.owesRows.Store(owes) }

// IsReported tells whether the rows of what Unreported has are durable, or there was
// nothing. Until then NoteRows notes nothing.
func (d *Device) IsReported() bool { return !d.unreported.Load() }

// AskForLostRows makes Drop fail while mayBeLost says that rows are lost, and not made again yet.
func (d *Device) AskForLostRows(mayBeLost func() bool) { d.mayBeLost.Store(&mayBeLost) }

// mayDrop tells whether containers know the last writes, as far as that is known.
func (d *Device) mayDrop() bool {
	ask := d.mayBeLost.Load()
	return !d.owesRows.Load() && !d.unvisited.Load() && (ask == nil || !(*ask)())
}

// Unreported returns nil after a clean stop. Else Visit and End must follow: until then
// no clean stop is written, so that the next process looks again. It must be called
// before the device is used.
func (d *Device) Unreported() *Unreported {
	if !d.wasKilled {
		return nil
	}
	d.unreported.Store(true)
	d.unvisited.Store(true)
	d.synced.mu.RLock()
	defer d.synced.mu.RUnlock()
	return &Unreported{device: d, peers: maps.Clone(d.synced.peers)} // what is known of a partition is replaced as a whole
}

// Visit calls visit with the newest records of each partition that count, oldest first:
// those behind the position of NoteRows. Where none is known, those that not all known
// peers had when the device was opened, at most unreportedMax. It ends with the first
// error of visit, with that of ctx, or with ErrOut or ErrClosed. It waits for a device that
// is busy. A partition that fails as a whole is logged and left out: the next process looks
// at it again. A record that cannot be read is damage, and is not visited.
func (u *Unreported) Visit(ctx context.Context, visit func(Location, *format.Record, *format.Metadata) error) error {
	d := u.device
	entries, err := d.fs.ReadDir(d.root)
	if err != nil {
		return fmt.Errorf("device: %w", err)
	}
	u.hasAll = false
	hasAll := true
	for _, entry := range entries {
		policy, ok := parsePolicyDirectory(entry)
		if !ok || (u.isUndelivered && policy != u.policy) {
			continue
		}
		isRead, err := u.visitPolicy(ctx, policy, visit)
		if err != nil {
			return err
		}
		hasAll = hasAll && isRead
	}
	u.hasAll = hasAll
	return nil
}

// visitAgainAfter is how long a visit waits for a device that is busy, or does not answer.
const visitAgainAfter = 200 * time.Millisecond

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// visitPolicy visits partitions until there is none that it has not visited: those that are split
// meanwhile leave halves. It returns false if not all could be read.
func (u *Unreported) visitPolicy(
	ctx context.Context, policy int, visit func(Location, *format.Record, *format.Metadata) error,
) (bool, error) {
	visited := make(map[bundle.ID]bool)
	hasAll := true
	for before := -1; before < len(visited); {
		before = len(visited)
		partitions, err := u.device.Partitions(policy)
		if err != nil {
			return false, err
		}
		for _, partition := range partitions {
			id, ok := u.device.bundleIn(policy, partition)
			if !ok || visited[id] {
				continue
			}
			if err := ctx.Err(); err != nil {
				return false, err
			}
			visited[id] = true
			isRead, err := u.visitPartition(id, visit)
			for errors.Is(err, ErrBusy) || errors.Is(err, ErrStuck) {
				if err := pause(ctx, visitAgainAfter); err != nil {
					return false, err
				}
				isRead, err = u.visitPartition(id, visit)
			}
			if err != nil {
				return false, err
			}
			hasAll = hasAll && isRead
		}
	}
	return hasAll, nil
}

// HasAll tells whether the last Visit has read all partitions.
func (u *Unreported) HasAll() bool { return u.hasAll }

// End says that the rows of what Visit found are durable.
func (u *Unreported) End() {
	if u.isUndelivered { // AskForLostRows tells
		return
	}
	u.device.unvisited.Store(false)
	if u.hasAll {
		u.device.unreported.Store(false)
	}
}

// isSplit tells whether a bundle has been split since it was listed.
func (u *Unreported) isSplit(id bundle.ID) bool {
	now, ok := u.device.bundleIn(id.Policy, id.Partition)
	return !ok || now != id
}

// visitPartition returns false if the partition cannot be read, or was repaired meanwhile.
// An error ends the visits.
func (u *Unreported) visitPartition(id bundle.ID, visit func(Location, *format.Record, *format.Metadata) error) (bool, error) {
	r := u.device.Replica(id.Policy, id.Partition)
	from, through, err := u.span(r)
	var stopped error
	if err == nil && from.LSN < through {
		want := func(e *format.Entry) bool { return e.LSN <= through }
		_, err = r.ExportHeads(from, want, func(raw RawRecord) error {
			record := new(format.Record)
			if _, err := record.ParsePart(raw.Bytes, true); err != nil {
				return err
			}
			m, err := record.Metadata()
			if err == nil {
				stopped = visit(Location{r.policy, r.partition, record.Hash()}, record, m)
				err = stopped
			}
			return err
		})
	}
	switch {
	case stopped != nil, errors.Is(err, ErrOut), errors.Is(err, ErrClosed), errors.Is(err, ErrBusy), errors.Is(err, ErrStuck):
		return false, err
	case (errors.Is(err, ErrChanged) || errors.Is(err, errMoved)) && u.isSplit(id): // its halves are visited
	case err != nil && !errors.Is(err, ErrInvalid): // what is left of a split has no records
		u.device.options.Logger.Error("containers may not know the last writes of a partition", "device", u.device.root,
			"policy", r.policy, "partition", r.partition, "error", err)
		return false, nil
	}
	return true, nil
}

// span is what to visit of a partition: from after a position through the last LSN that
// it had when it was opened, or has now if rows were lost since.
func (u *Unreported) span(r Replica) (from bundle.Position, through uint64, err error) {
	err = r.during(func(b *bundle.Bundle) error {
		from.Bundle = b.Identity()
		peer := toldPeer
		if through = r.device.partitionOf(b.ID()).lastAtOpening(); u.isUndelivered {
			peer, through = deliveredPeer, b.Acknowledged()
		}
		// Peers may have got since what no container knows, and the other way round. NoteRows notes
		// nothing before End, so this is from before the start, or from a partition that was split.
		if noted := r.device.synced.of(b, peer); noted.Bundle != (format.Identity{}) {
			if from = noted; noted.LSN == 0 && through > newMax {
				from.LSN = through - newMax
			}
			return nil
		}
		isKnown := false
		for _, h := range u.peers[placeOf(b.ID())] {
			if h.Bundle != from.Bundle || isRowPeer(h.peer) {
				continue
			}
			if !isKnown || h.LSN < from.LSN {
				from.LSN = h.LSN
			}
			isKnown = true
		}
		if through > unreportedMax {
			from.LSN = max(from.LSN, through-unreportedMax)
		}
		return nil
	})
	return from, through, err
}

func (p *partition) lastAtOpening() uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.last
}
