package bundle

import (
	"errors"
	"fmt"
)

// recovery walks the segments of a bundle in log order. The rules it follows are
// in doc/formats/bundle.md, "Opening and recovery".
type recovery struct {
	bundle   *Bundle
	expected uint64 // LSN of the next record
	proven   uint64 // highest watermark seen: durable and acknowledged
	tail     []scanned
	last     *segment // the newest segment, if it can take more records
	padded   bool     // the newest record is a PAD
}

// scanned is a record whose header counts.
type scanned struct {
	hash  Hash
	entry Entry
	head  header
}

// segment reads one segment up to a limit.
func (r *recovery) segment(s *segmentFile, bound limit) error {
	r.last = nil
	switch {
	case s.headless && bound.lsn <= s.base: // void: a successor starts where it would have, or before
		return nil
	case bound.lsn < s.base || s.base < r.expected:
		return fmt.Errorf("%w: %s: base LSNs of the segments do not ascend", ErrUnsupported, r.bundle.directory)
	case !s.headless:
		r.proven = max(r.proven, s.base-1)
	case !bound.sure && s.watermark < r.expected && (!s.exact() || s.base == r.expected):
		r.bundle.report.TornTails++ // a crash while it was made; nothing of it was acknowledged
		return nil
	default:
		r.report("%s segment %08x: header is lost", r.bundle.directory, s.sequence)
	}
	if s.base > r.expected {
		r.lose(s.sequence, 0, s.base)
	}
	file, err := r.bundle.files.get(fileKey{r.bundle.id, s.sequence})
	if err != nil {
		return err
	}
	defer file.release()
	w := walk{recovery: r, file: s, window: newWindow(file, s.size), limit: bound, offset: s.start, open: !s.headless}
	defer w.window.free()
	if err := w.run(); err != nil {
		return err
	}
	if w.open && bound == noLimit {
		r.last = &segment{sequence: s.sequence, salt: s.salt, tail: w.offset}
	}
	return nil
}

// report notes damage for the log.
func (r *recovery) report(format string, args ...any) {
	r.bundle.report.Damaged = append(r.bundle.report.Damaged, fmt.Sprintf(format, args...))
}

// lose puts all records from the expected one up to the next LSN in quarantine.
func (r *recovery) lose(sequence uint32, offset int64, next uint64) {
	r.report("%s segment %08x offset %d: records %d to %d are lost",
		r.bundle.directory, sequence, offset, r.expected, next-1)
	r.bundle.lostThrough = next - 1
	r.expected = next
}

// finish verifies the bodies of the last batch, which nothing proves durable,
// and completes the bundle.
func (r *recovery) finish() error {
	b := r.bundle
	for _, s := range r.tail {
		if s.head.LSN > r.proven {
			err := b.verify(&s)
			if errors.Is(err, errDamaged) { // a torn tail: void from here on
				r.expected, r.last = s.head.LSN, nil
				b.report.TornTails++
				break
			}
			if err != nil {
				return err
			}
		}
		if err := r.accept(&s); err != nil {
			return err
		}
	}
	b.lastLSN, b.provenLSN = r.expected-1, r.proven
	b.active, b.padded = r.last, r.padded
	return nil
}

// accept enters a record into the index.
func (r *recovery) accept(s *scanned) error {
	b := r.bundle
	b.report.Records++
	r.padded = s.head.Type == TypePad
	if r.padded {
		return nil
	}
	if s.head.Type == TypeSpill {
		if err := b.readDescriptor(s); err != nil {
			return err
		}
	}
	b.index.put(s.hash, s.entry)
	return nil
}

// readDescriptor completes the entry of a SPILL with its large file. If the
// descriptor is damaged the name is in quarantine and no large file is swept.
func (b *Bundle) readDescriptor(s *scanned) error {
	record, buffer, err := b.readScanned(s)
	switch {
	case err == nil:
		s.entry.Large = record.LargeID
		buffer.Free()
	case errors.Is(err, errDamaged):
		s.entry.Quarantined = true
		b.report.Damaged = append(b.report.Damaged,
			fmt.Sprintf("%s record %d: %v", b.directory, s.head.LSN, err))
	default:
		return err
	}
	return nil
}

// verify reads a record and checks every byte of it.
func (b *Bundle) verify(s *scanned) error {
	record, buffer, err := b.readScanned(s)
	if err != nil {
		return err
	}
	defer buffer.Free()
	return record.checkData()
}

