package bundle

import (
	"errors"
	"fmt"
	"io"
	"sort"

	"martlet/object-server/bundle/buffers"
	"martlet/object-server/bundle/format"
	"martlet/object-server/bundle/segment"
)

// readLSN reads the record with a number in the log, which must be of the name:
// the whole of it, or without data if headOnly is set. That is one read, a second
// one for what is longer, or does not lie where it is looked for first, and once
// one for the footer of a segment that is sealed. Damage is ErrQuarantined; the record is
// nil if there is none with that number.
func (b *Bundle) readLSN(lsn uint64, hash format.Hash, headOnly bool) (*Record, *buffers.Buffer, error) {
	b.mu.RLock()
	s := b.segments.withLSN(lsn)
	if s == nil {
		b.mu.RUnlock()
		return nil, nil, nil
	}
	b.segments.pin(s.number)
	samples, tail, base, last, isSealed := s.samples, s.tail, s.base, s.last, s.sealed
	b.mu.RUnlock()
	defer s.unpin()
	if isSealed {
		var err error
		if samples, err = b.sealedSamples(s); err != nil {
			return nil, nil, err
		}
	}
	h := hop{origin: s.origin(), lsn: lsn, headOnly: headOnly}
	if !h.between(samples, uint32(lsn-base), tail, uint32(last-base)) {
		return nil, nil, nil
	}
	file, err := b.files.get(s.key(b.id))
	if err != nil {
		return nil, nil, err
	}
	defer file.release()
	record, buffer := h.near(file)
	if record == nil {
		buffer.Free()
		record, buffer, err = h.run(file)
	}
	if err == nil && record != nil && record.Head.Hash == hash {
		return &Record{Record: *record}, buffer, nil
	}
	buffer.Free()
	if isUnreadable(err) || format.IsDamage(err) {
		err = b.placedByLSN(&Record{Record: format.Record{Head: format.Header{LSN: lsn, Hash: hash}}}, fmt.Errorf("%w: %s record %d: %w", format.ErrQuarantined, b.directory, lsn, err))
		b.tell(err)
	}
	return nil, nil, err
}

// sealedSamples are those in a segment's footer. They stay in memory: 128 KiB for
// a gigabyte of records.
func (b *Bundle) sealedSamples(s *openSegment) ([]format.Sample, error) {
	if loaded := s.loaded.Load(); loaded != nil {
		return *loaded, nil
	}
	file, err := b.files.get(s.key(b.id))
	if err != nil {
		return nil, err
	}
	defer file.release()
	_, samples, err := segment.ReadFooter(file)
	if errors.Is(err, format.ErrDamaged) {
		samples, err = []format.Sample{{Unit: format.SegmentHeaderSize / format.UnitSize}}, nil // the long way then
	}
	if err != nil {
		return nil, err
	}
	s.loaded.Store(&samples)
	return samples, nil
}

// hopBytes are read at once when a record is looked for by its LSN: from one
// sample to the next, and what of the record lies behind that.
const hopBytes = format.SampleBytes + 8<<10

// hop looks for a record by its LSN from a sample on.
type hop struct {
	origin   segment.Origin
	lsn      uint64
	headOnly bool
	start    segment.Place // of the sample
	end      int64         // of the records
	last     uint64

	bytes            int64  // from the sample to the next
	records, skipped uint32 // LSNs in these, and before the record
}

// between sets where to look; false if the LSN is lower than all samples. delta and
// last are LSNs from the base of the segment.
func (h *hop) between(samples []format.Sample, delta uint32, tail int64, last uint32) bool {
	i := sort.Search(len(samples), func(i int) bool { return samples[i].LSN > delta })
	if i == 0 {
		return false
	}
	h.start = segment.Place{Offset: int64(samples[i-1].Unit) * format.UnitSize, LSN: h.origin.Base + uint64(samples[i-1].LSN)}
	h.end, h.last = tail, h.origin.Base+uint64(last)
	from, to := samples[i-1], format.Sample{LSN: last + 1, Unit: uint32(tail / format.UnitSize)}
	if i < len(samples) {
		to = samples[i]
	}
	h.bytes, h.records, h.skipped = int64(to.Unit-from.Unit)*format.UnitSize, to.LSN-from.LSN, delta-from.LSN
	return true
}

// run goes from record to record. Damage on the way costs a search in steps of
// one unit, and is told if it may be that of the record. The buffer is the
// caller's, whatever is returned.
func (h *hop) run(file *handle) (*format.Record, *buffers.Buffer, error) {
	v := segment.NewWindow(file, h.end, hopBytes)
	w := segment.NewWalker(v, h.origin, h.start, segment.Limit{LSN: h.last + 1})
	record, err := h.find(&w)
	return record, w.Buffer(), err
}

// find looks for the record on a walker's way; nil if it is not there.
func (h *hop) find(w *segment.Walker) (*format.Record, error) {
	var damage error
	for {
		head, err := w.Read()
		switch {
		case err == io.EOF:
			return nil, damage
		case format.IsDamage(err):
			damage = err
			if _, err := w.Skip(); err != nil {
				return nil, err
			}
		case err != nil:
			return nil, err
		case head.LSN > h.lsn:
			return nil, damage
		case head.LSN == h.lsn && head.Type.Named():
			return h.read(w, &head)
		}
	}
}

// read reads the record whose header was read, in the window or beyond it.
func (h *hop) read(w *segment.Walker, head *format.Header) (*format.Record, error) {
	parts := head.Layout()
	need := parts.Length
	if h.headOnly {
		need = parts.Data
	}
	p, err := w.Bytes(w.At(), int(need))
	if err != nil {
		return nil, err
	}
	record := new(format.Record)
	_, err = record.ParsePart(p, h.headOnly)
	return record, err
}
