package device

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"martlet/object-server/bundle"
	"martlet/object-server/bundle/inspect"
	"martlet/object-server/vfs"
)

// crowd is many names that are read and written while partitions are split.
type crowd struct {
	device *Device
	bits   int
	acked  []atomic.Uint64
	stop   atomic.Bool
	fail   atomic.Pointer[error]
	all    sync.WaitGroup
}

func (c *crowd) failed(err error) { c.fail.CompareAndSwap(nil, &err) }

func (c *crowd) name(n int) (string, Location) {
	name := fmt.Sprint("/a/c/", n)
	return name, locate(name, c.bits+n%2) // some requests are of a proxy with the next ring
}

// size is that of a name's object; some are large.
func (c *crowd) size(n int) int { return []int{100, 3000, 0, 40_000}[n%4] }

func (c *crowd) write(w, writers int) {
	defer c.all.Done()
	for round := uint64(2); !c.stop.Load(); round++ {
		for n := w; n < len(c.acked) && !c.stop.Load(); n += writers {
			name, loc := c.name(n)
			if _, err := put(c.device, loc, name, round, body(round, c.size(n))); err != nil {
				c.failed(fmt.Errorf("PUT %s: %w", name, err))
				return
			}
			c.acked[n].Store(round)
		}
	}
}

// check reads a name: never an older version than was acknowledged before.
func (c *crowd) check(n int) error {
	name, loc := c.name(n)
	before := c.acked[n].Load()
	data, m, err := get(c.device, loc)
	if err != nil || m.Timestamp.Ticks < before || !bytes.Equal(data, body(m.Timestamp.Ticks, c.size(n))) {
		return fmt.Errorf("GET %s: %w, %+v after %d", name, err, m, before)
	}
	return nil
}

func (c *crowd) read(rng *rand.Rand) {
	defer c.all.Done()
	for !c.stop.Load() {
		if err := c.check(rng.IntN(len(c.acked))); err != nil {
			c.failed(err)
			return
		}
	}
}

// While partitions are split, clients read and write as always, whichever ring
// their proxy has; afterwards all is in its place.
func TestSplitUnderLoad(t *testing.T) {
	for i, method := range SyncMethods {
		t.Run(string(method), func(t *testing.T) {
			t.Parallel()
			onBoth(t, func(t *testing.T, fs vfs.FS, root string) {
				o := Options{
					SyncMethod: method, SpillBytes: 16 << 10, SegmentBytes: 64 << 10, JournalBytes: 256 << 10, CompactionRate: -1,
					IndexOnDisk: i%2 == 0, noFloor: true,
				}
				c := &crowd{device: open(t, fs, root, o), bits: 2, acked: make([]atomic.Uint64, 160)}
				for n := range c.acked {
					name, loc := c.name(n)
					loc.Partition = locate(name, c.bits).Partition
					must[State](t)(put(c.device, loc, name, 1, body(1, c.size(n))))
				}
				raiseUnderLoad(t, c)
				if err := c.device.Close(); err != nil {
					t.Fatal(err)
				}
				c.device = open(t, fs, root, o)
				defer c.device.Close()
				wantCrowd(t, c, fs, root, 4)
			})
		})
	}
}

// raiseUnderLoad raises the part power by two while clients are at work.
func raiseUnderLoad(t *testing.T, c *crowd) {
	t.Helper()
	const writers = 3
	if err := c.device.PrepareIncrease(0, 2); err != nil {
		t.Fatal(err)
	}
	for w := range writers {
		c.all.Add(2)
		go c.write(w, writers)
		go c.read(rand.New(rand.NewPCG(1, uint64(w))))
	}
	defer c.all.Wait()
	defer c.stop.Store(true)
	for power := uint8(3); power <= 4; power++ {
		if err := c.device.RaisePartPower(0, power); err != nil {
			t.Fatal(err)
		}
		deadline := time.Now()
		for last, p := (SplitProgress{}), c.device.Progress()[0]; p.Power != power; p = c.device.Progress()[0] {
			if err := c.fail.Load(); err != nil {
				t.Fatal(*err)
			}
			if p != last { // all of it takes as long as the machine lets it
				last, deadline = p, time.Now().Add(patience)
			}
			if time.Now().After(deadline) || p.Error != "" {
				t.Fatalf("%s, %d split, %d left, %s", p, p.Split, p.Left, p.Error)
			}
			time.Sleep(time.Millisecond)
		}
		if err := c.device.PrepareIncrease(0, power); err != nil {
			t.Fatal(err)
		}
	}
}

// wantCrowd demands all that was acknowledged, in partitions of a power.
func wantCrowd(t *testing.T, c *crowd, fs vfs.FS, root string, power int) {
	t.Helper()
	if err := c.fail.Load(); err != nil {
		t.Fatal(*err)
	}
	want := map[uint32]bool{}
	for n := range c.acked {
		name, _ := c.name(n)
		want[locate(name, power).Partition] = true
		if err := c.check(n); err != nil {
			t.Error(err)
		}
	}
	for _, n := range must[[]uint32](t)(c.device.Partitions(0)) {
		if !want[n] {
			t.Errorf("partition %d of %d names", n, len(c.acked))
		}
		delete(want, n)
		verdict, err := inspect.Verify(bundle.NewFiles(fs, root, 64), bundle.ID{Partition: n, Power: uint8(power)}, "")
		if err != nil || len(verdict.Damages) > 0 {
			t.Errorf("partition %d: %+v, %v", n, verdict, err)
		}
	}
	if len(want) > 0 {
		t.Errorf("partitions %v are missing", want)
	}
}
