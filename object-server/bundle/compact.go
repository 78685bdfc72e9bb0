package bundle

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"martlet/object-server/bundle/compact"
	"martlet/object-server/bundle/format"
	"martlet/object-server/bundle/index"
)

// Compaction says how a bundle is to be compacted.
type Compaction struct {
	// Lock and Unlock keep a name from being written.
	Lock, Unlock func(format.Hash)
	// Pace is told before so many bytes are copied, also of 0. Its error ends the
	// compaction, and nothing has happened then.
	Pace func(bytes int) error
	// Settle is called before replaced segments are removed, and returns when what
	// was written to them is durable, and will not be written to them again. After
	// an error they stay until the next compaction.
	Settle func() error
	// Share of a run of segments that must be dead for it to be rewritten.
	Share float64
	// Least bytes of it must be dead as well; 0: as is worth it in the long run.
	Least int64
	// Room is how many bytes may be written.
	Room int64
	// Only these segments are rewritten, each alone, whatever is dead in them; nil: as is worth it.
	Only []Inherited
	// A tombstone may go if it is from before Reclaim, and all replicas have what the
	// bundle has up to its LSN, as ReclaimThrough says. Zero: none may.
	Reclaim        format.Timestamp
	ReclaimThrough uint64
}

// Compacted tells what a compaction did.
type Compacted struct {
	Segments   int   // replaced; 0: there was nothing to do
	Bytes      int64 // of records that were copied
	Freed      int64 // bytes of records, less those of the copy
	Tombstones int   // that were left out although they count
	Versions   int   // removed or replaced ones that lost their data

	// Inherited segments were replaced, whose room comes back when the sibling of the
	// partition has rewritten them too.
	Inherited []Inherited
}

// Inherited names a segment from before a partition was split.
type Inherited struct{ sequence, generation uint32 }

// compactionLeast are dead bytes that are worth a rewrite, in segments of the
// usual size.
const compactionLeast = 256 << 10

// DeadShare of a run of segments is dead when it is usually rewritten.
const DeadShare = 0.5

// Compact rewrites one run of neighbouring segments into one, without what no
// longer counts. LSNs, timestamps and bodies stay. The new segment is complete
// and durable before it gets its name, and replaces the others by that name
// alone: a crash leaves all of the old ones, or the new one with any of the old
// ones, which the next opening removes. Reads and writes go on meanwhile. One
// goroutine at a time may call it.
//
// Segments that turn out to be damaged stay as they are. After an error nothing
// has changed but the room that is taken.
func (b *Bundle) Compact(c *Compaction) (Compacted, error) {
	b.reap(c)
	for b.stuck == nil {
		run, next := b.victims(c)
		if next == nil {
			break
		}
		done, err := b.rewrite(c, run, next)
		if err == nil {
			return done, nil
		}
		if err := b.giveUp(next, err); err != nil {
			return done, err
		}
	}
	return Compacted{}, nil
}

// giveUp takes back what victims did. It returns the error unless it is about a
// segment that from now on stays as it is.
func (b *Bundle) giveUp(next *openSegment, err error) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.segments.remove(next)
	if next.filter != nil {
		next.filter.Free()
	}
	var bad *badSegment
	if !errors.As(err, &bad) {
		return err
	}
	bad.segment.unfit = true
	b.tell(b.inSegment(bad.segment, fmt.Errorf("%s is not compacted: %w", b.files.path(bad.segment.key(b.id)), err)))
	return nil
}

// badSegment is why a segment cannot be copied.
type badSegment struct {
	segment *openSegment
	cause   error
}

func (e *badSegment) Error() string { return e.cause.Error() }
func (e *badSegment) Unwrap() error { return e.cause }

// victims chooses the run to rewrite and makes its successor, which is hidden.
func (b *Bundle) victims(c *Compaction) (run []*openSegment, next *openSegment) {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := b.segments.inOrder()
	usages := make([]compact.Usage, len(all))
	isScarce := c.Least > 0
	for i, s := range all {
		if c.Only != nil && !slices.Contains(c.Only, Inherited{s.sequence, s.generation}) {
			usages[i] = compact.Usage{Fixed: true}
			continue
		}
		usages[i] = compact.Usage{
			All: s.units * format.UnitSize, Live: s.live * format.UnitSize, Cost: s.live*format.UnitSize + int64(s.named)*footerCost, Base: s.base, Last: s.last,
			Gap:   i > 0 && all[i-1].last+1 < s.base,
			Fixed: s == b.active || s.damaged || s.unfit || !s.sealed || s.isFiling || b.config.IndexOnDisk && s.filter == nil,
		}
		if s.inherited && isScarce { // it gives back room only when both halves have been copied
			usages[i].Cost, usages[i].Alone = s.tail, true
		}
	}
	a := compact.Appetite{
		Capacity: b.config.SegmentBytes - format.SegmentHeaderSize - format.HeaderSize, Room: c.Room - footerRoom, Share: c.Share,
		Least: b.compactionLeast(c.Least),
	}
	from, to := a.Choose(usages)
	if c.Only != nil {
		from, to = a.First(usages)
	}
	if from == to {
		return nil, nil
	}
	run = all[from:to]
	first, last := run[0], run[len(run)-1]
	next = &openSegment{
		sequence: first.sequence, through: last.through, generation: first.generation + 1,
		base: first.base, last: last.last, sealed: true, hidden: true,
	}
	for _, s := range run {
		next.generation = max(next.generation, s.generation+1)
	}
	if b.segments.add(next, true) != nil {
		return nil, nil // all numbers are taken until a reader is done
	}
	return run, next
}

