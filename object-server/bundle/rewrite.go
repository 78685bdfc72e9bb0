package bundle

import (
	"cmp"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"martlet/object-server/failpoint"
	"martlet/object-server/vfs"
)

const (
	pieceBytes       = 1 << 20  // written at once
	compactionFlush  = 32 << 20 // unflushed bytes, so that writers never wait for more
	compactionSuffix = ".tmp"   // after a dot and the segment's name
	lookUp           = 512      // entries at once, so that nobody waits for the lock
)

// rewriter fills the file of a segment that replaces a run of others.
type rewriter struct {
	*Compaction
	bundle    *Bundle
	run       []*segment
	next      *segment
	isOldest  bool // no segment lies before the run
	file      vfs.File
	temporary string  // name of the file where it cannot be without; else empty
	buffer    *Buffer // what has not been written
	written   int64   // bytes in the file
	unflushed int64
	moves     []move // what was copied, by LSN; once the footer is made as in its run
	reclaimed []move // tombstones that were left out
	fates     fates
	emptied   int // versions
}

// listedEntry is an entry of a segment's run and its position there.
type listedEntry struct {
	runEntry
	position uint32
}

// move is a record that lies in the old and the new segment.
type move struct {
	runEntry          // in the new one
	from     *segment // the old one
	unit     uint32   // there
	position uint32   // in the run there
}

// old is the slot of the record in the old segment.
func (m *move) old() slot {
	if m.from.filter != nil {
		return newEntrySlot(m.from.number, m.position)
	}
	return newSlot(m.from.number, m.unit, m.Units, m.state())
}

// rewrite makes the new segment, swaps it for the old ones and removes these.
func (b *Bundle) rewrite(c *Compaction, run []*segment, next *segment) (done Compacted, err error) {
	w := rewriter{Compaction: c, bundle: b, run: run, next: next, isOldest: b.isOldest(run[0]), buffer: GetBuffer(pieceBytes), fates: fates{bundle: b}}
	w.buffer.B = w.buffer.B[:0]
	defer w.buffer.Free()
	if err := w.create(); err != nil {
		return done, err
	}
	defer w.close()
	for _, s := range run {
		if err := w.copySegment(s); err != nil {
			return done, err
		}
	}
	if err := w.finish(); err != nil {
		return done, err
	}
	failpoint.Hit(failpoint.CompactWritten)
	if err := w.publish(); err != nil {
		return done, err
	}
	done = Compacted{Segments: len(run), Bytes: next.tail - segmentHeaderSize, Tombstones: w.swap(), Versions: w.emptied}
	failpoint.Hit(failpoint.Compacted)
	b.reap(c)
	failpoint.Hit(failpoint.CompactUnlinked)
	return done, nil
}

func (w *rewriter) create() (err error) {
	b := w.bundle
	head := segmentHeader{
		Policy: uint32(b.id.Policy), Partition: b.id.Partition, Sequence: w.next.sequence, Generation: w.next.generation,
		BaseLSN: w.next.base, Created: uint64(time.Now().UnixMicro() / 10), Through: w.next.through,
	}
	if _, err := rand.Read(head.UUID[:]); err != nil {
		return fmt.Errorf("bundle: %w", err)
	}
	w.next.salt = head.salt()
	w.file, err = b.files.FS.CreateTemp(b.files.Root)
	if errors.Is(err, vfs.ErrNoTemp) {
		w.temporary = filepath.Join(b.directory, "."+segmentName(w.next.sequence, w.next.generation)+compactionSuffix)
		_ = b.files.FS.Remove(w.temporary) // of a compaction that failed
		w.file, err = b.files.FS.Create(w.temporary)
	}
	if err != nil {
		return fmt.Errorf("bundle: %w", err)
	}
	w.buffer.B = append(w.buffer.B, head.encode()...)
	return nil
}

func (w *rewriter) close() {
	if w.file != nil {
		_ = w.file.Close() // without a name, or durable
	}
	if w.temporary != "" {
		_ = w.bundle.files.FS.Remove(w.temporary) // the next opening does it if this fails
	}
}

