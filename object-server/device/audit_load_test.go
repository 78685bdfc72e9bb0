package device

import (
	"errors"
	"sync/atomic"
	"testing"

	"martlet/object-server/vfs"
)

// Partitions that are written, compacted and split while they are examined are not damaged.
func TestNothingIsDamagedWhileItIsSplit(t *testing.T) {
	t.Parallel()
	fs, root := vfs.FS(vfs.OS{}), t.TempDir()
	o := Options{SyncMethod: SyncAuto, SpillBytes: 16 << 10, SegmentBytes: 64 << 10, CompactionRate: -1, noFloor: true}
	c := &crowd{device: open(t, fs, root, o), bits: 2, acked: make([]atomic.Uint64, 160)}
	defer func() { must[int](t)(0, c.device.Close()) }()
	for n := range c.acked {
		name, loc := c.name(n)
		loc.Partition = locate(name, c.bits).Partition
		must[State](t)(put(c.device, loc, name, 1, body(1, c.size(n))))
	}
	examined := 0
	c.all.Add(1)
	go func() {
		defer c.all.Done()
		for n := uint32(0); !c.stop.Load(); n = (n + 1) % 16 {
			found, err := c.device.Examine(0, n, plain)
			if len(found) > 0 || err != nil && !errors.Is(err, ErrBusy) {
				t.Errorf("partition %d: %+v, %v", n, found, err)
				return
			}
			if _, err := c.device.AuditState(0, n); err != nil && !errors.Is(err, ErrBusy) {
				t.Errorf("partition %d: %v", n, err)
			}
			examined++
		}
	}()
	raiseUnderLoad(t, c)
	t.Logf("%d partitions examined", examined)
	if all, _ := c.device.Damages(); len(all) > 0 || examined < 16 {
		t.Errorf("%d examined: %+v", examined, all)
	}
	wantCrowd(t, c, fs, root, 4)
}
