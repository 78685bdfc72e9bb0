package bundle

import (
	"errors"
	"fmt"
	"io"
	"math"

	"martlet/object-server/bundle/format"
)

// Walker reads the records of one segment file one after the other. It alone decides
// which bytes are the next record, and what the bytes between two records are; the
// rules are in doc/formats/bundle.md, "Opening and recovery". Bytes that the disk
// cannot read are damage like any other. A Walker is not safe for concurrent use.
type Walker struct {
	window window // of what it reads; its size is where the records end
	origin origin
	limit  limit
	stop   int64  // no header is looked for from here on
	floor  uint64 // the records up to here were acknowledged, as is known from elsewhere
	proven uint64 // highest LSN known to be durable: given, or met as a watermark
	next   place  // of the next record; LSN 0: not known, the first one found counts
	at     int64  // offset of the record that read returned last
	named  int    // records with a name met
	listed int    // how many the segment has, as its seal says; -1: not known
	done   bool   // nothing follows
}

// origin is what the records of one segment have in common.
type origin struct {
	sequence   uint32
	generation uint32 // above 0: compaction made it, so that LSNs ascend with gaps
	salt       uint32
	base       uint64 // LSN of the first record, or a lower one
}

// place is where a record is, and its number.
type place struct {
	offset int64
	lsn    uint64
}

// limit is where a segment ends at the latest: the LSN its successors start with.
type limit struct {
	lsn  uint64
	sure bool // everything before it was durable, as a base LSN proves
}

// noLimit is the limit of the newest segment.
var noLimit = limit{lsn: math.MaxUint64}

// gap is a place where records should be, and are not.
type gap struct {
	span           // in the file
	first   uint64 // LSNs of the lost records
	last    uint64
	torn    bool // none of them was acknowledged: the log ends here
	unnamed bool // none of them has a name: all those that have one were met
}

// newWalker reads from a place on, up to a limit. It frees the window.
func newWalker(v window, of origin, from place, bound limit) Walker {
	return Walker{window: v, origin: of, limit: bound, stop: v.size, next: from, listed: -1}
}

func (w *Walker) free() { w.window.free() }

// read returns the header of the next record and goes behind it; io.EOF at the
// end of the segment. format.ErrDamaged: what lies there does not count, see resync and
// skip. format.ErrUnsupported: a later version wrote it.
func (w *Walker) read() (format.Header, error) {
	if w.next.lsn == 0 && !w.done {
		w.next.offset -= format.UnitSize
		if _, err := w.skip(); err != nil {
			return format.Header{}, err
		}
	}
	if w.done || w.next.lsn >= w.limit.lsn || w.next.offset >= w.stop && !w.isOwed() {
		return format.Header{}, io.EOF
	}
	h, err := w.header()
	if err != nil {
		return h, err
	}
	if h.Type.Named() {
		w.named++
	}
	w.proven = max(w.proven, h.Watermark())
	w.at = w.next.offset
	w.next = place{w.at + int64(h.Units)*format.UnitSize, h.LSN + 1}
	return h, nil
}

// header reads the header of the next record; format.ErrDamaged if it does not count.
func (w *Walker) header() (format.Header, error) {
	p, err := w.window.at(w.next.offset, format.HeaderSize)
	if err != nil {
		return format.Header{}, err
	}
	h, err := format.ParseHeader(p)
	if err != nil && format.SaltOf(p) == w.origin.salt {
		return h, err
	}
	if err != nil || h.Salt != w.origin.salt || !h.Fits(w.next.offset, w.window.size) || h.Type == format.TypeSeal || !w.follows(h.LSN) {
		return h, fmt.Errorf("%w: not the expected record", format.ErrDamaged)
	}
	return h, nil
}

// follows tells whether the record with an LSN may come next. Compaction leaves gaps.
func (w *Walker) follows(lsn uint64) bool {
	return lsn == w.next.lsn || w.origin.generation > 0 && w.next.lsn <= lsn && lsn < w.limit.lsn
}

// isOwed tells whether the next record is known to have been acknowledged.
func (w *Walker) isOwed() bool {
	return w.limit.sure || w.limit == noLimit && w.next.lsn <= w.floor
}

// resync decides what the bad place is that read has met, and goes behind it. It is
// nil if the log ends there cleanly.
func (w *Walker) resync() (*gap, error) {
	if !w.isOwed() {
		padded, err := w.window.padded(w.next.offset)
		if padded || err != nil {
			w.done = true
			return nil, err
		}
	}
	seek := search{window: &w.window, end: w.stop, limit: w.limit.lsn, salt: w.origin.salt, salted: true}
	if err := seek.run(w.next.offset, w.next.lsn); err != nil {
		return nil, err
	}
	w.proven = max(w.proven, seek.watermark)
	proven := w.proven
	if w.window.holes.behind(w.next.offset) { // what cannot be read may have been acknowledged
		proven = max(proven, w.next.lsn+mayHold(w.window.size-w.next.offset, w.origin.generation)-1)
	}
	g := &gap{
		span: span{w.next.offset, w.window.size}, first: w.next.lsn, last: w.limit.lsn - 1,
		unnamed: w.named == w.listed,
	}
	switch {
	case !w.limit.sure && proven < g.first:
		w.done, g.torn = true, true
		return g, nil
	case seek.found:
		g.to, g.last = seek.place.offset, seek.place.lsn-1
		w.next = seek.place
		return g, nil
	case !w.limit.sure:
		g.last = min(g.last, proven)
	}
	w.done, w.next.lsn = true, g.last+1
	return g, nil
}

// resume goes behind what the CHECKPOINTs of the segment cover.
func (w *Walker) resume(c *checkpoints) {
	w.next = place{int64(c.resume) * format.UnitSize, c.covered + 1}
	w.proven = max(w.proven, c.covered)
	w.named = len(c.entries)
}

// skip goes to the first record behind the next place that proves itself, and does
// not ask what is missing before it; false if there is none.
func (w *Walker) skip() (bool, error) {
	seek := search{window: &w.window, end: w.stop, limit: w.limit.lsn, salt: w.origin.salt, salted: true, first: true}
	if err := seek.run(w.next.offset, w.next.lsn); err != nil {
		return false, err
	}
	if w.done = !seek.found; seek.found {
		w.next = seek.place
	}
	return seek.found, nil
}

// endsWell tells whether the block that the next record goes into can be read: the
// rest of it is written again with the record.
func (w *Walker) endsWell() bool {
	end := w.next.offset
	start := max(end/blockSize*blockSize, w.window.offset)
	if start >= end {
		return true
	}
	_, err := w.window.at(start, int(end-start))
	return err == nil
}

// mayHold is how many LSNs so many bytes of a segment can stand for at most.
// Compaction leaves gaps.
func mayHold(bytes int64, generation uint32) uint64 {
	if generation > 0 {
		return format.SpanMax + 1
	}
	return uint64(bytes)/format.HeaderSize + 1
}

// search looks for records that prove themselves in bytes that do not begin
// with one.
type search struct {
	window *window
	end    int64  // headers are looked for up to here
	limit  uint64 // LSNs from here on do not count
	salt   uint32 // of the records that count
	salted bool   // false: the first record found gives the salt
	first  bool   // no more than the first one is wanted, and what a later version wrote is none

	found     bool
	place     place  // of the first record that counts
	watermark uint64 // highest one in the records that count
}

// run searches behind the offset for records with LSNs that ascend from above
// the one given. A copy of a segment that somebody stored as an object does not
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
			s.found, s.place = true, place{at, head.LSN}
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
