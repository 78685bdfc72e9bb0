package bundle

import (
	"cmp"
	"fmt"
	"slices"

	"martlet/object-server/bundle/buffers"
	"martlet/object-server/bundle/format"
	"martlet/object-server/bundle/index"
	"martlet/object-server/bundle/segment"
	"martlet/object-server/bundle/sethash"
)

// copySegment copies what counts of one old segment.
func (w *rewriter) copySegment(s *openSegment) error {
	file, err := w.bundle.files.get(s.key(w.bundle.id))
	if err != nil {
		return err
	}
	defer file.release()
	entries, err := w.bundle.listed(file, s)
	if err != nil {
		return unfit(s, err)
	}
	return w.copyEntries(file, s, entries)
}

// unfit makes of an error of reading a segment the one that says to leave it as
// it is, if it is about damage or a bad sector.
func unfit(s *openSegment, err error) error {
	if format.IsDamage(err) || isUnreadable(err) {
		return &badSegment{s, err}
	}
	return err
}

func (w *rewriter) copyEntries(file *handle, s *openSegment, entries []listedEntry) error {
	source := segment.NewWindow(file, s.tail, segment.WindowSize)
	defer source.Close()
	for chunk := range slices.Chunk(entries, lookUp) {
		if err := w.Pace(0); err != nil {
			return err
		}
		isNewest, mayBeVersion := w.bundle.counting(s, chunk)
		for _, e := range chunk {
			become := fateDropped
			var err error
			if isNewest[e.LSN] {
				become = fateNewest
			} else if mayBeVersion[e.LSN] {
				become, err = w.fates.of(&e.Entry)
			}
			if err == nil && become != fateDropped {
				err = w.copyRecord(&source, s, &e, become)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// listed lists the named records of a sealed segment by LSN.
func (b *Bundle) listed(file *handle, s *openSegment) ([]listedEntry, error) {
	run, _, err := segment.ReadFooter(file)
	if format.IsDamage(err) {
		run, err = segment.List(file, s.origin(), segment.Place{Offset: format.SegmentHeaderSize, LSN: s.base}, s.tail)
		format.SortRun(run)
	}
	own := b.own(s, run)
	entries := make([]listedEntry, len(own))
	for i := range own {
		entries[i] = listedEntry{own[i], uint32(i)}
	}
	slices.SortFunc(entries, func(e, f listedEntry) int { return cmp.Compare(e.LSN, f.LSN) })
	return entries, err
}

// counting returns the LSNs of the records that the index points at, and of
// those that belong to a name that may have versions.
func (b *Bundle) counting(s *openSegment, entries []listedEntry) (isNewest, mayBeVersion map[uint64]bool) {
	isNewest, mayBeVersion = make(map[uint64]bool), make(map[uint64]bool)
	var space [4]index.Slot
	b.mu.RLock()
	defer b.mu.RUnlock()
	for i := range entries {
		e := &entries[i]
		if s.filter != nil {
			state := s.filter.State(e.position)
			isNewest[e.LSN], mayBeVersion[e.LSN] = state == index.Newest, state == index.Linked
			continue
		}
		at := s.slotOf(&e.Entry).At()
		for _, found := range b.index.Find(e.Hash.Key(), space[:0]) {
			if found.At() == at {
				isNewest[e.LSN] = true
			} else if found.IsChained() {
				mayBeVersion[e.LSN] = true
			}
		}
	}
	return isNewest, mayBeVersion
}

// copyRecord copies one record with a header for its new place, whole or emptied.
// It does not look at the body, which proves itself wherever it lies.
func (w *rewriter) copyRecord(source *segment.Window, s *openSegment, e *listedEntry, become fate) error {
	offset := int64(e.Unit) * format.UnitSize
	p, err := source.At(offset, format.HeaderSize)
	if err != nil {
		return unfit(s, err)
	}
	h, err := format.ParseHeader(p)
	if err == nil && (h.Salt != s.salt || h.Entry(e.Unit) != e.Entry) {
		err = fmt.Errorf("%w: record %d is not where the footer says", format.ErrDamaged, e.LSN)
	}
	if err != nil {
		return unfit(s, err)
	}
	m := move{e.Entry, s, e.Unit, e.position}
	if become == fateNewest && w.isReclaimed(&h) {
		w.reclaimed = append(w.reclaimed, m)
		w.next.horizon = max(w.next.horizon, w.reclaimBefore())
		return nil
	}
	if become == fateEmptied {
		if p, _, err = readRecord(source, offset, int64(h.Layout().Data)); err != nil {
			return unfit(s, err)
		}
		if directory, ok := empty(&h, p); ok {
			m.Units, m.Type, m.Flags = uint32(len(directory)/format.UnitSize), format.TypeVersionDirectory, (format.FlagVersions|format.FlagBlock)>>8
			w.emptied++
			return w.move(&m, directory)
		}
	}
	p, buffer, err := readRecord(source, offset, int64(e.Units)*format.UnitSize)
	defer buffer.Free()
	if err != nil {
		return unfit(s, err)
	}
	return w.move(&m, p)
}

// readRecord reads a record or the start of one, from the window if it fits in,
// else into a buffer, which is the caller's.
func readRecord(source *segment.Window, offset, length int64) ([]byte, *buffers.Buffer, error) {
	if length <= segment.WindowSize {
		p, err := source.At(offset, int(length))
		return p, nil, err
	}
	buffer := buffers.Get(int(length))
	if err := segment.ReadFull(source.File(), buffer.B, offset); err != nil {
		return nil, buffer, fmt.Errorf("bundle: %w", err)
	}
	return buffer.B, buffer, nil
}

// move appends a record to the new segment. p is changed.
func (w *rewriter) move(m *move, p []byte) error {
	start := w.written + int64(len(w.buffer.B))
	if start+int64(len(p)) > index.UnitsMax*format.UnitSize { // with versions that have been removed
		return &badSegment{m.from, fmt.Errorf("%w: compacted segment", format.ErrTooLarge)}
	}
	m.Unit = uint32(start / format.UnitSize)
	w.moves = append(w.moves, *m)
	return w.put(p)
}

// isReclaimed tells whether a tombstone that counts has served its time. Only the
// oldest segments may lose one: anywhere else an older record of the name, in a
// segment before, would come back when the index is next built.
func (w *rewriter) isReclaimed(h *format.Header) bool {
	return h.Type == format.TypeTombstone && h.Flags&format.FlagVersions == 0 && w.isOldest &&
		h.Timestamp.Ticks < w.reclaimBefore() && h.LSN <= w.ReclaimThrough && w.bundle.lostThrough == 0
}

// reclaimBefore is Reclaim at the start of its day: tombstones are reclaimed by whole
// days, so that replicas can leave out the same ones when they compare.
func (w *rewriter) reclaimBefore() uint64 { return sethash.StartOfDay(w.Reclaim.Ticks) }

// put appends a record to the file. p is changed.
func (w *rewriter) put(p []byte) error {
	format.Restamp(p, w.next.salt)
	if len(w.buffer.B)+len(p) > pieceBytes {
		if err := w.drain(); err != nil {
			return err
		}
	}
	if len(p) > pieceBytes {
		return w.write(p)
	}
	w.buffer.B = append(w.buffer.B, p...)
	return nil
}
