package bundle

import (
	"fmt"

	"martlet/object-server/bundle/format"
	"martlet/object-server/bundle/index"
	"martlet/object-server/bundle/segment"
)

// Where the index is on disk (Config.IndexOnDisk), segments with a footer keep a
// filter of it in memory, and all others are in the index as usual. A name's
// newest record is in one of the two.

// filedLeast records, and filedShare of all, are in the segment that grows when
// it is closed for the sake of memory: the index of a segment goes to disk only
// once it is closed.
const (
	filedLeast = 4096
	filedShare = 1.0 / 32
)

// filed appends what the filters have for a name. b.mu is held.
func (b *Bundle) filed(found []candidate, hash format.Hash) []candidate {
	var space [4]uint32
	for _, s := range b.segments.table {
		if s == nil || s.filter == nil {
			continue
		}
		for _, position := range s.filter.Find(space[:0], hash) {
			at := index.NewEntrySlot(s.number, position)
			if b.superseded.has(at.At(), hash) {
				continue
			}
			found = append(found, candidate{slot: at, segment: b.segments.pin(s.number), damaged: b.damaged[at.At()]})
		}
	}
	return found
}

// makeFilters makes the filters of the segments that opening has read the footers
// of. The entries are sorted by name and LSN, as they are in each footer.
func (b *Bundle) makeFilters(entries []found) {
	if !b.config.IndexOnDisk {
		return
	}
	runs := make(map[*openSegment][]format.Entry)
	for i := range entries {
		if e := &entries[i]; e.segment.run != 0 {
			runs[e.segment] = append(runs[e.segment], e.Entry)
		}
	}
	for _, s := range b.segments.table {
		if s != nil && s.run != 0 {
			s.filter = index.NewFilter(b.files.pages, runs[s])
		}
	}
}

// entry reads the footer's entry of a candidate.
func (b *Bundle) entry(c *candidate) (format.Entry, error) {
	s := c.segment
	file, err := b.files.get(s.key(b.id))
	if err != nil {
		return format.Entry{}, err
	}
	defer file.release()
	var p [format.EntrySize]byte
	if err := segment.ReadFull(file, p[:], s.run+int64(c.slot.Unit())*format.EntrySize); err != nil {
		return format.Entry{}, fmt.Errorf("bundle: %w", err)
	}
	return format.ParseEntry(p[:], s.base)
}

// successorState is that of an entry whose name gets another record.
func successorState(isChained bool) uint8 {
	if isChained {
		return index.Linked
	}
	return index.Dead
}

// isLong tells whether the segment that grows holds so many names that its index
// belongs on disk. b.mu is held.
func (b *Bundle) isLong() bool {
	if !b.config.IndexOnDisk || b.active.named < filedLeast {
		return false
	}
	all := 0
	for _, s := range b.segments.table {
		if s != nil && !s.hidden {
			all += s.named
		}
	}
	return float64(b.active.named) >= filedShare*float64(all)
}

// FileIndex moves the index of segments that have got a footer there, where the
// index is on disk. It goes in the order of the log, so that what is newer than a
// record is still in memory when the record is moved. Lock and unlock keep a name
// from being written; rules else as of Seal.
func (b *Bundle) FileIndex(lock, unlock func(format.Hash)) error {
	if !b.config.IndexOnDisk {
		return nil
	}
	for {
		s := b.unfiled()
		if s == nil {
			return nil
		}
		err := b.file(s, lock, unlock)
		if format.IsDamage(err) || isUnreadable(err) { // its index stays in memory
			b.mu.Lock()
			s.unfit = true
			b.mu.Unlock()
			b.tell(b.inSegment(s, fmt.Errorf("%s: %w", b.files.path(s.key(b.id)), err)))
			continue
		}
		if err != nil {
			return err
		}
	}
}

// unfiled is the first segment whose index is to be moved; nil if there is none.
func (b *Bundle) unfiled() *openSegment {
	b.mu.RLock()
	defer b.mu.RUnlock()
	for _, s := range b.segments.inOrder() {
		switch {
		case s.filter != nil || s.damaged || s.unfit || s.inherited:
		case s == b.active || !s.sealed:
			return nil
		default:
			return s
		}
	}
	return nil
}

// mayBeChained tells whether a name may have versions, as far as memory tells. A
// record of the segment is not its newest. b.mu is held.
func (b *Bundle) mayBeChained(s *openSegment, hash format.Hash) bool {
	if b.hasVersions(hash) {
		return true
	}
	var space [4]uint32
	for _, later := range b.segments.table { // one that got its footer out of order
		if later != nil && later.filter != nil && later.sequence > s.sequence && len(later.filter.Find(space[:0], hash)) > 0 {
			return true
		}
	}
	return false
}

func (b *Bundle) file(s *openSegment, lock, unlock func(format.Hash)) error {
	file, err := b.files.get(s.key(b.id))
	if err != nil {
		return err
	}
	defer file.release()
	run, _, err := segment.ReadFooter(file)
	if err != nil {
		return err
	}
	f := index.NewFilter(b.files.pages, run)
	b.mu.Lock()
	s.filter, s.isFiling = f, true
	b.mu.Unlock()
	for i := range run {
		lock(run[i].Hash)
		b.fileEntry(s, run, i)
		unlock(run[i].Hash)
	}
	b.mu.Lock()
	s.isFiling = false
	b.mu.Unlock()
	return nil
}

// fileEntry moves one record from the index to the filter.
func (b *Bundle) fileEntry(s *openSegment, run []format.Entry, i int) {
	e := &run[i]
	was, is := s.slotOf(e), index.NewEntrySlot(s.number, uint32(i))
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.superseded.has(was.At(), e.Hash) {
		b.index.Remove(e.Hash.Key(), was)
	}
	switch {
	case b.index.Remove(e.Hash.Key(), was):
		s.filter.SetState(uint32(i), index.Newest)
		if b.damaged[was.At()] {
			delete(b.damaged, was.At())
			b.damaged[is.At()] = true
		}
	case e.IsChained() || i+1 < len(run) && run[i+1].Hash == e.Hash && run[i+1].IsChained() || b.mayBeChained(s, e.Hash):
		s.filter.SetState(uint32(i), index.Linked)
	}
}

// fileIndex makes the filter of the segment that compaction makes. All entries
// are dead until the records they are about are.
func (w *rewriter) fileIndex(run []format.Entry) {
	b := w.bundle
	if !b.config.IndexOnDisk {
		return
	}
	f := index.NewFilter(b.files.pages, run)
	b.mu.Lock()
	w.next.filter, w.next.run = f, w.next.tail
	b.mu.Unlock()
}

// relocateEntry makes the entry of a copied record what the old one was, and that
// dead; false if it is dead already. b.mu is held.
func (b *Bundle) relocateEntry(was, is index.Slot) bool {
	old, next := b.segments.table[was.Segment()].filter, b.segments.table[is.Segment()].filter
	state := old.State(was.Unit())
	if state == index.Dead {
		return false
	}
	old.SetState(was.Unit(), index.Dead)
	next.SetState(is.Unit(), state)
	if b.damaged[was.At()] {
		delete(b.damaged, was.At())
		b.damaged[is.At()] = true
	}
	return true
}
