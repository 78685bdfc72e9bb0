package segment

import (
	"errors"
	"fmt"
	"io"
	"math"

	"martlet/object-server/bundle/buffers"
	"martlet/object-server/bundle/format"
)

// Walker reads the records of one segment file one after the other. It alone decides
// which bytes are the next record, and what the bytes between two records are. Bytes
// that the disk cannot read are damage like any other. It is not safe for concurrent
// use, and is moved, not copied.
type Walker struct {
	window Window // of what it reads; its size is where the records end
	origin Origin
	limit  Limit
	stop   int64  // no header is looked for from here on
	floor  uint64 // see Acknowledged
	proven uint64
	next   Place
	at     int64 // offset of the record that Read returned last
	named  int   // records with a name met
	listed int   // how many the segment has, as its footer says; -1: not known
	done   bool  // nothing follows
}

// Origin is what the records of one segment have in common.
type Origin struct {
	Sequence   uint32
	Generation uint32 // above 0: compaction made it, so that LSNs ascend with gaps
	Salt       uint32
	Base       uint64 // LSN of the first record, or a lower one
}

// Place is where a record is, in bytes, and its number.
type Place struct {
	Offset int64
	LSN    uint64
}

// Limit is where a segment ends at the latest: the LSN its successors start with.
type Limit struct {
	LSN  uint64
	Sure bool // everything before it was durable, as a base LSN proves
}

// NoLimit is the limit of the newest segment.
var NoLimit = Limit{LSN: math.MaxUint64}

// Gap is a place where records should be, and are not.
type Gap struct {
	Span           // in the file
	First   uint64 // LSNs of the lost records
	Last    uint64
	Torn    bool // none of them was acknowledged: the log ends here
	Unnamed bool // none of them has a name: all those that have one were met
}

// NewWalker reads from a place on, up to a limit; from the first record found if the
// LSN there is 0. Close frees the window.
func NewWalker(v Window, of Origin, from Place, bound Limit) Walker {
	w := Walker{window: v, origin: of, limit: bound, stop: v.size, next: from, listed: -1}
	if from.LSN == 0 {
		w.next.Offset -= format.UnitSize // it may stand there
	}
	return w
}

// Acknowledged says up to which LSN all records were, 0: not known. What is missing up
// to there is damage, never a torn tail.
func (w *Walker) Acknowledged(floor uint64) { w.floor, w.proven = floor, max(w.proven, floor) }

// Reach says from which offset on no header is looked for.
func (w *Walker) Reach(offset int64) { w.stop = min(offset, w.window.size) }

// Limit is where the segment ends at the latest, as its footer says too.
func (w *Walker) Limit() Limit { return w.limit }

// End is the offset at which the records end.
func (w *Walker) End() int64 { return w.window.size }

// At is the offset of the record that Read returned last.
func (w *Walker) At() int64 { return w.at }

// Next is the place of the next record; behind the last one its LSN is that of the
// first record of a successor.
func (w *Walker) Next() Place { return w.next }

// Proven is the highest LSN known to be durable.
func (w *Walker) Proven() uint64 { return w.proven }

// Bytes returns bytes of the file, valid until the next call of a method. The error is
// as of Window.At.
func (w *Walker) Bytes(offset int64, length int) ([]byte, error) {
	return w.window.At(offset, length)
}

// Unreadable returns the error of the disk if a part of a span was found unreadable.
func (w *Walker) Unreadable(s Span) error { return w.window.holes.meet(s.From, s.To) }

// Buffer is the buffer that Bytes points into. It passes to the caller, which frees it
// instead of calling Close.
func (w *Walker) Buffer() *buffers.Buffer { return w.window.buffer }

// Stop makes Read return io.EOF from now on.
func (w *Walker) Stop() { w.done = true }

// Close frees the window, but closes no file.
func (w *Walker) Close() { w.window.Close() }

