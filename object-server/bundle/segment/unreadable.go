package segment

import (
	"errors"
	"fmt"
	"io"
	"syscall"

	"martlet/object-server/bundle/format"
)

// A disk fails to read a sector, the page cache a page.
const (
	SectorSize = 512
	BlockSize  = 4096
)

// Span is a range of offsets in a file, in bytes.
type Span struct{ From, To int64 }

// UnreadableError is damage: the disk cannot read these bytes of a segment. What
// they hold proves nothing, not even that they were never acknowledged.
type UnreadableError struct {
	at    Span
	cause error
}

func (e *UnreadableError) Error() string {
	return fmt.Sprintf("%d bytes at offset %d cannot be read: %v", e.at.To-e.at.From, e.at.From, e.cause)
}

// Unwrap makes it both damage and the error of the disk.
func (e *UnreadableError) Unwrap() []error { return []error{format.ErrDamaged, e.cause} }

// IsBadSector tells whether an error is of a disk that cannot read some bytes.
func IsBadSector(err error) bool { return errors.Is(err, syscall.EIO) }

// ReadSpan is ReadFull at a place that must be readable as a whole. Bad sectors
// in it are an UnreadableError.
func ReadSpan(file io.ReaderAt, p []byte, offset int64) error {
	err := ReadFull(file, p, offset)
	switch {
	case err == nil:
		return nil
	case IsBadSector(err):
		return &UnreadableError{Span{offset, offset + int64(len(p))}, err}
	}
	return fmt.Errorf("bundle: %w", err)
}

// holes are the ranges of a file that were found unreadable, in order.
type holes struct {
	spans []Span
	cause error // of the last one
}

// meet returns the error for a range that touches a hole.
func (h *holes) meet(from, to int64) error {
	for _, s := range h.spans {
		if s.From < to && from < s.To {
			return &UnreadableError{s, h.cause}
		}
	}
	return nil
}

// behind tells whether there is a hole behind an offset, or around it.
func (h *holes) behind(offset int64) bool {
	return len(h.spans) > 0 && h.spans[len(h.spans)-1].To > offset
}

// add notes a hole. One that is known, or a part of it, changes nothing.
func (h *holes) add(from, to int64, cause error) {
	var known *UnreadableError
	if errors.As(cause, &known) {
		cause = known.cause
	}
	at := 0
	for at < len(h.spans) && h.spans[at].From <= from {
		at++
	}
	h.cause = cause
	if at > 0 && h.spans[at-1].To >= from { // one hole, however large, is looked at once
		h.spans[at-1].To = max(h.spans[at-1].To, to)
		return
	}
	h.spans = append(h.spans, Span{})
	copy(h.spans[at+1:], h.spans[at:])
	h.spans[at] = Span{from, to}
}

// read reads what can be read of a range, and leaves zeros in the holes. Each bad
// block costs the disk a few attempts, once: a hole that is known is not read.
func (h *holes) read(file io.ReaderAt, p []byte, offset int64) error {
	end := offset + int64(len(p))
	for at := offset; at < end; {
		to := min((at/BlockSize+1)*BlockSize, end)
		if err := h.readBlock(file, p[at-offset:to-offset], at); err != nil {
			return err
		}
		at = to
	}
	return nil
}

// readBlock reads a block, and where that fails the sectors before and behind what
// cannot be read. It tries no sector between the first and the last bad one.
func (h *holes) readBlock(file io.ReaderAt, p []byte, offset int64) error {
	if h.meet(offset, offset+int64(len(p))) == nil {
		if err := ReadFull(file, p, offset); !IsBadSector(err) {
			return err
		}
	}
	clear(p)
	end := offset + int64(len(p))
	first := end
	for at := offset; at < end; {
		to := min((at/SectorSize+1)*SectorSize, end)
		err := h.readSector(file, p[at-offset:to-offset], at)
		if IsBadSector(err) {
			first = at
			break
		}
		if err != nil {
			return err
		}
		at = to
	}
	for to := end; to > first; {
		at := max((to-1)/SectorSize*SectorSize, first)
		err := h.readSector(file, p[at-offset:to-offset], at)
		if IsBadSector(err) {
			h.add(first, to, err)
			return nil
		}
		if err != nil {
			return err
		}
		to = at
	}
	return nil
}

// readSector reads a sector, unless it is known to be bad.
func (h *holes) readSector(file io.ReaderAt, p []byte, at int64) error {
	if err := h.meet(at, at+int64(len(p))); err != nil {
		return err
	}
	return ReadFull(file, p, at)
}

// wrap says whose error it is.
func wrap(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("bundle: %w", err)
}

// ReadFull reads exactly p at the offset; io.ErrUnexpectedEOF past the end.
func ReadFull(r io.ReaderAt, p []byte, offset int64) error {
	n, err := r.ReadAt(p, offset)
	if n == len(p) {
		return nil
	}
	if err == nil || err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return err
}
