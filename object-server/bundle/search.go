package bundle

import (
	"errors"

	"martlet/object-server/bundle/format"
)

// search looks for records that prove themselves in bytes that do not begin
// with one.
type search struct {
	window window
	limit  uint64 // LSNs from here on do not count
	salt   uint32 // of the records that count
	salted bool   // false: the first record found gives the salt

	found     bool
	first     place  // the first record that counts
	watermark uint64 // highest one in the records that count
}

// place is where a record is, and its number.
type place struct {
	offset int64
	lsn    uint64
}

// run searches behind the offset for records with LSNs that ascend from above
// the one given. A copy of a segment that somebody stored as an object does not
// count: it was made earlier, so its LSNs are lower.
func (s *search) run(offset int64, lsn uint64) error {
	for at := offset + format.UnitSize; at+format.HeaderSize <= s.window.size; {
		head, ok, err := s.try(at)
		if err != nil {
			return err
		}
		if !ok || head.LSN <= lsn || head.LSN >= s.limit {
			at += format.UnitSize
			continue
		}
		if !s.found {
			s.found, s.first = true, place{at, head.LSN}
			s.salt, s.salted = head.Salt, true
		}
		lsn = head.LSN
		s.watermark = max(s.watermark, head.Watermark())
		at += int64(head.Units) * format.UnitSize
	}
	return nil
}

// try reads the header of a record at the offset, if there is one.
func (s *search) try(at int64) (format.Header, bool, error) {
	p, err := s.window.at(at, format.HeaderSize)
	if errors.Is(err, format.ErrDamaged) { // a bad sector
		return format.Header{}, false, nil
	}
	if err != nil || !format.IsHeader(p) {
		return format.Header{}, false, err
	}
	head, err := format.ParseHeader(p)
	if errors.Is(err, format.ErrDamaged) {
		return head, false, nil
	}
	if err != nil {
		if !s.isOurs(p, at) {
			err = nil
		}
		return head, false, err
	}
	return head, (!s.salted || head.Salt == s.salt) && head.Fits(at, s.window.size), nil
}

// isOurs tells whether a header that this version does not support is one of
// the segment. Without a salt only the place of the first record is certain:
// anywhere else the bytes may be those of an object.
func (s *search) isOurs(p []byte, at int64) bool {
	if s.salted {
		return format.SaltOf(p) == s.salt
	}
	return at == format.SegmentHeaderSize
}
