package device

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"martlet/object-server/proof"
	"martlet/object-server/vfs"
)

// filling is a device that is filled, deleted from, and looked at.
type filling struct {
	t      *testing.T
	size   int
	bits   int
	next   atomic.Int64
	device *Device
	stored []int
}

func (f *filling) name(i int) (string, Location) {
	name := fmt.Sprint("/a/c/", i)
	return name, locate(name, f.bits)
}

// fill writes until PUTs are refused all the time.
func (f *filling) fill() {
	var mu sync.Mutex
	var all sync.WaitGroup
	for range 8 {
		all.Add(1)
		go func() {
			defer all.Done()
			for refused := 0; refused < 10; {
				i := int(f.next.Add(1))
				name, loc := f.name(i)
				_, err := put(f.device, loc, name, 1, body(uint64(i), f.size))
				switch {
				case err == nil:
					mu.Lock()
					f.stored = append(f.stored, i)
					mu.Unlock()
				case errors.Is(err, ErrNoSpace):
					refused++
				default:
					f.t.Error(err)
					return
				}
			}
		}()
	}
	all.Wait()
	slices.Sort(f.stored)
}

// erase deletes what is stored, in the order given, but for the last ones.
func (f *filling) erase(order []int, keep int) {
	gone := order[:len(order)-keep]
	var next atomic.Int64
	var all sync.WaitGroup
	for range 8 {
		all.Add(1)
		go func() {
			defer all.Done()
			for n := int(next.Add(1)) - 1; n < len(gone); n = int(next.Add(1)) - 1 {
				name, loc := f.name(gone[n])
				if _, err := f.device.Delete(loc, at(2), name); err != nil {
					f.t.Errorf("DELETE %d of %d: %v", n, len(gone), err)
					return
				}
			}
		}()
	}
	all.Wait()
	f.stored = order[len(gone):]
}

// wantFree waits until so much of the file system is free.
func (f *filling) wantFree(share float64) {
	f.t.Helper()
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		usage, err := f.device.directory.Usage()
		if err != nil {
			f.t.Fatal(err)
		}
		if float64(usage.BytesFree) >= share*float64(usage.Bytes) {
			return
		}
		if time.Now().After(deadline) {
			f.t.Fatalf("%d of %d bytes are free: %+v", usage.BytesFree, usage.Bytes, f.device.Stats())
		}
	}
}

func (f *filling) wantStored() {
	f.t.Helper()
	for _, i := range f.stored {
		_, loc := f.name(i)
		if got, _, err := get(f.device, loc); err != nil || !bytes.Equal(got, body(uint64(i), f.size)) {
			f.t.Fatal(i, len(got), err)
		}
	}
}

// A device that has run full comes back to free space when objects are deleted,
// whichever and by whatever method, and also if it is opened anew while it is full.
func TestFullDeviceRecovers(t *testing.T) {
	const size, keepOneOf = 32 << 20, 8
	orders := map[string]func(f *filling) []int{
		"in sequence": func(f *filling) []int { return f.stored },
		"random": func(f *filling) []int {
			rand.New(rand.NewPCG(1, 1)).Shuffle(len(f.stored), func(i, j int) { f.stored[i], f.stored[j] = f.stored[j], f.stored[i] })
			return f.stored
		},
		"by partition": func(f *filling) []int {
			slices.SortFunc(f.stored, func(i, j int) int {
				_, a := f.name(i)
				_, b := f.name(j)
				return int(a.Partition) - int(b.Partition)
			})
			return f.stored
		},
	}
	for n, c := range []struct {
		what, order string
		size, bits  int
		o           Options
		free        float64
	}{
		{"small", "random", 4096, 2, Options{}, 0.5},
		{"small, many partitions", "in sequence", 8000, 6, Options{}, 0.5},
		{"a few each in many partitions", "random", 8000, 9, Options{}, 0.2},
		{"small, by partition", "by partition", 8000, 6, Options{}, 0.5},
		{"tiny", "random", 1500, 6, Options{SegmentBytes: 1 << 20}, 0.5},
		{"middle", "in sequence", 200_000, 2, Options{}, 0.5},
		{"large", "random", 2 << 20, 2, Options{}, 0.5},
		{"direct", "random", 8000, 6, Options{SyncMethod: SyncDirect}, 0.5},
		{"journal", "random", 8000, 6, Options{SyncMethod: SyncJournal, JournalBytes: 4 << 20}, 0.5},
		{"middle, journal", "random", 200_000, 2, Options{SyncMethod: SyncJournal, JournalBytes: 4 << 20}, 0.5},
		{"index on disk", "random", 4096, 2, Options{IndexOnDisk: true}, 0.5},
	} {
		t.Run(c.what, func(t *testing.T) {
			if raceDetector && n%4 != 0 {
				t.Skip("takes long")
			}
			root := proof.Tmpfs(t, size)
			c.o.ReservePercent = 1
			f := &filling{t: t, size: c.size, bits: c.bits}
			f.device = open(t, vfs.OS{}, root, c.o)
			defer func() { f.device.Close() }()
			f.fill()
			full := f.device.Stats()
			if err := f.device.Close(); err != nil {
				t.Fatal(err)
			}
			f.device = open(t, vfs.OS{}, root, c.o)
			before := len(f.stored)
			start := time.Now()
			f.erase(orders[c.order](f), before/keepOneOf)
			took := time.Since(start)
			f.wantFree(0.14)
			if err := f.device.Compact(); err != nil { // the compactor would come to it by itself
				t.Fatal(err)
			}
			f.wantFree(c.free)
			f.wantStored()
			t.Logf("%d stored, %.1f %% free when full, reserve %.1f %%; erased in %v, free again in %v; %d bytes copied", before,
				float64(full.FreeBytes)/size*100, float64(full.ReserveBytes)/size*100, took, time.Since(start), f.device.Stats().BytesCompacted)
			if err := f.device.Err(); err != nil {
				t.Fatal(err)
			}
		})
	}
}
