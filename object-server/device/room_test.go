package device

import (
	"testing"

	"martlet/object-server/vfs"
)

// What uploads leave free is the largest of what the operator says and what
// compaction needs; that is never more than a small share of the device.
func TestReserveOfDevices(t *testing.T) {
	const gib = 1 << 30
	for _, c := range []struct {
		room *room
		size uint64
		want float64
	}{
		{&room{}, 100 * gib, 0},
		{&room{bytes: 5 * gib}, 100 * gib, 5 * gib},
		{&room{percent: 1}, 1000 * gib, 10 * gib},
		{&room{percent: 1, compaction: 2 * gib}, 1000 * gib, 10 * gib},
		{&room{percent: 1, compaction: 2 * gib}, 150 * gib, 2 * gib},
		{&room{compaction: 2 * gib}, 10 * gib, 0.2 * gib},
		{&room{bytes: gib, compaction: 2 * gib}, 10 * gib, gib},
	} {
		if got := c.room.reserve(&vfs.Usage{Bytes: c.size}); got != c.want {
			t.Errorf("bytes %d, percent %v, compaction %d on %d bytes: %.0f, want %.0f", c.room.bytes, c.room.percent, c.room.compaction, c.size, got, c.want)
		}
	}
}
