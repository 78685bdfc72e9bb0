package bundle

import (
	"errors"
	"fmt"
	"io"
	"syscall"

	"martlet/object-server/bundle/buffers"
	"martlet/object-server/bundle/format"
	"martlet/object-server/bundle/index"
	"martlet/object-server/bundle/segment"
)

// candidate is a record that may be the one looked for, its segment pinned.
type candidate struct {
	slot    index.Slot
	segment *openSegment
	damaged bool
	unit    uint32        // where the record lies; 0: its entry in the footer is still to be read
	units   uint32        // its length, or more; 0 if not known
	chained bool          // its entry says that it is one of a chain of versions
	head    format.Header // of a damaged record, if that could be read
}

// candidates appends what the index has for a name; release must follow.
func (b *Bundle) candidates(found []candidate, hash format.Hash) []candidate {
	var space [4]index.Slot
	b.mu.RLock()
	defer b.mu.RUnlock()
	for _, s := range b.index.Find(hash.Key(), space[:0]) {
		if b.superseded.has(s.At(), hash) {
			continue
		}
		found = append(found, candidate{
			slot: s, segment: b.segments.pin(s.Segment()), damaged: b.damaged[s.At()], unit: s.Unit(), units: s.Units(),
		})
	}
	if b.config.IndexOnDisk {
		found = b.filed(found, hash)
	}
	return found
}

func release(found []candidate) {
	for _, c := range found {
		c.segment.unpin()
	}
}

// headGuess is what ReadHead reads at first, in bytes: nearly always enough.
const headGuess = 2048

// Read reads the whole newest record of a name, with one pread, and checks all
// but the object's bytes. The record is valid until the buffer is freed; it is
// nil if there is none. Damage puts the name into quarantine and is
// ErrQuarantined, as is a bad sector; the record then tells what is still known.
// Where records of unknown names are lost, one that is older is Doubtful, and that
// there is none is ErrQuarantined.
func (b *Bundle) Read(hash format.Hash) (*Record, *buffers.Buffer, error) { return b.read(hash, 0) }

// ReadHead is Read without the object's bytes and their checksums.
func (b *Bundle) ReadHead(hash format.Hash) (*Record, *buffers.Buffer, error) {
	return b.read(hash, headGuess)
}

// read reads at most limit bytes of a record unless that is 0.
func (b *Bundle) read(hash format.Hash, limit int) (*Record, *buffers.Buffer, error) {
	var space [4]candidate
	found := b.candidates(space[:0], hash)
	defer release(found)
	var suspect *Record
	var damage error
	for i := range found {
		record, buffer, err := b.readCandidate(&found[i], hash, limit)
		switch {
		case err == nil && record == nil: // another name
		case err == nil:
			record.doubtful = b.isLost(record.LSN())
			return record, buffer, nil
		case errors.Is(err, format.ErrQuarantined):
			suspect, damage = record, err
		default:
			return nil, nil, err
		}
	}
	if damage == nil && b.lostThrough > 0 {
		damage = b.lost()
	}
	return suspect, nil, damage
}

// readCandidate reads a record. It is nil if it is another name's.
func (b *Bundle) readCandidate(c *candidate, hash format.Hash, limit int) (*Record, *buffers.Buffer, error) {
	if c.unit == 0 {
		e, err := b.entry(c)
		if err != nil {
			return &Record{slot: c.slot, chained: true}, nil, b.blame(c, err)
		}
		if e.Hash != hash {
			return nil, nil, nil
		}
		c.unit, c.units, c.chained = e.Unit, e.Units, e.IsChained()
	}
	length := int(c.units) * format.UnitSize
	if length == 0 { // longer than the index can say
		length = format.HeaderSize
	}
	if limit > 0 {
		length = min(length, limit)
	}
	record, buffer, need, err := b.readAt(c, length, limit > 0)
	if need > 0 {
		record, buffer, _, err = b.readAt(c, need, limit > 0)
	}
	if segment.IsBadSector(err) {
		buffer.Free()
		record, buffer, err = b.readNoMore(c, limit > 0)
	}
	switch {
	case record.LSN() != 0 && record.Head.Hash != hash: // whatever else may be damaged
		buffer.Free()
		return nil, nil, nil
	case err == nil && c.damaged:
		err = fmt.Errorf("%w: its data", format.ErrDamaged)
	}
	if err != nil {
		buffer.Free()
		record.chained = record.LSN() == 0 && (c.chained || !c.slot.IsEntry() && c.slot.IsChained())
		c.head = record.Head
		return record.bare(), nil, b.blame(c, err)
	}
	return record, buffer, nil
}

