package device

import (
	"bytes"
	"errors"
	"fmt"
	"math"
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

// erase deletes what is stored, in the order given, but for the last ones. On a
// busy machine compaction may take longer than a DELETE waits for it: it is then
// tried again, as clients do.
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
				giveUp := time.Now().Add(patience)
				_, err := f.device.Delete(loc, at(2), name)
				for errors.Is(err, ErrNoSpace) && time.Now().Before(giveUp) {
					_, err = f.device.Delete(loc, at(2), name)
				}
				if err != nil {
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
	for deadline := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
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
	t.Parallel()
	const size = 32 << 20
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
			f := &filling{t: t, size: c.size, bits: c.bits}
			f.run(proof.Tmpfs(t, size), c.o, orders[c.order], c.free)
		})
	}
	t.Run("XFS", func(t *testing.T) { // where files that grow have room ahead
		if raceDetector {
			t.Skip("takes long")
		}
		f := &filling{t: t, size: 100_000, bits: 6}
		f.run(proof.XFS(t), Options{SyncMethod: SyncDirect}, orders["random"], 0.5)
	})
}

// run fills a device, opens it anew, deletes most of it, and wants that share of
// the room back.
func (f *filling) run(root string, o Options, order func(f *filling) []int, free float64) {
	const keepOneOf = 8
	t := f.t
	o.ReservePercent = 1
	f.device = open(t, vfs.OS{}, root, o)
	defer func() { f.device.Close() }()
	f.fill()
	full := f.device.Stats()
	if err := f.device.Close(); err != nil {
		t.Fatal(err)
	}
	f.device = open(t, vfs.OS{}, root, o)
	before := len(f.stored)
	start := time.Now()
	f.erase(order(f), before/keepOneOf)
	took := time.Since(start)
	f.wantFree(0.14)
	if err := f.device.Compact(); err != nil { // the compactor would come to it by itself
		t.Fatal(err)
	}
	f.wantFree(free)
	f.wantStored()
	t.Logf("%d stored, %d bytes free when full, reserve %d; erased in %v, free again in %v; %d bytes copied", before,
		full.FreeBytes, full.ReserveBytes, took, time.Since(start), f.device.Stats().BytesCompacted)
	if err := f.device.Err(); err != nil {
		t.Fatal(err)
	}
}

// Where less than the floor is free, because others write to the file system or
// the process was killed in the middle of a compaction, a DELETE waits for
// compaction, which also finds the garbage of partitions not used since the start.
// Where there is none, the DELETE is refused at once.
func TestDeleteWaitsForRoom(t *testing.T) {
	mem := vfs.NewMem("/d")
	mem.SetLimit(16 << 20)
	o := Options{SegmentBytes: 64 << 10, compactByHand: true}
	f := &filling{t: t, size: 4096, bits: 3, device: open(t, mem, "/d", o)}
	f.fill()
	first := f.stored[:len(f.stored)/4]
	rest := f.stored[len(first):]
	f.erase(first, 0)
	limit := used(t, f.device) + f.device.room.floor/2
	if err := f.device.Close(); err != nil {
		t.Fatal(err)
	}
	mem.SetLimit(limit)
	o.compactByHand = false
	f.device = open(t, mem, "/d", o)
	if free := f.device.Stats().FreeBytes; free >= uint64(f.device.room.floor) {
		t.Fatalf("%d bytes are free, the floor is %d", free, f.device.room.floor)
	}
	f.erase(rest, len(rest)/2)
	f.wantStored()
	if err := f.device.Close(); err != nil {
		t.Fatal(err)
	}

	mem = vfs.NewMem("/d")
	d := open(t, mem, "/d", Options{})
	defer d.Close()
	must[State](t)(put(d, locate("/a/c/o", 1), "/a/c/o", 1, body(1, 4096)))
	mem.SetLimit(used(t, d) + 1000)
	d.room.returned()
	took := time.Duration(math.MaxInt64)
	for n := 0; n < 5 && took > eraseWait/2; n++ { // a busy machine is late now and then, a wait each time
		start := time.Now()
		if _, err := d.Delete(locate("/a/c/o", 1), at(2), "/a/c/o"); !errors.Is(err, ErrNoSpace) {
			t.Error(err)
		}
		took = time.Since(start)
	}
	if took > eraseWait/2 {
		t.Errorf("refused after %v", took)
	}
}

// What the caretaker leaves to the compactor while room is low is done also when the compactor comes to it later.
func TestCareThatWasPutOff(t *testing.T) {
	mem := vfs.NewMem("/d")
	d := open(t, mem, "/d", Options{SegmentBytes: 64 << 10, compactByHand: true})
	defer d.Close()
	d.caretaker.stop() // nothing of it: as while room is low
	const n = 100
	name := func(i int) (string, Location) { return fmt.Sprint(i), inPartition(fmt.Sprint(i), 1) }
	for i := range n {
		name, loc := name(i)
		must[State](t)(put(d, loc, name, 1, body(1, 400)))
	}
	for i := range n * 3 / 4 { // from the half on they are in a new segment
		name, loc := name(i)
		must[State](t)(d.Delete(loc, at(2), name))
	}
	mem.SetLimit(used(t, d) + 2*d.room.floor)
	must[int64](t)(d.room.look())
	if d.room.low.Load() || !d.room.short.Load() {
		t.Fatal("room is low, or not short")
	}
	d.compactor.work(d.compactor.worst())
	if s := d.Stats(); s.SegmentsRemoved == 0 {
		t.Errorf("nothing was compacted: %+v", s)
	}
}