// Read returns the header of the next record and goes behind it; io.EOF at the
// end of the segment. ErrDamaged: what lies there does not count, see Resync and
// Skip. ErrUnsupported: a later version wrote it.
func (w *Walker) Read() (format.Header, error) {
	if w.next.LSN == 0 && !w.done {
		if _, err := w.Skip(); err != nil {
			return format.Header{}, err
		}
	}
	if w.done || w.next.LSN >= w.limit.LSN || w.next.Offset >= w.stop && !w.isOwed() {
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
	w.at = w.next.Offset
	w.next = Place{w.at + int64(h.Units)*format.UnitSize, h.LSN + 1}
	return h, nil
}

// header reads the header of the next record; ErrDamaged if it does not count.
func (w *Walker) header() (format.Header, error) {
	p, err := w.window.At(w.next.Offset, format.HeaderSize)
	if err != nil {
		return format.Header{}, err
	}
	h, err := format.ParseHeader(p)
	if err != nil && format.SaltOf(p) == w.origin.Salt {
		return h, err
	}
	if err != nil || h.Salt != w.origin.Salt || !h.Fits(w.next.Offset, w.window.size) || h.Type == format.TypeSeal || !w.follows(h.LSN) {
		return h, fmt.Errorf("%w: not the expected record", format.ErrDamaged)
	}
	return h, nil
}

// follows tells whether the record with an LSN may come next. Compaction leaves gaps.
func (w *Walker) follows(lsn uint64) bool {
	return lsn == w.next.LSN || w.origin.Generation > 0 && w.next.LSN <= lsn && lsn < w.limit.LSN
}

// isOwed tells whether the next record is known to have been acknowledged.
func (w *Walker) isOwed() bool {
	return w.limit.Sure || w.limit == NoLimit && w.next.LSN <= w.floor
}

// Resync decides what the bad place is that Read has met. It is nil if the log ends
// there cleanly, or another process has appended there meanwhile. Read goes on behind a gap, or ends if no record was found there.
func (w *Walker) Resync() (*Gap, error) {
	if !w.isOwed() {
		padded, err := w.window.padded(w.next.Offset)
		if padded || err != nil {
			w.done = true
			return nil, err
		}
	}
	seek := search{window: &w.window, end: w.stop, limit: w.limit.LSN, salt: w.origin.Salt, salted: true}
	if err := seek.run(w.next.Offset, w.next.LSN); err != nil {
		return nil, err
	}
	w.proven = max(w.proven, seek.watermark)
	proven := w.proven
	if w.window.holes.behind(w.next.Offset) { // what cannot be read may have been acknowledged
		proven = max(proven, w.next.LSN+mayHold(w.window.size-w.next.Offset, w.origin.Generation)-1)
	}
	g := &Gap{
		Span: Span{w.next.Offset, w.window.size}, First: w.next.LSN, Last: w.limit.LSN - 1,
		Unnamed: w.named == w.listed,
	}
	switch {
	case !w.limit.Sure && proven < g.First && w.window.isStale && !seek.found: // nothing here can come back
		w.done = true
		return nil, nil
	case !w.limit.Sure && proven < g.First:
		w.done, g.Torn = true, true
		return g, nil
	case w.window.isStale && w.reread():
		return nil, nil
	case seek.found:
		g.To, g.Last = seek.place.Offset, seek.place.LSN-1
		w.next = seek.place
		return g, nil
	case !w.limit.Sure:
		g.Last = min(g.Last, proven)
	}
	w.done, w.next.LSN = true, g.Last+1
	return g, nil
}

// reread looks at the place once more, past what has been read. Where stale bytes
// follow, the length of the file does not tell what another process appends.
func (w *Walker) reread() bool {
	w.window.read = nil
	_, err := w.header()
	return err == nil
}

// Resume goes behind what the CHECKPOINTs of the segment cover.
func (w *Walker) Resume(c *Checkpoints) {
	w.next = c.Next()
	w.proven = max(w.proven, c.Covered)
	w.named = len(c.Entries)
}

// Skip goes to the first record behind the bad place that Read has met, and does not
// ask what is missing before it; false if there is none.
func (w *Walker) Skip() (bool, error) {
	seek := search{window: &w.window, end: w.stop, limit: w.limit.LSN, salt: w.origin.Salt, salted: true, first: true}
	if err := seek.run(w.next.Offset, w.next.LSN); err != nil {
		return false, err
	}
	if w.done = !seek.found; seek.found {
		w.next = seek.place
	}
	return seek.found, nil
}

// EndsWell tells whether the block that the next record goes into can be read: the
// rest of it is written again with the record.
func (w *Walker) EndsWell() bool {
	end := w.next.Offset
	start := max(end/BlockSize*BlockSize, w.window.offset)
	if start >= end {
		return true
	}
	_, err := w.window.At(start, int(end-start))
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

// List lists the named records of a segment from a place on, up to the offset at
// which its records end. ErrDamaged when a header there does not count.
func List(file io.ReaderAt, of Origin, from Place, end int64) ([]format.Entry, error) {
	entries, gaps, err := ListAround(file, of, from, end)
	if err == nil && len(gaps) > 0 {
		return nil, fmt.Errorf("%w: no record at offset %d", format.ErrDamaged, gaps[0].From)
	}
	return entries, err
}

// ListAround is List, but goes on behind what does not count, and tells where that lies.
func ListAround(file io.ReaderAt, of Origin, from Place, end int64) (entries []format.Entry, gaps []Span, err error) {
	w := NewWalker(NewWindow(file, end, WindowSize), of, from, NoLimit)
	defer w.Close()
	for {
		h, err := w.Read()
		if errors.Is(err, format.ErrDamaged) {
			start := w.next.Offset
			isMore, err := w.Skip()
			if err != nil {
				return nil, nil, err
			}
			gap := Span{start, end}
			if isMore {
				gap.To = w.next.Offset
			}
			gaps = append(gaps, gap)
			continue
		}
		if err == io.EOF {
			return entries, gaps, nil
		}
		if err != nil {
			return nil, nil, err
		}
		if h.Type.Named() {
			entries = append(entries, h.Entry(uint32(w.at/format.UnitSize)))
		}
	}
}
