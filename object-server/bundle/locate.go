package bundle

import (
	"errors"
	"fmt"
	"sort"
)

// readLSN reads the record with a number in the log, which must be of the name:
// the whole of it, or at most limit bytes unless that is 0. One read nearly
// always, one more for the footer of a segment that is sealed. Damage is
// ErrQuarantined; the record is nil if there is none with that number.
func (b *Bundle) readLSN(lsn uint64, hash Hash, limit int) (*Record, *Buffer, error) {
	b.mu.RLock()
	s := b.segments.withLSN(lsn)
	if s == nil {
		b.mu.RUnlock()
		return nil, nil, nil
	}
	b.segments.pin(s.number)
	samples, tail, base, isSealed := s.samples, s.tail, s.base, s.sealed
	b.mu.RUnlock()
	defer s.unpin()
	if isSealed {
		var err error
		if samples, err = b.sealedSamples(s); err != nil {
			return nil, nil, err
		}
	}
	unit, err := b.hop(s, samples, tail, base, lsn)
	if err != nil || unit == 0 {
		return nil, nil, err
	}
	// The length is a guess; what is longer takes a second read.
	c := candidate{slot: newSlot(s.number, unit, headGuess/unitSize, slotLive), segment: s}
	return b.readCandidate(&c, hash, limit)
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

// hop finds the unit of the record with an LSN, from the last sample before it
// on; 0 if it is not there.
func (b *Bundle) hop(s *segment, samples []sample, tail int64, base, lsn uint64) (uint32, error) {
	delta := uint32(lsn - base)
	i := sort.Search(len(samples), func(i int) bool { return samples[i].lsn > delta })
	if i == 0 {
		return 0, nil
	}
	at := int64(samples[i-1].unit) * unitSize
	file, err := b.files.get(s.key(b.id))
	if err != nil {
		return 0, err
	}
	defer file.release()
	end := tail
	if i < len(samples) {
		end = int64(samples[i].unit) * unitSize
	}
	v := window{file: file, size: end, buffer: GetBuffer(int(min(windowSize, end-at)))}
	v.buffer.B = v.buffer.B[:0]
	defer v.free()
	for at < end {
		p, err := v.at(at, headerSize)
		if err != nil {
			return 0, err
		}
		h, err := parseHeader(p)
		switch {
		case isDamage(err), err == nil && h.Salt != s.salt:
			return 0, fmt.Errorf("%w: %s record %d: %w", ErrQuarantined, b.directory, lsn, errDamaged)
		case err != nil:
			return 0, err
		case h.LSN == lsn && h.Type.named():
			return uint32(at / unitSize), nil
		case h.LSN >= lsn:
			return 0, nil
		}
		at += int64(h.Units) * unitSize
	}
	return 0, nil
}
