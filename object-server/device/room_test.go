package device

import (
	"testing"

	"martlet/object-server/vfs"
)

// What uploads leave free is what the operator says and, beside it, twice what
// compaction needs, which depends on the largest segment there may be.
func TestReserveOfDevices(t *testing.T) {
	const mib, gib = 1 << 20, 1 << 30
	for _, c := range []struct {
		room           *room
		size           uint64
		segment, floor int64
		want           int64
	}{
		{&room{bytes: 5 * gib}, 1 << 40, gib, gib + gib/4 + mib/4, 5*gib + 2*gib + gib/2 + mib/2},
		{&room{percent: 1}, 100 * gib, 800 * mib, 1000*mib + mib/4, gib + 2000*mib + mib/2},
		{&room{}, 64 * mib, mib, mib + mib/2, 3 * mib},
		{&room{}, 10 * mib, mib, mib / 2, mib},
	} {
		usage := vfs.Usage{Bytes: c.size}
		segment := segmentBytesOf(&usage, gib)
		c.room.floor = floorOf(&usage, segment)
		const rounding = 100
		if got := c.room.reserve(&usage); segment != c.segment || c.floor-c.room.floor > rounding || c.want-got > rounding || got > c.want {
			t.Errorf("%d bytes: segments of %d, want %d; floor %d, want %d; reserve %d, want %d",
				c.size, segment, c.segment, c.room.floor, c.floor, got, c.want)
		}
	}
}
