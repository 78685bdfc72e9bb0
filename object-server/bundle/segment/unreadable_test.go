package segment

import (
	"slices"
	"syscall"
	"testing"

	"martlet/object-server/vfs"
)

// A bad sector is a hole, too, where the block ends with one that is known: the window
// had begun between them.
func TestHoleBeforeAKnownOne(t *testing.T) {
	mem := vfs.NewMem("/d")
	fs := vfs.NewBadSectors(mem, func(_ string, from, to int64) bool {
		return from < SectorSize || to > BlockSize-SectorSize
	})
	file, err := fs.Create("/d/f")
	check(t, err)
	check(t, file.Writev([][]byte{make([]byte, BlockSize)}, 0))
	h, p := holes{}, make([]byte, BlockSize)
	check(t, h.read(file, p[2*SectorSize:], 2*SectorSize))
	check(t, h.read(file, p, 0))
	for _, at := range []int64{0, BlockSize - SectorSize} {
		if h.meet(at, at+SectorSize) == nil {
			t.Errorf("the sector at %d passes for one that was read: %v", at, h.spans)
		}
	}
	before := slices.Clone(h.spans)
	check(t, h.read(file, p, 0))
	if !slices.Equal(h.spans, before) {
		t.Errorf("%v becomes %v", before, h.spans)
	}
}

// Neighbouring blocks that cannot be read are one hole: each place of a file is
// compared with all holes of it.
func TestNeighbouringHolesAreOne(t *testing.T) {
	h := holes{}
	for at := int64(0); at < 100; at++ {
		h.add(at*BlockSize, (at+1)*BlockSize, syscall.EIO)
	}
	h.add(200*BlockSize, 201*BlockSize, syscall.EIO)
	h.add(150*BlockSize, 151*BlockSize, syscall.EIO)
	want := []Span{{0, 100 * BlockSize}, {150 * BlockSize, 151 * BlockSize}, {200 * BlockSize, 201 * BlockSize}}
	if !slices.Equal(h.spans, want) {
		t.Errorf("%v", h.spans)
	}
}
