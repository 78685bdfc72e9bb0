package segment

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"

	"martlet/object-server/bundle/format"
)

// changing is a file that another process changes while it is read.
type changing struct {
	reads  int
	change int    // with this read
	before []byte // what it holds
	after  []byte
}

func (c *changing) ReadAt(p []byte, offset int64) (int, error) {
	c.reads++
	b := c.before
	if c.reads >= c.change {
		b = c.after
	}
	if offset >= int64(len(b)) {
		return 0, io.EOF
	}
	n := copy(p, b[offset:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// Stale bytes end the log cleanly, unless records of the segment follow. What another
// process appends, or cuts off, while the file is read is no damage.
func TestWalkerAmongStaleBytes(t *testing.T) {
	stale := func(b []byte, from int) []byte { // records of another segment
		b = append([]byte{}, b...)
		for i := from; offsetOf(i) < int64(len(b)); i++ {
			h := format.Header{Type: format.TypePad, Units: recordSize / format.UnitSize, LSN: uint64(i + 1), Salt: 8, Distance: 1}
			h.Encode(b[offsetOf(i):])
		}
		return b
	}
	all := pads(1, 2, 3, 4, 5, 6)
	torn := stale(all, 2)
	// Record 4 is there without 3, and does not prove it.
	h := format.Header{Type: format.TypePad, Units: recordSize / format.UnitSize, LSN: 4, Salt: 7, Distance: 2}
	h.Encode(torn[offsetOf(3):])
	lost := stale(all, 5)
	lost[offsetOf(2)+30]++
	for change := 1; change < 12; change++ {
		for _, c := range []struct {
			what          string
			before, after []byte
			want          []string
		}{
			{"the end", stale(all, 3), stale(all, 3), []string{"1 2 3 padded"}},
			{"a lost record", lost, lost, []string{"1 2 [3-3] 4 5 padded"}},
			{"a torn one", torn, torn, []string{"1 2 torn"}},
			{"appended meanwhile", stale(all, 2), all, []string{"1 2 padded", "1 2 padded 3 4 5 6", "1 2 3 4 5 6"}},
			{"cut meanwhile", stale(all, 3), all[:offsetOf(3)], []string{"1 2 3", "1 2 3 padded"}},
		} {
			file := &changing{change: change, before: c.before, after: c.after}
			f := File{Origin: Origin{1, 0, 7, 1}, Size: int64(len(all)), Start: format.SegmentHeaderSize, Capacity: 4096}
			w := f.Walk(NewWindow(file, f.Size, recordSize), NoLimit)
			got := walked(t, &w)
			w.Close()
			if !slices.Contains(c.want, got) {
				t.Errorf("%s, with read %d: %s, want %q", c.what, change, got, c.want)
			}
		}
	}
}

// The page says where the second header of a recycled segment lies.
func TestPageOfRecycledSegments(t *testing.T) {
	page, err := os.ReadFile("../../../doc/formats/bundle.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range []string{
		fmt.Sprintf("| %d | length − %d | records", format.SegmentHeaderSize, format.SegmentHeaderSize+RecycledTail),
		fmt.Sprintf("| length − %d | %d | the header once more", RecycledTail, format.SegmentHeaderSize),
		fmt.Sprintf("| length − %d | %[1]d | zeros", RecycledTail-format.SegmentHeaderSize),
		fmt.Sprintf("a length that is %d more than a multiple of %d", RecycledTail, BlockSize),
	} {
		if !strings.Contains(string(page), row) {
			t.Errorf("the page does not have %q", row)
		}
	}
}
