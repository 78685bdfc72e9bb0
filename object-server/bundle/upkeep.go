package bundle

import (
	"errors"
	"fmt"

	"martlet/object-server/bundle/format"
	"martlet/object-server/bundle/segment"
	"martlet/object-server/failpoint"
	"martlet/object-server/vfs"
)

// NeedsUpkeep tells whether Seal or Checkpoint have something to do. It says so
// once for each reason.
func (b *Bundle) NeedsUpkeep() bool { return b.upkeep.Swap(false) }

// extent is the part of a segment that is durable, as it was at one moment.
type extent struct {
	segment    *openSegment
	tail       int64
	last       uint64
	checkpoint uint32
	resume     uint32 // unit of the first record that no CHECKPOINT covers
	covered    uint64 // last LSN before it
	sealed     bool   // has a footer; one that it gets later may list later records
}

// Seal writes a footer behind each segment that gets no more records, so that
// opening the bundle need not read the records. A crash leaves a piece of it,
// which is behind the end and means nothing. One goroutine at a time may call
// it; writes go on meanwhile.
func (b *Bundle) Seal() error {
	for {
		x, ok := b.unsealed()
		if !ok {
			return nil
		}
		err := b.seal(&x)
		if format.IsDamage(err) { // stays as it is: opening it must meet the damage
			b.mu.Lock()
			x.segment.damaged = true
			b.mu.Unlock()
			continue
		}
		if err != nil {
			return err
		}
	}
}

// unsealed finds a segment to seal, and pins it.
func (b *Bundle) unsealed() (extent, bool) {
	b.mu.RLock()
	defer b.mu.RUnlock()
	for _, s := range b.segments.table {
		if s != nil && !s.hidden && s != b.active && !s.sealed && !s.damaged && !s.inherited && s.last >= s.base {
			return b.segments.extent(s), true
		}
	}
	return extent{}, false
}

func (t *segments) extent(s *openSegment) extent {
	t.pin(s.number)
	return extent{s, s.tail, s.last, s.checkpoint, s.resume, s.covered, s.sealed}
}

func (b *Bundle) seal(x *extent) error {
	s := x.segment
	defer s.unpin()
	file, err := b.files.get(s.key(b.id))
	if err != nil {
		return err
	}
	defer file.release()
	entries, err := b.entries(file, x)
	if isUnreadable(err) {
		err = fmt.Errorf("%w: %w", format.ErrDamaged, err)
	}
	if err != nil {
		return err
	}
	samples := format.SamplesOf(entries, s.base)
	format.SortRun(entries)
	footer, err := s.footer(x.last, entries, samples)
	if err != nil {
		return err
	}
	if s.life != nil { // from here on it is a segment as any other
		if err := file.Truncate(s.life.frontier); err != nil {
			return fmt.Errorf("bundle: %w", err)
		}
	}
	if err := writeFooter(file, footer); err != nil {
		return err
	}
	size, err := file.Size()
	if err != nil {
		return fmt.Errorf("bundle: %w", err)
	}
	failpoint.Hit(failpoint.Sealed)
	b.mu.Lock()
	defer b.mu.Unlock()
	s.sealed, s.samples, s.life, s.run = true, nil, nil, size-int64(len(footer))
	return nil
}

// footer is that of the segment, whose last LSN is given, as it may grow.
func (s *openSegment) footer(last uint64, entries []format.Entry, samples []format.Sample) ([]byte, error) {
	seal := format.Seal{Salt: s.salt, Base: s.base, Last: last, Through: s.through, Horizon: s.horizon}
	return seal.Encode(entries, samples)
}

