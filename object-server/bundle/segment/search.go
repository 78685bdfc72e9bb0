package segment

import (
	"errors"

	"martlet/object-server/bundle/format"
)

// search looks for records that prove themselves in bytes that do not begin
// with one.
type search struct {
	window *Window
	end    int64  // headers are looked for up to here
	limit  uint64 // LSNs from here on do not count
	salt   uint32 // of the records that count
	salted bool   // false: the first record found gives the salt
	first  bool   // no more than the first one is wanted, and what a later version wrote is none

	found     bool
	place     Place  // of the first record that counts
	watermark uint64 // highest one in the records that count
}

// run searches behind the offset for records with LSNs that ascend from above
// the one given. A copy of a segment that was stored as an object does not
// count: it was made earlier, so its LSNs are lower.
func (s *search) run(offset int64, lsn uint64) error {
	for at := offset + format.UnitSize; at+format.HeaderSize <= min(s.end, s.window.size); {
		head, ok, err := s.try(at)
		if err != nil {
			return err
		}
		if !ok || head.LSN <= lsn || head.LSN >= s.limit {
			at += format.UnitSize
			continue
		}
		if !s.found {
			s.found, s.place = true, Place{at, head.LSN}
			s.salt, s.salted = head.Salt, true
		}
		if s.first {
			return nil
		}
		lsn = head.LSN
		s.watermark = max(s.watermark, head.Watermark())
		at += int64(head.Units) * format.UnitSize
	}
	return nil
}

// try reads the header of a record at the offset, if there is one.
func (s *search) try(at int64) (format.Header, bool, error) {
	p, err := s.window.At(at, format.HeaderSize)
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
		if s.first || !s.isOurs(p, at) {
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
