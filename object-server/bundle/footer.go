package bundle

import (
	"errors"
	"fmt"
	"io"

	"martlet/object-server/bundle/buffers"
	"martlet/object-server/bundle/format"
)

// readSeal reads the footer of a segment file of the given size.
func readSeal(file *handle, size int64, s *format.Seal) ([]format.Entry, []format.Sample, error) {
	length := int64(s.Units) * format.UnitSize
	if length > size-format.SegmentHeaderSize {
		return nil, nil, fmt.Errorf("%w: footer longer than its segment", format.ErrDamaged)
	}
	buffer := buffers.Get(int(length - format.HeaderSize))
	defer buffer.Free()
	if err := readSpan(file, buffer.B, size-length); err != nil {
		return nil, nil, err
	}
	run, samples, err := s.Check(buffer.B)
	if err != nil {
		return nil, nil, err
	}
	entries, err := format.ParseRun(nil, run, s.Base, size-length)
	return entries, format.ParseSamples(samples), err
}

// readRun reads the run in the footer of a segment that must have one.
func readRun(file *handle) ([]format.Entry, error) {
	size, err := file.Size()
	if err != nil {
		return nil, fmt.Errorf("bundle: %w", err)
	}
	s, err := findSeal(file, size)
	if err == nil && s == nil {
		err = fmt.Errorf("%w: footer", format.ErrDamaged)
	}
	if err != nil {
		return nil, err
	}
	run, _, err := readSeal(file, size, s)
	return run, err
}

// findSeal reads the header at the end of a segment file; nil if there is none, or
// none that can be read.
func findSeal(file *handle, size int64) (*format.Seal, error) {
	if size < format.SegmentHeaderSize+format.HeaderSize {
		return nil, nil
	}
	var b [format.HeaderSize]byte
	if err := readSpan(file, b[:], size-format.HeaderSize); errors.Is(err, format.ErrDamaged) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	s, err := format.ParseSeal(b[:])
	if err != nil { // bytes of an object, torn, or of another version: the records themselves tell
		return nil, nil
	}
	return &s, nil
}

// lastCheckpoint finds the last CHECKPOINT of a segment: every record behind it
// says where it is. The answer is a hint: 0 when nothing was found, and what it
// points at must prove itself.
func lastCheckpoint(file *handle, size int64, salt uint32) (unit uint32, err error) {
	err = searchBack(file, size, func(h *format.Header, at int64) bool {
		if h.Salt != salt || h.Type == format.TypeSeal || !h.Fits(at, size) {
			return false
		}
		unit = h.Checkpoint
		return true
	})
	return unit, err
}

// tailSalt is the salt of the record, or the footer, that ends where the file
// does. It is the segment's own: what a client stored as bytes of an object is
// followed by that object's chunk table at least. A torn end has none.
func tailSalt(file *handle, size int64) (salt uint32, ok bool, err error) {
	v := newWindow(file, size)
	defer v.free()
	var failed error
	err = searchBack(file, size, func(h *format.Header, at int64) bool {
		end := at + int64(h.Units)*format.UnitSize
		if h.Type == format.TypeSeal {
			end = at + format.HeaderSize
		}
		salt, ok = h.Salt, end == size
		if !ok {
			ok, failed = v.padded(end)
		}
		return ok || failed != nil
	})
	return salt, ok, errors.Join(err, failed)
}

// searchBack visits the headers in a file from its end on until visit returns
// true. Most are of records, some may be the bytes of an object. It leaves out what
// cannot be read.
func searchBack(file *handle, size int64, visit func(h *format.Header, at int64) bool) error {
	buffer := buffers.Get(windowSize)
	defer buffer.Free()
	var bad holes
	for end := size; end > format.SegmentHeaderSize; {
		start := max(end-windowSize, 0) / format.UnitSize * format.UnitSize
		p := buffer.B[:min(windowSize, size-start)]
		err := readFull(file, p, start)
		if isBadSector(err) {
			err = bad.read(file, p, start)
		}
		if err != nil {
			return wrap(err)
		}
		for at := (len(p) - format.HeaderSize) / format.UnitSize * format.UnitSize; at >= 0; at -= format.UnitSize {
			if !format.IsHeader(p[at:]) {
				continue
			}
			if h, err := format.ParseHeader(p[at:]); err == nil && visit(&h, start+int64(at)) {
				return nil
			}
		}
		if start <= format.SegmentHeaderSize {
			break
		}
		end = start + format.HeaderSize // a header may lie across
	}
	return nil
}

// checkpoints is what the CHECKPOINTs of a segment say together.
type checkpoints struct {
	entries []format.Entry // not sorted
	resume  uint32         // unit of the first record that they do not cover
	covered uint64         // last LSN before it
}

// readCheckpoints reads the CHECKPOINT at the unit and those before it;
// format.ErrDamaged unless all of them are whole.
func readCheckpoints(file *handle, of origin, size int64, unit uint32) (checkpoints, error) {
	var all checkpoints
	for at := unit; at != 0; {
		before, err := all.read(file, of, size, at, at == unit)
		if err != nil {
			return all, err
		}
		if before >= at {
			return all, fmt.Errorf("%w: checkpoints do not descend", format.ErrDamaged)
		}
		at = before
	}
	return all, nil
}

// read adds one CHECKPOINT and returns the unit of the one before it.
func (c *checkpoints) read(file *handle, of origin, size int64, unit uint32, newest bool) (before uint32, err error) {
	var b [format.HeaderSize]byte
	offset := int64(unit) * format.UnitSize
	if offset+format.HeaderSize > size {
		return 0, fmt.Errorf("%w: checkpoint behind the end", format.ErrDamaged)
	}
	if err := readSpan(file, b[:], offset); err != nil {
		return 0, err
	}
	h, err := format.ParseHeader(b[:])
	if err != nil || h.Type != format.TypeCheckpoint || h.Salt != of.salt || !h.Fits(offset, size) {
		return 0, fmt.Errorf("%w: no checkpoint where one should be", format.ErrDamaged)
	}
	buffer := buffers.Get(int(h.Units) * format.UnitSize)
	defer buffer.Free()
	if err := readSpan(file, buffer.B, offset); err != nil {
		return 0, err
	}
	record, err := format.ParseRecord(buffer.B)
	if err == nil {
		err = record.CheckData()
	}
	if err != nil {
		return 0, err
	}
	body, err := format.ParseCheckpoint(record.Data)
	if err != nil {
		return 0, err
	}
	if body.Sequence != of.sequence || body.Resume > unit || h.Previous < of.base-1 || h.Previous >= h.LSN {
		return 0, fmt.Errorf("%w: checkpoint of another place", format.ErrDamaged)
	}
	if newest {
		c.resume, c.covered = body.Resume, h.Previous
	}
	c.entries, err = format.ParseRun(c.entries, body.Run, of.base, offset)
	return body.Before, err
}

// listRecords lists the named records of a segment from a place on, up to the offset at
// which its records end. format.ErrDamaged when a header there does not count.
func listRecords(file *handle, of origin, from place, end int64) ([]format.Entry, error) {
	var entries []format.Entry
	w := newWalker(newWindow(file, end), of, from, noLimit)
	defer w.free()
	for {
		h, err := w.read()
		if err == io.EOF {
			return entries, nil
		}
		if err != nil {
			return nil, err
		}
		if h.Type.Named() {
			entries = append(entries, h.Entry(uint32(w.at/format.UnitSize)))
		}
	}
}
