package segment

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"syscall"
	"testing"

	"martlet/object-server/bundle/format"
)

const recordSize = format.HeaderSize

// pads is a segment of records without a name, each of which proves the one before.
func pads(lsns ...uint64) []byte {
	b := make([]byte, format.SegmentHeaderSize+len(lsns)*recordSize)
	for i, lsn := range lsns {
		h := format.Header{Type: format.TypePad, Units: recordSize / format.UnitSize, LSN: lsn, Salt: 7, Distance: 1}
		h.Encode(b[offsetOf(i):])
	}
	return b
}

// offsetOf is where a record of pads is.
func offsetOf(i int) int64 { return format.SegmentHeaderSize + int64(i)*recordSize }

// badDisk cannot read one span.
type badDisk struct {
	io.ReaderAt
	bad Span
}

func (d badDisk) ReadAt(p []byte, offset int64) (int, error) {
	if offset < d.bad.To && d.bad.From < offset+int64(len(p)) {
		return 0, syscall.EIO
	}
	return d.ReaderAt.ReadAt(p, offset)
}

// walked is what a walker meets: LSNs, lost ones in brackets, and the kind of end.
func walked(t *testing.T, w *Walker) string {
	t.Helper()
	var met []string
	for {
		h, err := w.Read()
		switch {
		case err == io.EOF:
			return strings.Join(met, " ")
		case err == nil:
			met = append(met, fmt.Sprint(h.LSN))
			continue
		case !errors.Is(err, format.ErrDamaged):
			t.Fatal(err)
		}
		g, err := w.Resync()
		switch {
		case err != nil:
			t.Fatal(err)
		case g == nil:
			met = append(met, "padded")
		case g.Torn:
			met = append(met, "torn")
		default:
			met = append(met, fmt.Sprintf("[%d-%d]", g.First, g.Last))
		}
	}
}

// The rules for what follows a good record, in a segment that grew and in one that
// compaction made.
func TestWalker(t *testing.T) {
	rot := func(i int) func([]byte) []byte {
		return func(b []byte) []byte { b[offsetOf(i)+30]++; return b }
	}
	cut := func(size int64) func([]byte) []byte { return func(b []byte) []byte { return b[:size] } }
	whole := func(b []byte) []byte { return b }
	sure := func(lsn uint64) Limit { return Limit{LSN: lsn, Sure: true} }
	for _, c := range []struct {
		what       string
		lsns       []uint64
		generation uint32
		change     func([]byte) []byte
		bound      Limit
		floor      uint64
		bad        Span
		want       string
	}{
		{"all good", []uint64{1, 2, 3}, 0, whole, NoLimit, 0, Span{}, "1 2 3"},
		{"up to the limit", []uint64{1, 2, 3}, 0, whole, sure(3), 0, Span{}, "1 2"},
		{"one lost", []uint64{1, 2, 3}, 0, rot(1), NoLimit, 0, Span{}, "1 [2-2] 3"},
		{"the last one, not proven", []uint64{1, 2, 3}, 0, rot(2), NoLimit, 0, Span{}, "1 2 torn"},
		{"the last one, acknowledged", []uint64{1, 2, 3}, 0, rot(2), NoLimit, 3, Span{}, "1 2 [3-3]"},
		{"the last one, before a successor", []uint64{1, 2, 3}, 0, rot(2), sure(4), 0, Span{}, "1 2 [3-3]"},
		{"cut off in a record", []uint64{1, 2, 3}, 0, cut(offsetOf(2) + 64), NoLimit, 0, Span{}, "1 2 torn"},
		{"cut off between records", []uint64{1, 2, 3}, 0, cut(offsetOf(2)), NoLimit, 0, Span{}, "1 2"},
		{"cut off, acknowledged", []uint64{1, 2, 3}, 0, cut(offsetOf(2)), NoLimit, 5, Span{}, "1 2 [3-5]"},
		{"cut off, before a successor", []uint64{1, 2, 3}, 0, cut(offsetOf(2)), sure(6), 0, Span{}, "1 2 [3-5]"},
		{"cut off, before a guess", []uint64{1, 2, 3}, 0, cut(offsetOf(2)), Limit{LSN: 6}, 0, Span{}, "1 2"},
		{"the rest of a sector in zeros", []uint64{1, 2}, 0, func(b []byte) []byte { return append(b, make([]byte, 128)...) }, NoLimit, 0, Span{}, "1 2 padded"},
		{"zeros that end elsewhere", []uint64{1, 2}, 0, func(b []byte) []byte { return append(b, make([]byte, 192)...) }, NoLimit, 0, Span{}, "1 2 torn"},
		{"a number left out", []uint64{1, 3, 4}, 0, whole, NoLimit, 0, Span{}, "1 [2-3] 4"},
		{"a number left out by compaction", []uint64{1, 3, 4}, 1, whole, NoLimit, 0, Span{}, "1 3 4"},
		{"a number twice", []uint64{1, 1, 2}, 0, whole, sure(3), 0, Span{}, "1 [2-2]"},
		{"compacted, cut off", []uint64{1, 3, 4}, 1, cut(offsetOf(2)), sure(6), 0, Span{}, "1 3 [4-5]"},
		{"a bad sector", []uint64{1, 2, 3, 4, 5, 6, 7, 8}, 0, whole, NoLimit, 0, Span{600, 601}, "1 2 3 [4-7] 8"},
		{"a bad sector at the end", []uint64{1, 2, 3, 4}, 0, whole, NoLimit, 0, Span{600, 601}, "1 2 3 [4-5]"},
	} {
		t.Run(c.what, func(t *testing.T) {
			b := c.change(pads(c.lsns...))
			file := badDisk{bytes.NewReader(b), c.bad}
			w := NewWalker(NewWindow(file, int64(len(b)), WindowSize), Origin{1, c.generation, 7, 1}, Place{format.SegmentHeaderSize, 1}, c.bound)
			defer w.Close()
			w.Acknowledged(c.floor)
			if got := walked(t, &w); got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
		})
	}
}

// Without an LSN to begin with, the first record found counts, wherever it stands.
func TestWalkFromAnywhere(t *testing.T) {
	b := pads(1, 2, 3, 4)
	for at := int64(0); at < int64(len(b)); at += format.UnitSize {
		w := NewWalker(NewWindow(bytes.NewReader(b), int64(len(b)), WindowSize), Origin{1, 0, 7, 1}, Place{Offset: at}, NoLimit)
		want := "1 2 3 4"[min(7, 2*max(0, (at-offsetOf(0)+recordSize-1)/recordSize)):]
		if got := walked(t, &w); got != want {
			t.Errorf("from %d: %q, want %q", at, got, want)
		}
		w.Close()
	}
}
