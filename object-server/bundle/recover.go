package bundle

import (
	"errors"
	"fmt"
	"io"
	"slices"

	"martlet/object-server/bundle/format"
	"martlet/object-server/bundle/index"
	"martlet/object-server/bundle/segment"
)

// recovery reads the segments of a bundle in log order. The rules it follows are
// in doc/formats/bundle.md, "Opening and recovery".
type recovery struct {
	bundle   *Bundle
	expected uint64       // LSN of the next record
	proven   uint64       // highest watermark seen: durable and acknowledged
	floor    uint64       // the same, as known before anything is read; see Files.Floor
	tail     []found      // not proven yet
	entries  []found      // what counts and has a name
	last     *openSegment // the newest segment, if it can take more records
	padded   bool         // the newest record is a PAD
}

// found is a record whose header counts.
type found struct {
	format.Entry
	segment *openSegment
}

// segment reads one segment up to a limit.
func (r *recovery) segment(s *SegmentFile, bound segment.Limit) error {
	r.last = nil
	switch {
	case s.IsBlank():
		if next := s.LostBlank(r.expected, bound); next > r.expected {
			r.lose(s.Sequence, 0, next)
		}
		return nil
	case s.Headless && bound.LSN <= s.Base: // void: a successor starts where it would have, or before
		return nil
	case bound.LSN < s.Base || s.Base < r.expected:
		return fmt.Errorf("%w: %s: base LSNs of the segments do not ascend", format.ErrUnsupported, r.bundle.directory)
	case !s.Headless:
		r.proven = max(r.proven, s.Base-1)
		if s.Worn {
			r.report("%s segment %08x: one of its two headers is lost", r.bundle.directory, s.Sequence)
		}
	case r.floor < r.expected && s.IsUnfinished(r.expected, bound):
		r.bundle.report.TornTails++
		return nil
	default:
		r.report("%s segment %08x: header is lost", r.bundle.directory, s.Sequence)
	}
	if s.Base > r.expected {
		r.lose(s.Sequence, 0, s.Base)
	}
	seg := s.open()
	for _, before := range r.bundle.segments.table { // the last one was closed when this was made
		if before.closed == 0 && s.Generation == 0 {
			before.closed = s.Created
		}
	}
	if err := r.bundle.segments.add(seg, true); err != nil {
		return err
	}
	file, err := r.bundle.files.get(seg.key(r.bundle.id))
	if err != nil {
		return err
	}
	defer file.release()
	if s.Seal != nil {
		err := r.footer(s, seg, file)
		if !errors.Is(err, format.ErrDamaged) {
			return err
		}
		// Torn by a crash, or damaged: the records say the same.
		r.bundle.report.Footers = append(r.bundle.report.Footers,
			fmt.Sprintf("%s segment %08x: %v", r.bundle.directory, s.Sequence, err))
	}
	return r.walk(s, seg, file, bound)
}

// footer takes what the footer of a sealed segment says.
func (r *recovery) footer(s *SegmentFile, seg *openSegment, file *handle) error {
	entries, _, err := segment.ReadSeal(file, s.Size, s.Seal)
	if err != nil {
		return err
	}
	r.proven = max(r.proven, s.Seal.Last)
	r.settle()
	from, to := r.bundle.ownRange(seg, entries)
	seg.foreign, seg.horizon = uint32(from), s.Seal.Horizon
	own := entries[from:to]
	for i := range own {
		r.entries = append(r.entries, found{own[i], seg})
	}
	r.bundle.report.Records += len(own)
	r.expected, r.padded = s.Seal.Last+1, false
	seg.last, seg.tail, seg.sealed = s.Seal.Last, s.Size-int64(s.Seal.Units)*format.UnitSize, true
	seg.run = seg.tail + int64(seg.foreign)*format.EntrySize
	return nil
}

// walk reads the records of a segment, those behind its last CHECKPOINT if it
// has one.
func (r *recovery) walk(s *SegmentFile, seg *openSegment, file *handle, bound segment.Limit) error {
	w := walk{recovery: r, file: s, segment: seg, walker: s.Walk(segment.NewWindow(file, s.End(), segment.WindowSize), bound)}
	defer w.walker.Close()
	w.walker.Acknowledged(r.floor)
	if !s.Headless && s.Generation == 0 {
		if err := w.resume(file); err != nil {
			return err
		}
	}
	if err := w.run(); err != nil {
		return err
	}
	seg.last, seg.tail = r.expected-1, w.walker.Next().Offset
	isOpen := w.isClean && !s.Headless && s.Generation == 0 && !s.Worn && (s.Capacity == 0 || r.bundle.files.Direct)
	if isOpen && w.walker.EndsWell() && bound == segment.NoLimit && s.Seal == nil && !s.Inherited {
		r.last = seg
	}
	return nil
}

