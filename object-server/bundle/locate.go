package bundle

import (
	"errors"
	"fmt"
	"sort"
)

// readLSN reads the record with a number in the log, which must be of the name:
// the whole of it, or without data if headOnly is set. That is one read, a second
// one for what is longer, or does not lie where it is looked for first, and once
// one for the footer of a segment that is sealed. Damage is ErrQuarantined; the record is
// nil if there is none with that number.
func (b *Bundle) readLSN(lsn uint64, hash Hash, headOnly bool) (*Record, *Buffer, error) {
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
	h := hop{salt: s.salt, lsn: lsn, headOnly: headOnly}
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
	if err == nil && record != nil && record.head.Hash == hash {
		return record, buffer, nil
	}
	buffer.Free()
	if isUnreadable(err) || isDamage(err) {
		err = b.placedByLSN(&Record{head: header{LSN: lsn, Hash: hash}}, fmt.Errorf("%w: %s record %d: %w", ErrQuarantined, b.directory, lsn, err))
		b.tell(err)
	}
	return nil, nil, err
}

// sealedSamples are those in a segment's footer. They stay in memory: 128 KiB for
// a gigabyte of records.
func (b *Bundle) sealedSamples(s *segment) ([]sample, error) {
	if loaded := s.loaded.Load(); loaded != nil {
		return *loaded, nil
	}
	file, err := b.files.get(s.key(b.id))
	if err != nil {
		return nil, err
	}
	defer file.release()
	size, err := file.Size()
	if err != nil {
		return nil, fmt.Errorf("bundle: %w", err)
	}
	found, err := findSeal(file, size)
	if err == nil && found == nil {
		err = fmt.Errorf("%w: footer", errDamaged)
	}
	var samples []sample
	if err == nil {
		_, samples, err = readSeal(file, size, found)
	}
	if errors.Is(err, errDamaged) {
		samples, err = []sample{{0, segmentHeaderSize / unitSize}}, nil // the long way then
	}
	if err != nil {
		return nil, err
	}
	s.loaded.Store(&samples)
	return samples, nil
}

// hopBytes are read at once when a record is looked for by its LSN: from one
// sample to the next, and what of the record lies behind that.
const hopBytes = sampleBytes + 8<<10

// hop looks for a record by its LSN from a sample on.
type hop struct {
	salt     uint32
	lsn      uint64
	headOnly bool
	start    int64 // offset of the sample
	end      int64 // of the records

	bytes            int64  // from the sample to the next
	records, skipped uint32 // LSNs in these, and before the record
}

// between sets where to look; false if the LSN is lower than all samples. delta and
// last are LSNs from the base of the segment.
func (h *hop) between(samples []sample, delta uint32, tail int64, last uint32) bool {
	i := sort.Search(len(samples), func(i int) bool { return samples[i].lsn > delta })
	if i == 0 {
		return false
	}
	h.start, h.end = int64(samples[i-1].unit)*unitSize, tail
	from, to := samples[i-1], sample{last + 1, uint32(tail / unitSize)}
	if i < len(samples) {
		to = samples[i]
	}
	h.bytes, h.records, h.skipped = int64(to.unit-from.unit)*unitSize, to.lsn-from.lsn, delta-from.lsn
	return true
}

// run goes from record to record. Damage on the way costs a search in steps of
// one unit, and is told if it may be that of the record. The buffer is the
// caller's, whatever is returned.
func (h *hop) run(file *handle) (*Record, *Buffer, error) {
	v := window{file: file, size: h.end, length: hopBytes, buffer: GetBuffer(hopBytes)}
	var damage error
	for at := h.start; at < h.end; {
		p, err := v.at(at, headerSize)
		if err != nil && !errors.Is(err, errDamaged) {
			return nil, v.buffer, err
		}
		head := header{}
		if err == nil {
			head, err = parseHeader(p)
		}
		switch {
		case err != nil || head.Salt != h.salt || !head.fits(at, h.end):
			damage = fmt.Errorf("%w: no header at offset %d", errDamaged, at)
			at += unitSize
		case head.LSN < h.lsn || head.LSN == h.lsn && !head.Type.named():
			at += int64(head.Units) * unitSize
		case head.LSN > h.lsn:
			return nil, v.buffer, damage
		default:
			return h.read(&v, at, &head)
		}
	}
	return nil, v.buffer, damage
}

// read reads the record at the offset, in the window or beyond it.
func (h *hop) read(v *window, at int64, head *header) (*Record, *Buffer, error) {
	parts := head.layout()
	need := parts.length
	if h.headOnly {
		need = parts.data
	}
	p, err := v.at(at, int(need))
	if err != nil {
		return nil, v.buffer, err
	}
	record, _, err := parsePart(p, h.headOnly)
	return record, v.buffer, err
}