// writeFooter appends the footer of a segment and makes it durable, and gives
// back the room behind it. When the disk is full it leaves the file as it was.
func writeFooter(file *handle, footer []byte) error {
	size, err := file.Size()
	if err != nil {
		return fmt.Errorf("bundle: %w", err)
	}
	at := (size + format.UnitSize - 1) / format.UnitSize * format.UnitSize
	if err := file.Writev([][]byte{footer}, at); err != nil {
		if errors.Is(err, vfs.ErrNoSpace) {
			_ = file.Truncate(size) // if that fails a piece of footer stays, which means nothing
		}
		return fmt.Errorf("bundle: %w", err)
	}
	return complete(file, at+int64(len(footer)))
}

// complete makes a file that grows no more durable, and gives back the room
// behind its end.
func complete(file vfs.File, size int64) error {
	err := file.Truncate(size)
	if err == nil {
		err = file.Datasync()
	}
	if err != nil {
		return fmt.Errorf("bundle: %w", err)
	}
	return nil
}

// entries lists the named records of an extent. ErrDamaged when a header there does not count.
func (b *Bundle) entries(file *handle, x *extent) ([]format.Entry, error) {
	covered, from, err := b.covered(file, x)
	if err != nil {
		return nil, err
	}
	rest, err := segment.List(file, x.segment.origin(), from, x.tail)
	return append(covered, rest...), err
}

// entriesAround is entries, but goes on behind what does not count, and tells where that lies.
func (b *Bundle) entriesAround(file *handle, x *extent) ([]format.Entry, []segment.Span, error) {
	covered, from, err := b.covered(file, x)
	if err != nil {
		return nil, nil, err
	}
	rest, gaps, err := segment.ListAround(file, x.segment.origin(), from, x.tail)
	return append(covered, rest...), gaps, err
}

// covered lists what the checkpoints of an extent say, and where the records behind them begin.
func (b *Bundle) covered(file *handle, x *extent) ([]format.Entry, segment.Place, error) {
	s := x.segment
	start := segment.Place{Offset: format.SegmentHeaderSize, LSN: s.base}
	if x.checkpoint == 0 {
		return nil, start, nil
	}
	covered, err := segment.ReadCheckpoints(file, s.origin(), x.tail, x.checkpoint)
	switch {
	case format.IsDamage(err):
		return nil, start, nil
	case err != nil:
		return nil, start, err
	}
	return covered.Entries, covered.Next(), nil
}

// Checkpoint returns a sealed draft of a CHECKPOINT record if one is due, else
// nil. The caller appends and frees it. Rules as of Seal.
func (b *Bundle) Checkpoint() (*Draft, error) {
	b.mu.RLock()
	s := b.active
	if s == nil || s.damaged || !b.checkpointDue(s) {
		b.mu.RUnlock()
		return nil, nil
	}
	x := b.segments.extent(s)
	b.mu.RUnlock()
	defer s.unpin()
	file, err := b.files.get(s.key(b.id))
	if err != nil {
		return nil, err
	}
	defer file.release()
	run, err := segment.List(file, s.origin(), segment.Place{Offset: int64(x.resume) * format.UnitSize, LSN: x.covered + 1}, x.tail)
	if err != nil {
		return nil, b.uncheckpointed(s, err)
	}
	format.SortRun(run)
	body := format.Checkpoint{Sequence: s.sequence, Before: x.checkpoint, Resume: uint32(x.tail / format.UnitSize)}
	encoded := format.AppendRun(body.Prefix(), s.base, run)
	d := NewDraft(len(encoded))
	d.Write(encoded)
	return d, d.sealCheckpoint(x.last)
}

// checkpointDue tells whether enough has been written to a segment since its
// last CHECKPOINT. b.mu is held.
func (b *Bundle) checkpointDue(s *openSegment) bool {
	return s.tail-int64(s.resume)*format.UnitSize >= b.config.CheckpointBytes || s.records >= checkpointRecords
}

// uncheckpointed marks a segment whose records cannot all be read: it gets no
// CHECKPOINT and no footer any more.
func (b *Bundle) uncheckpointed(s *openSegment, err error) error {
	if !format.IsDamage(err) && !isUnreadable(err) {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	s.damaged = true
	return nil
}