// report notes damage for the log.
func (r *recovery) report(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	r.bundle.report.Damaged = append(r.bundle.report.Damaged, text)
	r.bundle.report.Extents = append(r.bundle.report.Extents, Damage{Cause: text})
}

// lose puts all records from the expected one up to the next LSN in quarantine.
func (r *recovery) lose(sequence uint32, offset int64, next uint64) {
	r.report("%s segment %08x offset %d: %s lost", r.bundle.directory, sequence, offset, recordNumbers(r.expected, next-1))
	extents := r.bundle.report.Extents
	d := &extents[len(extents)-1]
	d.Offset, d.FirstLSN, d.LastLSN = offset, r.expected, next-1
	r.bundle.lostThrough = next - 1
	r.expected = next
}

// finish ends the log where its last batch is torn, and completes the bundle.
func (r *recovery) finish() error {
	b := r.bundle
	if r.expected <= r.floor {
		r.report("%s: %s lost behind the last segment", b.directory, recordNumbers(r.expected, r.floor))
		b.lostThrough, r.expected, r.last = r.floor, r.floor+1, nil
	}
	torn, err := r.verifyTail()
	if err != nil {
		return err
	}
	for i := range r.tail[:torn] {
		r.accept(&r.tail[i])
	}
	if torn < len(r.tail) { // void from here on
		f := &r.tail[torn]
		r.expected, r.last = f.LSN, nil
		f.segment.last, f.segment.tail = f.LSN-1, int64(f.Unit)*format.UnitSize
		b.report.TornTails++
	}
	b.lastLSN, b.provenLSN, b.acknowledged = r.expected-1, r.proven, r.proven
	if torn > 0 {
		b.acknowledged = max(r.proven, r.tail[torn-1].LSN)
	}
	b.active, b.padded = r.last, r.padded
	b.build(r.entries)
	return nil
}

// verifyTail verifies the bodies of the last batch, which nothing proves durable.
// It returns how many records of the tail count. A body that cannot be read may have
// been acknowledged: it counts, with all before it, and is met when it is read.
func (r *recovery) verifyTail() (count int, err error) {
	count = len(r.tail)
	for i := len(r.tail) - 1; i >= 0 && r.tail[i].LSN > max(r.proven, r.bundle.lostThrough); i-- {
		err := r.bundle.verify(&r.tail[i])
		switch {
		case segment.IsBadSector(err):
			r.last = nil
			return count, nil
		case errors.Is(err, format.ErrDamaged):
			count = i
		case err != nil:
			return 0, err
		}
	}
	return count, nil
}

// accept notes a record that counts.
func (r *recovery) accept(f *found) {
	r.padded = f.Type == format.TypePad
	f.segment.records++
	if f.Type.Named() && r.bundle.owns(f.segment, f.Hash) {
		r.bundle.report.Records++
		r.entries = append(r.entries, *f)
	}
}

// settle accepts what is proven by now, so that the tail stays short.
func (r *recovery) settle() {
	n := 0
	for n < len(r.tail) && r.tail[n].LSN <= r.proven {
		r.accept(&r.tail[n])
		n++
	}
	r.tail = append(r.tail[:0], r.tail[n:]...)
}

// build makes the index: of each name the record with the highest LSN. It leaves
// the entries sorted by name and LSN.
func (b *Bundle) build(entries []found) {
	slices.SortFunc(entries, func(e, f found) int { return e.Compare(f.Entry) })
	b.makeFilters(entries)
	names := 0
	for i := range entries {
		e := &entries[i]
		s := e.segment
		state := uint8(index.Dead)
		if isLinked(entries, i) {
			s.live += int64(e.Units)
			state = index.Linked
		}
		if isNewest(entries, i) {
			state = index.Newest
		}
		if s.filter != nil {
			s.filter.SetState(uint32(s.named), state)
		} else if state == index.Newest {
			names++
		}
		s.named++
		s.units += int64(e.Units)
	}
	presumeDead(entries)
	b.settleSet(entries)
	b.index.Build(names, func(yield func(uint64, index.Slot) bool) {
		for i := range entries {
			if e := &entries[i]; isNewest(entries, i) && e.segment.filter == nil && !yield(e.Hash.Key(), e.segment.slotOf(&e.Entry)) {
				return
			}
		}
	})
}