// copySegment copies what counts of one old segment.
func (w *rewriter) copySegment(s *segment) error {
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
func unfit(s *segment, err error) error {
	if isDamage(err) || isUnreadable(err) {
		return &badSegment{s, err}
	}
	return err
}

func (w *rewriter) copyEntries(file *handle, s *segment, entries []listedEntry) error {
	source := newWindow(file, s.tail)
	defer source.free()
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
				become, err = w.fates.of(&e.runEntry)
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
func (b *Bundle) listed(file *handle, s *segment) ([]listedEntry, error) {
	run, err := readRun(file)
	if isDamage(err) {
		run, err = scan(file, s, segmentHeaderSize, s.tail, s.base)
		sortRun(run)
	}
	entries := make([]listedEntry, len(run))
	for i := range run {
		entries[i] = listedEntry{run[i], uint32(i)}
	}
	slices.SortFunc(entries, func(e, f listedEntry) int { return cmp.Compare(e.LSN, f.LSN) })
	return entries, err
}

// counting returns the LSNs of the records that the index points at, and of
// those that belong to a name that may have versions.
func (b *Bundle) counting(s *segment, entries []listedEntry) (isNewest, mayBeVersion map[uint64]bool) {
	isNewest, mayBeVersion = make(map[uint64]bool), make(map[uint64]bool)
	var space [4]slot
	b.mu.RLock()
	defer b.mu.RUnlock()
	for i := range entries {
		e := &entries[i]
		if s.filter != nil {
			state := s.filter.state(e.position)
			isNewest[e.LSN], mayBeVersion[e.LSN] = state == entryNewest, state == entryVersion
			continue
		}
		at := s.slotOf(&e.runEntry).at()
		for _, found := range b.index.find(e.Hash.key(), space[:0]) {
			if found.at() == at {
				isNewest[e.LSN] = true
			} else if found.state() == slotVersioned {
				mayBeVersion[e.LSN] = true
			}
		}
	}
	return isNewest, mayBeVersion
}

// copyRecord copies one record with a header for its new place, whole or emptied.
// It does not look at the body, which proves itself wherever it lies.
func (w *rewriter) copyRecord(source *window, s *segment, e *listedEntry, become fate) error {
	offset := int64(e.Unit) * unitSize
	p, err := source.at(offset, headerSize)
	if err != nil {
		return unfit(s, err)
	}
	h, err := parseHeader(p)
	if err == nil && (h.Salt != s.salt || h.runEntry(e.Unit) != e.runEntry) {
		err = fmt.Errorf("%w: record %d is not where the footer says", errDamaged, e.LSN)
	}
	if err != nil {
		return unfit(s, err)
	}
	m := move{e.runEntry, s, e.Unit, e.position}
	if become == fateNewest && w.isReclaimed(&h) {
		w.reclaimed = append(w.reclaimed, m)
		return nil
	}
	if become == fateEmptied {
		if p, _, err = readRecord(source, offset, int64(h.layout().data)); err != nil {
			return unfit(s, err)
		}
		if directory, ok := empty(&h, p); ok {
			m.Units, m.Type, m.Flags = uint32(len(directory)/unitSize), TypeVersionDirectory, (flagVersions|flagBlock)>>8
			w.emptied++
			return w.move(&m, directory)
		}
	}
	p, buffer, err := readRecord(source, offset, int64(e.Units)*unitSize)
	defer buffer.Free()
	if err != nil {
		return unfit(s, err)
	}
	return w.move(&m, p)
}

// readRecord reads a record or the start of one, from the window if it fits in,
// else into a buffer, which is the caller's.
func readRecord(source *window, offset, length int64) ([]byte, *Buffer, error) {
	if length <= windowSize {
		p, err := source.at(offset, int(length))
		return p, nil, err
	}
	buffer := GetBuffer(int(length))
	if err := readFull(source.file, buffer.B, offset); err != nil {
		return nil, buffer, fmt.Errorf("bundle: %w", err)
	}
	return buffer.B, buffer, nil
}

// move appends a record to the new segment. p is changed.
func (w *rewriter) move(m *move, p []byte) error {
	start := w.written + int64(len(w.buffer.B))
	if start+int64(len(p)) > slotUnits*unitSize { // with versions that have been removed
		return &badSegment{m.from, fmt.Errorf("%w: compacted segment", ErrTooLarge)}
	}
	m.Unit = uint32(start / unitSize)
	w.moves = append(w.moves, *m)
	return w.put(p)
}

// isReclaimed tells whether a tombstone that counts has served its time. Only the
// oldest segments may lose one: anywhere else an older record of the name, in a
// segment before, would come back when the index is next built.
func (w *rewriter) isReclaimed(h *header) bool {
	return h.Type == TypeTombstone && h.Flags&flagVersions == 0 && w.isOldest &&
		h.Timestamp.Compare(w.Reclaim) < 0 && w.bundle.lostThrough == 0
}

// put appends a record to the file. p is changed.
func (w *rewriter) put(p []byte) error {
	restamp(p, w.next.salt)
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

// restamp changes what a header says of the segment that the record lies in.
func restamp(p []byte, salt uint32) {
	le := binary.LittleEndian
	le.PutUint32(p[16:], salt)
	le.PutUint32(p[116:], 0) // a compacted segment has no CHECKPOINT
	le.PutUint32(p[124:], checksum(p[:124]))
}

func (w *rewriter) drain() error {
	p := w.buffer.B
	w.buffer.B = p[:0]
	return w.write(p)
}

func (w *rewriter) write(p []byte) error {
	if err := w.Pace(len(p)); err != nil {
		return err
	}
	if err := w.file.Writev([][]byte{p}, w.written); err != nil {
		return fmt.Errorf("bundle: %w", err)
	}
	w.written += int64(len(p))
	if w.unflushed += int64(len(p)); w.unflushed >= compactionFlush {
		return w.flush()
	}
	return nil
}

func (w *rewriter) flush() error {
	w.unflushed = 0
	if err := w.file.Datasync(); err != nil {
		return fmt.Errorf("bundle: %w", err)
	}
	return nil
}

// finish completes the file and makes it durable. A PAD with the last LSN ends
// the records, so that all are found even if the footer is damaged later.
func (w *rewriter) finish() error {
	if n := len(w.moves); n == 0 || w.moves[n-1].LSN < w.next.last {
		pad := make([]byte, headerSize)
		h := header{Type: TypePad, Units: headerSize / unitSize, LSN: w.next.last}
		h.encode(pad)
		if err := w.put(pad); err != nil {
			return err
		}
	}
	if err := w.drain(); err != nil {
		return err
	}
	w.next.tail = w.written
	entries := make([]runEntry, len(w.moves))
	for i := range w.moves {
		entries[i] = w.moves[i].runEntry
	}
	samples := samplesOf(entries, w.next.base)
	sortRun(entries)
	slices.SortFunc(w.moves, func(m, n move) int { return m.compare(n.runEntry) })
	w.fileIndex(entries)
	footer, err := encodeSeal(w.next.salt, w.next.base, w.next.last, w.next.through, entries, samples)
	if err != nil {
		return err
	}
	for piece := range slices.Chunk(footer, pieceBytes) {
		if err := w.write(piece); err != nil {
			return err
		}
	}
	return complete(w.file, w.written)
}

// publish names the file and makes the name durable. From here on the old
// segments mean nothing, though they are still there. When it fails the name is
// taken back; if that fails too, nothing is compacted until the bundle has been
// opened again, because another run could overlap with this one.
func (w *rewriter) publish() error {
	b := w.bundle
	name := b.files.path(w.next.key(b.id))
	err := b.files.FS.Link(w.file, name)
	failpoint.Hit(failpoint.CompactLinked)
	if err == nil {
		err = b.files.FS.SyncDir(b.directory)
	}
	if err == nil {
		b.files.add(w.next.key(b.id), w.file).release()
		w.file = nil // the cache closes it
		return nil
	}
	err = fmt.Errorf("bundle: %w", err)
	if again := b.files.FS.Remove(name); again != nil && !errors.Is(again, fs.ErrNotExist) {
		b.stuck = err
	}
	return err
}

// swap points the index at the new segment and hides the old ones. It returns how
// many tombstones have left the index. A writer that has a name locked remembers
// where the record lies that it replaces, so its place stays until it is done.
func (w *rewriter) swap() (reclaimed int) {
	for i := range w.moves {
		m := &w.moves[i]
		w.Lock(m.Hash)
		w.bundle.relocate(w.next, m, uint32(i))
		w.Unlock(m.Hash)
	}
	for i := range w.reclaimed {
		m := &w.reclaimed[i]
		w.Lock(m.Hash)
		if w.bundle.forgetTombstone(m) {
			reclaimed++
		}
		w.Unlock(m.Hash)
	}
	b := w.bundle
	b.mu.Lock()
	defer b.mu.Unlock()
	w.next.hidden = false
	for _, s := range w.run {
		s.hidden = true
	}
	return reclaimed
}

// relocate points the index at the new place of a record, whose entry in the new
// run has the position, unless a later one has replaced it meanwhile: then the
// copy is dead already.
func (b *Bundle) relocate(next *segment, m *move, position uint32) {
	b.mu.Lock()
	defer b.mu.Unlock()
	old, s, units := m.old(), next.slotOf(&m.runEntry), int64(m.Units)
	next.units += units
	next.named++
	switch {
	case next.filter != nil:
		if !b.relocateEntry(m.old(), newEntrySlot(next.number, position)) {
			return
		}
	case b.index.replace(m.Hash.key(), old, s):
		if b.damaged[old.at()] {
			b.damaged[s.at()] = true
		}
	case !b.hasVersions(m.Hash):
		return
	}
	next.live += units
	m.from.live -= units
}

// hasVersions tells whether a name may have versions. b.mu is held.
func (b *Bundle) hasVersions(hash Hash) bool {
	var space [4]slot
	return slices.ContainsFunc(b.index.find(hash.key(), space[:0]), func(s slot) bool { return s.state() == slotVersioned })
}

// forgetTombstone takes a tombstone out of the index unless it was replaced.
func (b *Bundle) forgetTombstone(m *move) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if f := m.from.filter; f != nil {
		if f.state(m.position) != entryNewest {
			return false
		}
		f.setState(m.position, entryDead)
	} else if !b.index.remove(m.Hash.key(), m.old()) {
		return false
	}
	m.from.live -= int64(m.Units)
	delete(b.damaged, m.old().at())
	return true
}

// isOldest tells whether no segment lies before the one given.
func (b *Bundle) isOldest(first *segment) bool {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return b.segments.inOrder()[0] == first
}

// isCompactionTemp tells whether a name in a bundle is that of an unfinished
// compaction.
func isCompactionTemp(name string) bool {
	stem, hasSuffix := strings.CutSuffix(name, compactionSuffix)
	stem, hasDot := strings.CutPrefix(stem, ".")
	_, _, ok := parseSegmentName(stem)
	return hasSuffix && hasDot && ok
}
