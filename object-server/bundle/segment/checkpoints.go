package segment

import (
	"fmt"
	"io"

	"martlet/object-server/bundle/buffers"
	"martlet/object-server/bundle/format"
)

// LastCheckpoint finds the last CHECKPOINT of a segment: every record behind it
// says where it is. The answer is a hint: 0 when nothing was found, and what it
// points at must prove itself.
func LastCheckpoint(file io.ReaderAt, size int64, salt uint32) (unit uint32, err error) {
	err = searchBack(file, size, func(h *format.Header, at int64) bool {
		if h.Salt != salt || h.Type == format.TypeSeal || !h.Fits(at, size) {
			return false
		}
		unit = h.Checkpoint
		return true
	})
	return unit, err
}

// Checkpoints is what the CHECKPOINTs of a segment say together.
type Checkpoints struct {
	Entries []format.Entry // not sorted
	Resume  uint32         // unit of the first record that they do not cover
	Covered uint64         // last LSN before it
}

// Next is the place of the first record that they do not cover.
func (c *Checkpoints) Next() Place {
	return Place{int64(c.Resume) * format.UnitSize, c.Covered + 1}
}

// ReadCheckpoints reads the CHECKPOINT at the unit and those before it;
// ErrDamaged unless all of them are whole.
func ReadCheckpoints(file io.ReaderAt, of Origin, size int64, unit uint32) (Checkpoints, error) {
	var all Checkpoints
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
func (c *Checkpoints) read(file io.ReaderAt, of Origin, size int64, unit uint32, newest bool) (before uint32, err error) {
	var b [format.HeaderSize]byte
	offset := int64(unit) * format.UnitSize
	if offset+format.HeaderSize > size {
		return 0, fmt.Errorf("%w: checkpoint behind the end", format.ErrDamaged)
	}
	if err := ReadSpan(file, b[:], offset); err != nil {
		return 0, err
	}
	h, err := format.ParseHeader(b[:])
	if err != nil || h.Type != format.TypeCheckpoint || h.Salt != of.Salt || !h.Fits(offset, size) {
		return 0, fmt.Errorf("%w: no checkpoint where one should be", format.ErrDamaged)
	}
	buffer := buffers.Get(int(h.Units) * format.UnitSize)
	defer buffer.Free()
	if err := ReadSpan(file, buffer.B, offset); err != nil {
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
	if body.Sequence != of.Sequence || body.Resume > unit || h.Previous < of.Base-1 || h.Previous >= h.LSN {
		return 0, fmt.Errorf("%w: checkpoint of another place", format.ErrDamaged)
	}
	if newest {
		c.Resume, c.Covered = body.Resume, h.Previous
	}
	c.Entries, err = format.ParseRun(c.Entries, body.Run, of.Base, offset)
	return body.Before, err
}
