package bundle

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
)

// Compaction says how a bundle is to be compacted.
type Compaction struct {
	// Lock and Unlock keep a name from being written.
	Lock, Unlock func(Hash)
	// Pace is told before so many bytes are copied, also of 0. Its error ends the
	// compaction, and nothing has happened then.
	Pace func(bytes int) error
	// Share of a run of segments that must be dead for it to be rewritten.
	Share float64
	// Room is how many bytes may be written.
	Room int64
	// Reclaim is the time before which a tombstone may go; zero: none may.
	Reclaim Timestamp
}

// Compacted tells what a compaction did.
type Compacted struct {
	Segments   int   // replaced; 0: there was nothing to do
	Bytes      int64 // of records that were copied
	Tombstones int   // that were left out although they count
}

const (
	compactionLeast = 256 << 10 // dead bytes that are worth a rewrite, in segments of the usual size
	staleBytes      = 1 << 20   // a half-dead segment of this size grows no more
)

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
	b.reap()
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
func (b *Bundle) giveUp(next *segment, err error) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.segments.remove(next)
	var bad *badSegment
	if !errors.As(err, &bad) {
		return err
	}
	bad.segment.unfit = true
	b.tell(fmt.Errorf("%s is not compacted: %w", b.files.path(bad.segment.key(b.id)), err))
	return nil
}

// badSegment is why a segment cannot be copied.
type badSegment struct {
	segment *segment
	cause   error
}

func (e *badSegment) Error() string { return e.cause.Error() }
func (e *badSegment) Unwrap() error { return e.cause }

// victims chooses the run to rewrite and makes its successor, which is hidden.
func (b *Bundle) victims(c *Compaction) (run []*segment, next *segment) {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := b.segments.inOrder()
	usages := make([]usage, len(all))
	for i, s := range all {
		usages[i] = usage{
			all: s.units * unitSize, live: s.live * unitSize, base: s.base, last: s.last,
			fixed: s == b.active || s.damaged || s.unfit || !s.sealed,
		}
	}
	a := appetite{
		capacity: min(b.config.SegmentBytes, c.Room) - segmentHeaderSize - headerSize, share: c.Share,
		least: min(compactionLeast, b.config.SegmentBytes/16),
	}
	from, to := a.choose(usages)
	if from == to {
		return nil, nil
	}
	run = all[from:to]
	first, last := run[0], run[len(run)-1]
	next = &segment{
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

// inOrder lists the segments in log order.
func (t *segments) inOrder() []*segment {
	all := make([]*segment, 0, len(t.table))
	for _, s := range t.table {
		if s != nil && !s.hidden {
			all = append(all, s)
		}
	}
	slices.SortFunc(all, func(s, u *segment) int { return cmp.Compare(s.sequence, u.sequence) })
	return all
}

// isStale tells whether the segment that grows is better closed, so that it can
// be compacted. Where a partition has little that is overwritten often, most of
// its garbage would otherwise be there.
func (b *Bundle) isStale(s *segment) bool {
	return s.units*unitSize >= min(staleBytes, b.config.SegmentBytes/4) && 2*s.live <= s.units
}

// Turn returns a draft that makes the log go on in a new segment, if the one that
// grows is better closed; else nil. The caller appends and frees it.
func (b *Bundle) Turn() *Draft {
	b.mu.RLock()
	defer b.mu.RUnlock()
	if b.active == nil || !b.isStale(b.active) {
		return nil
	}
	d := NewDraft(0)
	d.sealPad()
	return d
}

// reap removes the files of replaced segments that nobody reads any more. If that
// fails, the next opening of the bundle does it.
func (b *Bundle) reap() {
	var gone []*segment
	b.mu.Lock()
	for n, s := range b.segments.table {
		if s == nil || !s.hidden || s.pins.Load() > 0 {
			continue
		}
		b.segments.table[n] = nil
		gone = append(gone, s)
		for at := range b.damaged { // the number will be another's
			if at%slotSegments == uint64(n) {
				delete(b.damaged, at)
			}
		}
	}
	b.mu.Unlock()
	for _, s := range gone {
		b.files.forget(s.key(b.id))
		_ = b.files.FS.Remove(b.files.path(s.key(b.id)))
	}
}