func (b *Bundle) readScanned(s *scanned) (*Record, *Buffer, error) {
	buffer, err := b.pread(&s.entry, int(s.entry.Units)*unitSize)
	if err != nil {
		return nil, nil, err
	}
	record, err := parseRecord(buffer.B)
	if err != nil {
		buffer.Free()
		return nil, nil, err
	}
	return record, buffer, nil
}

// settle enters what is proven by now, so that the tail stays short.
func (r *recovery) settle() error {
	n := 0
	for n < len(r.tail) && r.tail[n].head.LSN <= r.proven {
		if err := r.accept(&r.tail[n]); err != nil {
			return err
		}
		n++
	}
	r.tail = append(r.tail[:0], r.tail[n:]...)
	return nil
}

// walk reads the records of one segment.
type walk struct {
	*recovery
	file   *segmentFile
	window window
	limit  limit
	offset int64
	open   bool // the end is clean: more may be appended
}

func (w *walk) run() error {
	for w.expected < w.limit.lsn {
		head, err := w.header()
		if err == nil {
			w.count(&head)
			if err = w.settle(); err != nil {
				return err
			}
			continue
		}
		if !errors.Is(err, errDamaged) {
			return err
		}
		more, err := w.resync()
		if err != nil || !more {
			return err
		}
	}
	return w.settle()
}

// header reads the header at the offset; errDamaged if it does not count.
func (w *walk) header() (header, error) {
	p, err := w.window.at(w.offset, headerSize)
	if err != nil {
		return header{}, err
	}
	head, err := parseHeader(p)
	if err != nil && saltOf(p) == w.file.salt {
		return head, err
	}
	if err != nil || head.Salt != w.file.salt || !head.fits(w.offset, w.file.size) || head.LSN != w.expected {
		return head, fmt.Errorf("%w: not the expected record", errDamaged)
	}
	return head, nil
}

func (h *header) fits(offset, size int64) bool { return offset+int64(h.Units)*unitSize <= size }

// count takes the record at the offset.
func (w *walk) count(h *header) {
	w.tail = append(w.tail, scanned{hash: h.Hash, head: *h, entry: Entry{
		Timestamp: h.Timestamp, LSN: h.LSN, Segment: w.file.sequence,
		Unit: uint32(w.offset / unitSize), Units: h.Units, Type: h.Type,
	}})
	w.proven = max(w.proven, h.watermark())
	w.offset += int64(h.Units) * unitSize
	w.expected++
}

// resync decides what the bad place at the offset is. more is true when reading
// goes on behind damage; false at the end of the segment, of whatever kind.
func (w *walk) resync() (more bool, err error) {
	if !w.limit.sure && w.offset == w.file.size {
		return false, w.settle()
	}
	w.open = false
	seek := search{window: w.window, limit: w.limit.lsn, salt: w.file.salt, salted: true}
	err = seek.run(w.offset, w.expected)
	w.window = seek.window
	if err != nil {
		return false, err
	}
	w.proven = max(w.proven, seek.watermark)
	switch {
	case !w.limit.sure && w.proven < w.expected: // none of it was acknowledged
		w.bundle.report.TornTails++
		return false, w.settle()
	case !seek.found:
		w.lose(w.file.sequence, w.offset, w.limit.lsn)
		return false, w.settle()
	}
	w.lose(w.file.sequence, w.offset, seek.first.lsn)
	w.offset = seek.first.offset
	return true, nil
}

// windowSize is how much of a segment is read at once.
const windowSize = 256 << 10

// window reads a file mostly forward, in large pieces.
type window struct {
	file   *handle
	size   int64
	offset int64 // of what the buffer holds
	buffer *Buffer
}

func newWindow(file *handle, size int64) window {
	w := window{file: file, size: size, buffer: GetBuffer(int(min(windowSize, size)))}
	w.buffer.B = w.buffer.B[:0]
	return w
}

func (v *window) free() { v.buffer.Free() }

// at returns length bytes at the offset, valid until the next call; errDamaged
// if they would reach past the end.
func (v *window) at(offset int64, length int) ([]byte, error) {
	if offset+int64(length) > v.size {
		return nil, fmt.Errorf("%w: past the end", errDamaged)
	}
	if offset < v.offset || offset+int64(length) > v.offset+int64(len(v.buffer.B)) {
		v.offset, v.buffer.B = offset, v.buffer.B[:min(windowSize, v.size-offset)]
		if err := readFull(v.file, v.buffer.B, offset); err != nil {
			v.buffer.B = v.buffer.B[:0]
			return nil, fmt.Errorf("bundle: %w", err)
		}
	}
	return v.buffer.B[offset-v.offset:][:length], nil
}
