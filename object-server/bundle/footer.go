package bundle

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
)

// readSeal reads the footer of a segment file of the given size.
func readSeal(file *handle, size int64, s *seal) ([]runEntry, []sample, error) {
	length := int64(s.units) * unitSize
	if length > size-segmentHeaderSize {
		return nil, nil, fmt.Errorf("%w: footer longer than its segment", errDamaged)
	}
	buffer := GetBuffer(int(length - headerSize))
	defer buffer.Free()
	if err := readSpan(file, buffer.B, size-length); err != nil {
		return nil, nil, err
	}
	run, samples, err := s.check(buffer.B)
	if err != nil {
		return nil, nil, err
	}
	entries, err := parseRun(nil, run, s.base, size-length)
	return entries, parseSamples(samples), err
}

// readRun reads the run in the footer of a segment that must have one.
func readRun(file *handle) ([]runEntry, error) {
	size, err := file.Size()
	if err != nil {
		return nil, fmt.Errorf("bundle: %w", err)
	}
	s, err := findSeal(file, size)
	if err == nil && s == nil {
		err = fmt.Errorf("%w: footer", errDamaged)
	}
	if err != nil {
		return nil, err
	}
	run, _, err := readSeal(file, size, s)
	return run, err
}

// findSeal reads the header at the end of a segment file; nil if there is none, or
// none that can be read.
func findSeal(file *handle, size int64) (*seal, error) {
	if size < segmentHeaderSize+headerSize {
		return nil, nil
	}
	var b [headerSize]byte
	if err := readSpan(file, b[:], size-headerSize); errors.Is(err, errDamaged) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	s, err := parseSeal(b[:])
	if err != nil { // bytes of an object, torn, or of another version: the records themselves tell
		return nil, nil
	}
	return &s, nil
}

// lastCheckpoint finds the last CHECKPOINT of a segment: every record behind it
// says where it is. The answer is a hint: 0 when nothing was found, and what it
// points at must prove itself.
func lastCheckpoint(file *handle, size int64, salt uint32) (unit uint32, err error) {
	err = searchBack(file, size, func(h *header, at int64) bool {
		if h.Salt != salt || h.Type == TypeSeal || !h.fits(at, size) {
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
	err = searchBack(file, size, func(h *header, at int64) bool {
		end := at + int64(h.Units)*unitSize
		if h.Type == TypeSeal {
			end = at + headerSize
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
func searchBack(file *handle, size int64, visit func(h *header, at int64) bool) error {
	buffer := GetBuffer(windowSize)
	defer buffer.Free()
	var bad holes
	for end := size; end > segmentHeaderSize; {
		start := max(end-windowSize, 0) / unitSize * unitSize
		p := buffer.B[:min(windowSize, size-start)]
		err := readFull(file, p, start)
		if isBadSector(err) {
			err = bad.read(file, p, start)
		}
		if err != nil {
			return wrap(err)
		}
		for at := (len(p) - headerSize) / unitSize * unitSize; at >= 0; at -= unitSize {
			if !isHeader(p[at:]) {
				continue
			}
			if h, err := parseHeader(p[at:]); err == nil && visit(&h, start+int64(at)) {
				return nil
			}
		}
		if start <= segmentHeaderSize {
			break
		}
		end = start + headerSize // a header may lie across
	}
	return nil
}

// checkpoints is what the CHECKPOINTs of a segment say together.
type checkpoints struct {
	entries []runEntry // not sorted
	resume  uint32     // unit of the first record that they do not cover
	covered uint64     // last LSN before it
}

// readCheckpoints reads the CHECKPOINT at the unit and those before it;
// errDamaged unless all of them are whole.
func readCheckpoints(file *handle, s *segment, size int64, unit uint32) (checkpoints, error) {
	var all checkpoints
	for at := unit; at != 0; {
		before, err := all.read(file, s, size, at, at == unit)
		if err != nil {
			return all, err
		}
		if before >= at {
			return all, fmt.Errorf("%w: checkpoints do not descend", errDamaged)
		}
		at = before
	}
	return all, nil
}

// read adds one CHECKPOINT and returns the unit of the one before it.
func (c *checkpoints) read(file *handle, s *segment, size int64, unit uint32, newest bool) (before uint32, err error) {
	var b [headerSize]byte
	offset := int64(unit) * unitSize
	if offset+headerSize > size {
		return 0, fmt.Errorf("%w: checkpoint behind the end", errDamaged)
	}
	if err := readSpan(file, b[:], offset); err != nil {
		return 0, err
	}
	h, err := parseHeader(b[:])
	if err != nil || h.Type != TypeCheckpoint || h.Salt != s.salt || !h.fits(offset, size) {
		return 0, fmt.Errorf("%w: no checkpoint where one should be", errDamaged)
	}
	buffer := GetBuffer(int(h.Units) * unitSize)
	defer buffer.Free()
	if err := readSpan(file, buffer.B, offset); err != nil {
		return 0, err
	}
	record, err := parseRecord(buffer.B)
	if err == nil {
		err = record.checkData()
	}
	if err != nil {
		return 0, err
	}
	body, err := parseCheckpoint(record.Data)
	if err != nil {
		return 0, err
	}
	if body.sequence != s.sequence || body.resume > unit || h.Previous < s.base-1 || h.Previous >= h.LSN {
		return 0, fmt.Errorf("%w: checkpoint of another place", errDamaged)
	}
	if newest {
		c.resume, c.covered = body.resume, h.Previous
	}
	c.entries, err = parseRun(c.entries, body.run, s.base, offset)
	return body.before, err
}

// samplesOf makes the samples for entries in any order, and leaves them in that
// of the log.
func samplesOf(entries []runEntry, base uint64) []sample {
	slices.SortFunc(entries, func(e, f runEntry) int { return cmp.Compare(e.LSN, f.LSN) })
	var samples []sample
	for i := range entries {
		samples = addSample(samples, uint32(entries[i].LSN-base), entries[i].Unit)
	}
	return samples
}

// scan lists the named records of a segment between two offsets, from the given
// LSN on. errDamaged when a header there does not count.
func scan(file *handle, s *segment, from, to int64, lsn uint64) ([]runEntry, error) {
	var entries []runEntry
	v := newWindow(file, to)
	defer v.free()
	for at := from; at < to; {
		p, err := v.at(at, headerSize)
		if err != nil {
			return nil, err
		}
		h, err := parseHeader(p)
		switch {
		case err != nil:
			return nil, err
		case h.Salt != s.salt || !h.fits(at, to) || h.LSN < lsn || h.LSN > lsn && s.generation == 0:
			return nil, fmt.Errorf("%w: not the expected record", errDamaged)
		}
		if h.Type.named() {
			entries = append(entries, h.runEntry(uint32(at/unitSize)))
		}
		at += int64(h.Units) * unitSize
		lsn = h.LSN + 1
	}
	return entries, nil
}

// isDamage tells whether an error is about bytes that are not as they should be.
func isDamage(err error) bool { return errors.Is(err, errDamaged) || errors.Is(err, ErrUnsupported) }
