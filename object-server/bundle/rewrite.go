package bundle

import (
	"crypto/rand"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"martlet/object-server/bundle/buffers"
	"martlet/object-server/bundle/format"
	"martlet/object-server/bundle/index"
	"martlet/object-server/failpoint"
	"martlet/object-server/vfs"
)

const (
	pieceBytes       = 1 << 20 // written at once
	compactionFlush  = 4 << 20 // unflushed bytes: a write that flushes the file system waits for no more
	compactionSuffix = ".tmp"  // after a dot and the segment's name
	lookUp           = 512     // entries at once, so that no write waits long for the lock
)

// rewriter fills the file of a segment that replaces a run of others.
type rewriter struct {
	*Compaction
	bundle    *Bundle
	run       []*openSegment
	next      *openSegment
	isOldest  bool // no segment lies before the run
	file      vfs.File
	temporary string          // name of the file where it cannot be without; else empty
	buffer    *buffers.Buffer // what has not been written
	written   int64           // bytes in the file
	unflushed int64
	moves     []move // what was copied, by LSN; once the footer is made as in its run
	reclaimed []move // tombstones that were left out
	fates     fates
	emptied   int // versions
}

// listedEntry is an entry of a segment's run and its position there.
type listedEntry struct {
	format.Entry
	position uint32
}

// move is a record that lies in the old and the new segment.
type move struct {
	format.Entry              // in the new one
	from         *openSegment // the old one
	unit         uint32       // there
	position     uint32       // in the run there
}

// old is the slot of the record in the old segment.
func (m *move) old() index.Slot {
	if m.from.filter != nil {
		return index.NewEntrySlot(m.from.number, m.position)
	}
	e := m.Entry
	e.Unit = m.unit
	return index.NewSlot(m.from.number, &e)
}

// rewrite makes the new segment, swaps it for the old ones and removes these.
func (b *Bundle) rewrite(c *Compaction, run []*openSegment, next *openSegment) (done Compacted, err error) {
	for _, s := range run {
		next.horizon = max(next.horizon, s.horizon)
	}
	w := rewriter{Compaction: c, bundle: b, run: run, next: next, isOldest: b.isOldest(run[0]), buffer: buffers.Get(pieceBytes), fates: fates{bundle: b}}
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
	freed := -next.tail
	for _, s := range run {
		if s.inherited {
			done.Inherited = append(done.Inherited, Inherited{s.sequence, s.generation})
		} else {
			freed += s.tail
		}
	}
	done.Segments, done.Bytes, done.Freed = len(run), next.tail-format.SegmentHeaderSize, freed
	done.Tombstones, done.Versions = w.swap(), w.emptied
	failpoint.Hit(failpoint.Compacted)
	b.reap(c)
	failpoint.Hit(failpoint.CompactUnlinked)
	return done, nil
}

func (w *rewriter) create() (err error) {
	b := w.bundle
	head := format.SegmentHeader{
		Policy: uint32(b.id.Policy), Partition: b.id.Partition, Power: b.id.Power, Sequence: w.next.sequence, Generation: w.next.generation,
		BaseLSN: w.next.base, Created: uint64(time.Now().UnixMicro() / 10), Through: w.next.through,
	}
	if head.Bundle, err = b.Identify(); err != nil {
		return err
	}
	if _, err := rand.Read(head.UUID[:]); err != nil {
		return fmt.Errorf("bundle: %w", err)
	}
	w.next.salt = head.Salt()
	w.file, err = b.files.FS.CreateTemp(b.files.Root)
	if errors.Is(err, vfs.ErrNoTemp) {
		w.temporary = filepath.Join(b.directory, "."+format.SegmentName(w.next.sequence, w.next.generation)+compactionSuffix)
		_ = b.files.FS.Remove(w.temporary) // of a compaction that failed
		w.file, err = b.files.FS.Create(w.temporary)
	}
	if err != nil {
		return fmt.Errorf("bundle: %w", err)
	}
	w.buffer.B = append(w.buffer.B, head.Encode()...)
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
		pad := make([]byte, format.HeaderSize)
		h := format.Header{Type: format.TypePad, Units: format.HeaderSize / format.UnitSize, LSN: w.next.last}
		h.Encode(pad)
		if err := w.put(pad); err != nil {
			return err
		}
	}
	if err := w.drain(); err != nil {
		return err
	}
	w.next.tail = w.written
	entries := make([]format.Entry, len(w.moves))
	for i := range w.moves {
		entries[i] = w.moves[i].Entry
	}
	samples := format.SamplesOf(entries, w.next.base)
	format.SortRun(entries)
	slices.SortFunc(w.moves, func(m, n move) int { return m.Compare(n.Entry) })
	w.fileIndex(entries)
	footer, err := w.next.footer(w.next.last, entries, samples)
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