// isLinked tells whether the entry at i is the last of its name, or of those that
// the chain of the name's versions begins with or goes through.
func isLinked(entries []found, i int) bool {
	return isNewest(entries, i) || entries[i].IsChained() || entries[i+1].IsChained()
}

// presumeDead counts as dead what compaction will probably find so. Which version
// a removal is of does not stand in a run: the oldest ones are the likeliest.
func presumeDead(entries []found) {
	removals, start := 0, 0
	for i := range entries {
		e := &entries[i]
		switch {
		case e.Flags&(format.FlagVersions>>8) == 0:
		case e.Type == format.TypeTombstone:
			removals++
		case e.Type == format.TypeVersionDirectory: // already emptied
			removals--
		}
		if !isNewest(entries, i) {
			continue
		}
		for name := entries[start:i]; removals > 0 && len(name) > 0; name = name[1:] {
			if e := &name[0]; e.Type == format.TypePut && isLinked(name, 0) {
				e.segment.live -= int64(e.Units)
				removals--
			}
		}
		removals, start = 0, i+1
	}
}

// isNewest tells whether the entry at i is the last of its name.
func isNewest(entries []found, i int) bool {
	return i+1 == len(entries) || entries[i+1].Hash != entries[i].Hash
}

// verify reads a record and checks every byte of it.
func (b *Bundle) verify(f *found) error {
	buffer, err := b.preadExactly(f.segment, f.Unit, int(f.Units)*format.UnitSize)
	if err != nil {
		return err
	}
	defer buffer.Free()
	record, err := format.ParseRecord(buffer.B)
	if err != nil {
		return err
	}
	return record.CheckData()
}

// walk takes the records of one segment into a recovery.
type walk struct {
	*recovery
	file    *SegmentFile
	segment *openSegment
	walker  segment.Walker
	isClean bool // nothing but good records was met
}

// resume goes to where the last CHECKPOINT of the segment ends, if there is one
// that can be read.
func (w *walk) resume(file *handle) error {
	unit, err := segment.LastCheckpoint(file, w.file.Size, w.file.Salt)
	if unit == 0 || err != nil {
		return err
	}
	c, err := segment.ReadCheckpoints(file, w.file.Origin, w.file.Size, unit)
	if format.IsDamage(err) || err == nil && c.Covered >= w.walker.Limit().LSN {
		return nil // from the start then
	}
	if err != nil {
		return err
	}
	w.walker.Resume(&c)
	for i := range c.Entries {
		if w.bundle.owns(w.segment, c.Entries[i].Hash) {
			w.entries = append(w.entries, found{c.Entries[i], w.segment})
			w.bundle.report.Records++
		}
	}
	w.segment.samples = format.SamplesOf(c.Entries, w.segment.base)
	w.segment.checkpoint, w.segment.resume, w.segment.covered = unit, c.Resume, c.Covered
	return nil
}

func (w *walk) run() error {
	w.isClean = true
	w.proceed()
	for {
		h, err := w.walker.Read()
		switch {
		case err == io.EOF:
			return nil
		case err == nil:
			w.count(&h)
		case errors.Is(err, format.ErrDamaged):
			err = w.resync()
		}
		if err != nil {
			return err
		}
		w.proceed()
	}
}

// proceed notes how far the walker is, and what is proven by now.
func (w *walk) proceed() {
	w.expected, w.proven = w.walker.Next().LSN, max(w.proven, w.walker.Proven())
	w.settle()
}

// count takes the record that was read.
func (w *walk) count(h *format.Header) {
	unit := uint32(w.walker.At() / format.UnitSize)
	w.tail = append(w.tail, found{h.Entry(unit), w.segment})
	w.segment.samples = format.AddSample(w.segment.samples, uint32(h.LSN-w.segment.base), unit)
}

// resync loses what lies in a bad place. A segment with damage must not get a footer,
// which would hide the loss.
func (w *walk) resync() error {
	g, err := w.walker.Resync()
	if g == nil {
		return err
	}
	w.isClean = false
	switch {
	case g.Torn:
		w.bundle.report.TornTails++
	case !g.Unnamed:
		w.segment.damaged = true
		w.lose(w.file.Sequence, g.From, g.Last+1)
	}
	return nil
}
