package bundle

import "martlet/object-server/bundle/format"

// PlacedError is damage of which the place is known. Config.Damaged gets it.
type PlacedError struct {
	ID     ID
	Damage Damage // of one record; what is not known is zero
	Older  bool   // the record is that of an older version: a newer write does not replace it
	err    error
}

func (e *PlacedError) Error() string { return e.err.Error() }
func (e *PlacedError) Unwrap() error { return e.err }

// placed adds the place of a record to an error.
func (b *Bundle) placed(c *candidate, err error) error {
	e := &PlacedError{ID: b.id, err: err, Damage: Damage{
		Segment: format.SegmentName(c.segment.sequence, c.segment.generation), Offset: int64(c.unit) * format.UnitSize, Cause: err.Error(),
	}}
	e.note(&c.head, "")
	return e
}

// placedByLSN does it for a record that is known by its header.
func (b *Bundle) placedByLSN(r *Record, err error) *PlacedError {
	e := &PlacedError{ID: b.id, err: err, Older: !r.IsHead(), Damage: Damage{Cause: err.Error()}}
	b.mu.RLock()
	if s := b.segments.withLSN(r.LSN()); s != nil {
		e.Damage.Segment = format.SegmentName(s.sequence, s.generation)
	}
	b.mu.RUnlock()
	name := ""
	if m, err := r.Metadata(); err == nil {
		name = m.Name
	}
	e.note(&r.Head, name)
	return e
}

// inSegment adds the name of a segment to an error.
func (b *Bundle) inSegment(s *openSegment, err error) error {
	return &PlacedError{ID: b.id, err: err, Damage: Damage{Segment: format.SegmentName(s.sequence, s.generation), Cause: err.Error()}}
}

// note adds what the header says.
func (e *PlacedError) note(h *format.Header, name string) {
	if h.LSN > 0 {
		e.Damage.FirstLSN, e.Damage.LastLSN = h.LSN, h.LSN
		e.Damage.Lost = []Lost{{LSN: h.LSN, Hash: h.Hash, Name: name}}
	}
}

// Replaced is the name whose newest record a sealed draft takes the place of; false
// if it has versions, of which older ones stay.
func (d *Draft) Replaced() (format.Hash, bool) {
	return d.head.Hash, d.head.Type.Named() && d.chain == nil
}
