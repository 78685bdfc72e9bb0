package bundle

import (
	"errors"
	"fmt"
	"syscall"

	"martlet/object-server/bundle/format"
)

// A disk fails to read a sector, the page cache a page.
const (
	sectorSize = 512
	blockSize  = 4096
)

// span is a range of offsets in a file.
type span struct{ from, to int64 }

// unreadableError is damage: the disk cannot read these bytes of a segment. What
// they hold proves nothing, not even that they were never acknowledged.
type unreadableError struct {
	at    span
	cause error
}

func (e *unreadableError) Error() string {
	return fmt.Sprintf("%d bytes at offset %d cannot be read: %v", e.at.to-e.at.from, e.at.from, e.cause)
}

// Unwrap makes it both damage and the error of the disk.
func (e *unreadableError) Unwrap() []error { return []error{format.ErrDamaged, e.cause} }

// isBadSector tells whether an error is of a disk that cannot read some bytes.
func isBadSector(err error) bool { return errors.Is(err, syscall.EIO) }

// readSpan is readFull at a place that must be readable as a whole. Bad sectors
// in it are an unreadableError.
func readSpan(file *handle, p []byte, offset int64) error {
	err := readFull(file, p, offset)
	switch {
	case err == nil:
		return nil
	case isBadSector(err):
		return &unreadableError{span{offset, offset + int64(len(p))}, err}
	}
	return fmt.Errorf("bundle: %w", err)
}

// holes are the ranges of a file that were found unreadable, in order.
type holes struct {
	spans []span
	cause error // of the last one
}

// meet returns the error for a range that touches a hole.
func (h *holes) meet(from, to int64) error {
	for _, s := range h.spans {
		if s.from < to && from < s.to {
			return &unreadableError{s, h.cause}
		}
	}
	return nil
}

// behind tells whether there is a hole behind an offset, or around it.
func (h *holes) behind(offset int64) bool {
	return len(h.spans) > 0 && h.spans[len(h.spans)-1].to > offset
}

// add notes a hole. One that is known, or a part of it, changes nothing.
func (h *holes) add(from, to int64, cause error) {
	var known *unreadableError
	if errors.As(cause, &known) {
		cause = known.cause
	}
	at := 0
	for at < len(h.spans) && h.spans[at].from <= from {
		at++
	}
	h.cause = cause
	if at > 0 && h.spans[at-1].to >= from { // one hole, however large, is looked at once
		h.spans[at-1].to = max(h.spans[at-1].to, to)
		return
	}
	h.spans = append(h.spans, span{})
	copy(h.spans[at+1:], h.spans[at:])
	h.spans[at] = span{from, to}
}

// read reads what can be read of a range, and leaves zeros in the holes. Each bad
// block costs the disk a few attempts, once: a hole that is known is not read.
func (h *holes) read(file *handle, p []byte, offset int64) error {
	end := offset + int64(len(p))
	for at := offset; at < end; {
		to := min((at/blockSize+1)*blockSize, end)
		if err := h.readBlock(file, p[at-offset:to-offset], at); err != nil {
			return err
		}
		at = to
	}
	return nil
}

// readBlock reads a block, and where that fails the sectors before and behind what
// cannot be read. It tries no sector between the first and the last bad one.
func (h *holes) readBlock(file *handle, p []byte, offset int64) error {
	if h.meet(offset, offset+int64(len(p))) == nil {
		if err := readFull(file, p, offset); !isBadSector(err) {
			return err
		}
	}
	clear(p)
	end := offset + int64(len(p))
	first := end
	for at := offset; at < end; {
		to := min((at/sectorSize+1)*sectorSize, end)
		err := h.readSector(file, p[at-offset:to-offset], at)
		if isBadSector(err) {
			first = at
			break
		}
		if err != nil {
			return err
		}
		at = to
	}
	for to := end; to > first; {
		at := max((to-1)/sectorSize*sectorSize, first)
		err := h.readSector(file, p[at-offset:to-offset], at)
		if isBadSector(err) {
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
func (h *holes) readSector(file *handle, p []byte, at int64) error {
	if err := h.meet(at, at+int64(len(p))); err != nil {
		return err
	}
	return readFull(file, p, at)
}

// wrap says whose error it is.
func wrap(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("bundle: %w", err)
}