// inOrder lists the segments in log order, but for those in which nothing counts:
// a crash has torn their first batch, and their successors stand in their place.
func (t *segments) inOrder() []*openSegment {
	all := make([]*openSegment, 0, len(t.table))
	for _, s := range t.table {
		if s != nil && !s.hidden && s.last >= s.base {
			all = append(all, s)
		}
	}
	slices.SortFunc(all, func(s, u *openSegment) int { return cmp.Compare(s.sequence, u.sequence) })
	return all
}

// footerCost is what a footer has for a record, with its sample; footerRoom what
// it has beside, and what the file system takes for the file.
const (
	footerCost = format.EntrySize + 8
	footerRoom = 16 << 10
)

// compactionLeast is how many bytes must be dead for a rewrite, if not as many as
// wanted.
func (b *Bundle) compactionLeast(wanted int64) int64 {
	usual := min(compactionLeast, b.config.SegmentBytes/16)
	if wanted == 0 {
		return usual
	}
	return min(wanted, usual)
}

// ripeShare of a bundle's bytes are in the segment that grows, at least, when it
// is closed before it is full.
const ripeShare = 1.0 / 16

// isRipe tells whether the segment that grows is better closed, because so much
// of the bundle is dead that it should be rewritten as a whole. Where a partition
// is no larger than a few segments, most of its garbage would otherwise wait for
// one to fill up. b.mu is held.
func (b *Bundle) isRipe(share float64, least int64) bool {
	var all, live int64
	for _, s := range b.segments.table {
		if s != nil && !s.hidden {
			all, live = all+s.units, live+s.live
		}
	}
	dead := all - live
	isLarge := float64(b.active.units) >= ripeShare*float64(all)
	if least > 0 { // any that has garbage is
		isLarge = b.active.units-b.active.live >= least/format.UnitSize
	}
	return dead*format.UnitSize >= b.compactionLeast(least) && float64(dead) >= share*float64(all) && isLarge
}

// isTurning tells whether the next append is to go to a new segment.
func (b *Bundle) isTurning() bool {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return b.turn || b.isRipe(DeadShare, 0) || b.isLong()
}

// Turn returns a draft that makes the log go on in a new segment, if the one that
// grows is better closed; else nil. The caller appends and frees it. Share and
// least as of Compaction.
func (b *Bundle) Turn(share float64, least int64) *Draft {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.active == nil || !b.isRipe(share, least) {
		return nil
	}
	b.turn = true
	d := NewDraft(0)
	d.sealPad()
	return d
}

// reap removes the files of replaced segments that no reader uses any more. If that
// fails, the next opening of the bundle does it.
func (b *Bundle) reap(c *Compaction) {
	gone := b.unread()
	if len(gone) == 0 || c.Settle() != nil {
		return
	}
	b.mu.Lock()
	for _, s := range gone {
		b.segments.remove(s)
		if s.filter != nil {
			s.filter.Free()
		}
		for at := range b.damaged { // the number will be another's
			if at%index.SegmentsMax == uint64(s.number) {
				delete(b.damaged, at)
			}
		}
		for at := range b.superseded {
			if at%index.SegmentsMax == uint64(s.number) {
				delete(b.superseded, at)
			}
		}
	}
	b.mu.Unlock()
	for _, s := range gone {
		b.files.giveBack(s.key(b.id), s.inherited)
	}
}

// unread lists the replaced segments without readers. There will be no new ones.
func (b *Bundle) unread() (gone []*openSegment) {
	b.mu.RLock()
	defer b.mu.RUnlock()
	for _, s := range b.segments.table {
		if s != nil && s.hidden && s.pins.Load() == 0 {
			gone = append(gone, s)
		}
	}
	return gone
}
