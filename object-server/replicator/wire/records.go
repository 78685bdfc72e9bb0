package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"martlet/object-server/bundle"
	"martlet/object-server/bundle/buffers"
	"martlet/object-server/bundle/format"
	"martlet/object-server/device"
)

// A stream of records. All numbers are little-endian.
//
//	record: length 4 (not 0) | size of the large object 8; all ones: there is none | the record | the large object
//	end:    length 4 (0) | identity of the bundle 16 | LSN 8 | skipped 4
const (
	recordHeadSize = 12
	endSize        = 28
	noLarge        = 1<<64 - 1
	copySize       = 64 << 10
)

// WriteRecord writes one record. Errors: those of w, and ErrSource.
func WriteRecord(w io.Writer, r device.RawRecord) error {
	var head [recordHeadSize]byte
	binary.LittleEndian.PutUint32(head[:], uint32(len(r.Bytes)))
	size := int64(-1)
	if r.Large != nil {
		var err error
		if size, err = r.Large.Size(); err != nil {
			return fmt.Errorf("%w: %w", ErrSource, err)
		}
	}
	binary.LittleEndian.PutUint64(head[4:], uint64(size))
	if _, err := w.Write(head[:]); err != nil {
		return err
	}
	if _, err := w.Write(r.Bytes); err != nil || size < 0 {
		return err
	}
	return writeLarge(w, r.Large, size)
}

// ErrSource says that the size of a large object is not known: what was sent of the stream is void.
var ErrSource = errors.New("the size of the large object is not known")

// writeLarge writes zeros from the first byte on that cannot be read: so one bad sector costs no other record. The receiver
// refuses the object, because its checksums do not match.
func writeLarge(w io.Writer, large io.ReaderAt, size int64) error {
	buffer := make([]byte, copySize)
	isReadable := true
	for offset := int64(0); offset < size; {
		p := buffer[:min(copySize, size-offset)]
		n := 0
		if isReadable {
			n, _ = large.ReadAt(p, offset)
			isReadable = n > 0
		}
		if !isReadable {
			clear(p)
			n = len(p)
		}
		if _, err := w.Write(p[:n]); err != nil {
			return err
		}
		offset += int64(n)
	}
	return nil
}

// WriteEnd ends the stream.
func WriteEnd(w io.Writer, done bundle.Exported) error {
	b := make([]byte, 4, 4+endSize)
	b = append(b, done.Bundle[:]...)
	b = binary.LittleEndian.AppendUint64(b, done.LSN)
	b = binary.LittleEndian.AppendUint32(b, uint32(done.Skipped))
	_, err := w.Write(b)
	return err
}

// Reader reads a stream of records from a peer.
type Reader struct {
	r       io.Reader
	buffers []*buffers.Buffer // of the records that are valid; the last one may have room for more
	large   *large            // that is not read to its end; nil: none
	end     bundle.Exported
	isEnd   bool
	scratch [8]byte
}

// NewReader returns a reader of the stream. It reads in small pieces, which should cost little. Free must follow.
func NewReader(r io.Reader) *Reader { return &Reader{r: r} }

// Free gives back the memory of the records that have been read.
func (r *Reader) Free() {
	for i, b := range r.buffers {
		b.Free()
		r.buffers[i] = nil
	}
	r.buffers = r.buffers[:0]
}

// Next reads the next record; io.EOF after the last one. The record is valid until Free, also behind others, and the bytes
// are the caller's till then. What was not read of its large object is skipped by the next call of Next.
func (r *Reader) Next() (device.RawRecord, error) {
	if r.isEnd {
		return device.RawRecord{}, io.EOF
	}
	if r.large != nil {
		if err := r.large.skip(); err != nil {
			return device.RawRecord{}, err
		}
		r.large = nil
	}
	n, err := r.number(4)
	if err != nil {
		return device.RawRecord{}, err
	}
	if n == 0 {
		if r.end, err = readEnd(r.r); err == nil {
			r.isEnd, err = true, io.EOF
		}
		return device.RawRecord{}, err
	}
	if n > format.RecordSizeMax {
		return device.RawRecord{}, fmt.Errorf("%w: a record of %d bytes", ErrMalformed, n)
	}
	return r.readRecord(int(n))
}

func (r *Reader) readRecord(length int) (record device.RawRecord, err error) {
	size, err := r.number(8)
	if err != nil {
		return record, err
	}
	if record.Bytes, err = r.bytes(length); err != nil {
		return record, err
	}
	if size != noLarge {
		if size > 1<<62 {
			return record, fmt.Errorf("%w: a large object of %d bytes", ErrMalformed, size)
		}
		r.large = &large{r: r.r, size: int64(size)}
		record.Large = r.large
	}
	return record, nil
}

// bytes reads so many. It takes memory as they come: a length alone costs nothing.
func (r *Reader) bytes(length int) ([]byte, error) {
	var b *buffers.Buffer
	if n := len(r.buffers); n > 0 {
		b = r.buffers[n-1]
	}
	if b == nil || cap(b.B)-len(b.B) < length {
		b = buffers.Get(copySize)
		b.B = b.B[:0]
		r.buffers = append(r.buffers, b)
	}
	start := len(b.B)
	for end := start + length; len(b.B) < end; {
		at := len(b.B)
		n := min(end-at, max(at-start, copySize))
		b.Grow(n)
		b.B = b.B[:at+n]
		if err := r.full(b.B[at:]); err != nil {
			return nil, err
		}
	}
	return b.B[start:len(b.B):len(b.B)], nil
}

// number reads a number of so many bytes, 8 at most.
func (r *Reader) number(size int) (uint64, error) {
	clear(r.scratch[:])
	err := r.full(r.scratch[:size])
	return binary.LittleEndian.Uint64(r.scratch[:]), err
}

// readEnd reads what follows the length of 0.
func readEnd(r io.Reader) (bundle.Exported, error) {
	var b [endSize]byte
	if _, err := io.ReadFull(r, b[:]); err != nil {
		return bundle.Exported{}, cut(err)
	}
	return bundle.Exported{
		Position: bundle.Position{Bundle: format.Identity(b[:16]), LSN: binary.LittleEndian.Uint64(b[16:])},
		Skipped:  int(binary.LittleEndian.Uint32(b[24:])),
	}, nil
}

// End is what the end of the stream says, after Next has returned io.EOF.
func (r *Reader) End() bundle.Exported { return r.end }

func (r *Reader) full(b []byte) error {
	_, err := io.ReadFull(r.r, b)
	return cut(err)
}

// cut makes the end of the bytes an error: a stream ends with its own end.
func cut(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// large is a large object that is read once, from its first byte to its last.
type large struct {
	r    io.Reader
	size int64
	at   int64
}

func (l *large) Size() (int64, error) { return l.size, nil }

// ReadAt reads only the bytes that come next.
func (l *large) ReadAt(p []byte, offset int64) (int, error) {
	if offset != l.at {
		return 0, fmt.Errorf("%w: a large object is read at %d, the stream is at %d", ErrMalformed, offset, l.at)
	}
	if left := l.size - l.at; int64(len(p)) > left {
		p = p[:left]
	}
	n, err := io.ReadFull(l.r, p)
	l.at += int64(n)
	if l.at == l.size && err == nil {
		err = io.EOF
	}
	return n, err
}

func (l *large) skip() error {
	_, err := io.CopyN(io.Discard, l.r, l.size-l.at)
	l.at = l.size
	return cut(err)
}