// readNoMore reads a record again, but no byte more than it takes: a bad sector may
// lie behind it. The record is never nil; it has the header if that can be read.
func (b *Bundle) readNoMore(c *candidate, headOnly bool) (*Record, *buffers.Buffer, error) {
	record, buffer, need, err := b.readAt(c, format.HeaderSize, headOnly)
	if need == 0 || record.Head.Salt != c.segment.salt {
		return record, buffer, err
	}
	whole, buffer, _, err := b.readAt(c, need, headOnly)
	if segment.IsBadSector(err) {
		return record, buffer, err
	}
	return whole, buffer, err
}

// readAt reads length bytes of a record, fewer where the file ends, and parses
// them. If the record needs more, it says how many. The record is never nil.
func (b *Bundle) readAt(c *candidate, length int, headOnly bool) (*Record, *buffers.Buffer, int, error) {
	record := &Record{slot: c.slot}
	file, err := b.files.get(c.segment.key(b.id))
	if err != nil {
		return record, nil, 0, err
	}
	defer file.release()
	buffer := buffers.Get(length)
	n, err := file.ReadAt(buffer.B, int64(c.unit)*format.UnitSize)
	if n < length && (n < format.HeaderSize || !errors.Is(err, io.EOF)) {
		return record, buffer, 0, fmt.Errorf("bundle: %w", err)
	}
	buffer.B = buffer.B[:n]
	need, err := record.ParsePart(buffer.B, headOnly)
	if need > n && n < length {
		return &Record{slot: c.slot}, buffer, 0, fmt.Errorf("bundle: record is cut off: %w", io.ErrUnexpectedEOF)
	}
	if need > n {
		buffer.Free()
		return record, nil, need, nil
	}
	if err == nil && (record.Head.Salt != c.segment.salt || !record.Head.Type.Named()) {
		return &Record{slot: c.slot}, buffer, 0, fmt.Errorf("%w: record of another segment", format.ErrDamaged)
	}
	return record, buffer, 0, err
}

// blame turns the error of a read or a check into ErrQuarantined if it is about
// damage, and marks the place. An unsupported record was readable when the
// bundle was opened, so it counts as damage here. A read from a bad sector, or
// behind the end of a file that was cut off, counts for this once: the next may
// succeed.
func (b *Bundle) blame(c *candidate, err error) error {
	if !isUnreadable(err) && !format.IsDamage(err) {
		return err
	}
	err = fmt.Errorf("%w: %s offset %d: %w", format.ErrQuarantined, b.files.path(c.segment.key(b.id)),
		int64(c.unit)*format.UnitSize, err)
	err = b.placed(c, err)
	if isUnreadable(err) {
		b.tell(err)
	} else {
		b.mark(c.slot, err)
	}
	return err
}

// isUnreadable tells whether an error is of a bad sector, or of a file that was
// cut off.
func isUnreadable(err error) bool {
	return errors.Is(err, syscall.EIO) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
}

// preadExactly reads length bytes of a segment. A bad sector is a format.ErrDamaged.
func (b *Bundle) preadExactly(s *openSegment, unit uint32, length int) (*buffers.Buffer, error) {
	file, err := b.files.get(s.key(b.id))
	if err != nil {
		return nil, err
	}
	defer file.release()
	buffer := buffers.Get(length)
	if err := segment.ReadSpan(file, buffer.B, int64(unit)*format.UnitSize); err != nil {
		buffer.Free()
		return nil, fmt.Errorf("%s: %w", b.files.path(s.key(b.id)), err)
	}
	return buffer, nil
}
