package device

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"martlet/object-server/bundle"
	"martlet/object-server/bundle/format"
	"martlet/object-server/vfs"
)

var compactOptions = Options{SegmentBytes: 64 << 10, CheckpointBytes: 8 << 10, CompactionRate: -1, noFloor: true}

func used(t testing.TB, d *Device) int64 {
	t.Helper()
	usage := must[vfs.Usage](t)(d.directory.Usage())
	return int64(usage.Bytes - usage.BytesFree)
}

// Overwriting objects chosen at random takes no more than 2.2 times the room of
// the data, however often it is done.
func TestChurn(t *testing.T) {
	const objects, size = 240, 4096
	mem := vfs.NewMem("/d")
	d := open(t, mem, "/d", compactOptions)
	rng := rand.New(rand.NewPCG(1, 2))
	last := map[int]uint64{}
	peak := int64(0)
	for i := uint64(1); i <= 11*objects; i++ {
		n := int(i) - 1
		if n >= objects {
			n = rng.IntN(objects)
		}
		name := fmt.Sprint("/a/c/", n)
		must[State](t)(put(d, locate(name, 1), name, i, body(i, size)))
		last[n] = i
		if i%16 == 0 { // the compactor would come to it by itself, but when?
			if err := d.Compact(); err != nil {
				t.Fatal(err)
			}
		}
		peak = max(peak, used(t, d))
	}
	t.Logf("at most %.2f times the data, %+v", float64(peak)/(objects*size), d.Stats())
	if s := d.Stats(); s.LiveBytes < objects*size || s.LiveBytes > s.RecordBytes || s.RecordBytes > objects*size*22/10 {
		t.Errorf("%+v", s)
	}
	if peak > objects*size*22/10 {
		t.Errorf("%d bytes used for %d", peak, objects*size)
	}
	for range 2 {
		for n, ticks := range last {
			wantBody(t, d, locate(fmt.Sprint("/a/c/", n), 1), body(ticks, size))
		}
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
		d = open(t, mem.KillClone(), "/d", compactOptions)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
}

// The compactor finds its work by itself.
func TestCompactorWakesUp(t *testing.T) {
	d := open(t, vfs.NewMem("/d"), "/d", compactOptions)
	defer d.Close()
	deadline := time.Now().Add(patience)
	for i := uint64(1); d.Stats().SegmentsRemoved == 0; i++ {
		if time.Now().After(deadline) {
			t.Fatal("nothing was compacted")
		}
		must[State](t)(put(d, locate("/a/c/o", 1), "/a/c/o", i, body(i, 4096)))
	}
}

// A segment goes only when no replay of the journal can bring a piece of it back.
func TestJournalIsSettledBeforeSegmentsGo(t *testing.T) {
	mem := vfs.NewMem("/d")
	removed, brought := 0, ""
	fs := vfs.NewFaults(mem, func(op, name string) error {
		if op != "remove" || !strings.HasSuffix(name, ".bundle") {
			return nil
		}
		removed++
		after := mem.KillClone()
		if err := after.Remove(name); err != nil {
			return err
		}
		d, err := Open(vfs.NewFaults(after, func(op, path string) error {
			if op == "create" && path == name {
				brought = name
			}
			return nil
		}), "/d", Options{Logger: quiet})
		if err != nil {
			return err
		}
		return d.Close()
	})
	o := compactOptions
	o.SyncMethod, o.JournalBytes, o.compactByHand = SyncJournal, 1<<20, true
	d := open(t, fs, "/d", o)
	for i := uint64(1); i < 120; i++ {
		must[State](t)(put(d, locate("/a/c/o", 1), "/a/c/o", i, body(i, 4096)))
		if i%20 == 0 {
			if err := d.Compact(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := d.Close(); err != nil || removed == 0 || brought != "" {
		t.Fatalf("%v, %d segments removed, %s came back", err, removed, brought)
	}
}

// Bad sectors that upkeep and compaction meet do not take the device out: they
// leave that segment as it is.
func TestCompactionMeetsBadSectors(t *testing.T) {
	fs := vfs.NewFaults(vfs.NewMem("/d"), func(op, name string) error {
		if op == "read" && strings.Contains(name, "/bundles/0/00000004-") {
			return &os.PathError{Op: "pread", Path: name, Err: syscall.EIO}
		}
		return nil
	})
	o := compactOptions
	o.compactByHand, o.Logger = true, quiet
	d := open(t, fs, "/d", o)
	for i := uint64(1); i < 400; i++ {
		name := fmt.Sprint("/a/c/", i%8)
		if _, err := put(d, locate(name, 1), name, i, body(i, 4096)); err != nil && !errors.Is(err, ErrUnknown) {
			t.Fatal(err)
		}
		if i%20 == 0 {
			if err := d.Compact(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if d.Stats().SegmentsRemoved < 10 {
		t.Fatalf("%+v", d.Stats())
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
}

// Readers and writers meet nothing of it while segments are rewritten.
func TestReadersRaceWithCompaction(t *testing.T) {
	const objects, rounds = 40, 60
	d := open(t, vfs.NewMem("/d"), "/d", compactOptions)
	defer d.Close()
	name := func(n int) string { return fmt.Sprint("/a/c/", n) }
	for n := range objects {
		must[State](t)(put(d, locate(name(n), 1), name(n), 1, body(1, 3000)))
	}
	stop := make(chan struct{})
	var others, writers sync.WaitGroup
	for r := range 4 {
		others.Add(1)
		go func() {
			defer others.Done()
			seen := make([]uint64, objects)
			for i := r; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				n := i % objects
				data, m, err := get(d, locate(name(n), 1))
				if err != nil || m.Timestamp.Ticks < seen[n] || string(data) != string(body(m.Timestamp.Ticks, 3000)) {
					t.Errorf("%s: %v, %v after %d", name(n), err, m, seen[n])
					return
				}
				seen[n] = m.Timestamp.Ticks
			}
		}()
	}
	others.Add(1)
	go func() {
		defer others.Done()
		for {
			select {
			case <-stop:
				return
			default:
				if err := d.Compact(); err != nil {
					t.Error(err)
					return
				}
			}
		}
	}()
	for w := range 4 {
		writers.Add(1)
		go func() {
			defer writers.Done()
			for round := range rounds {
				for n := w; n < objects; n += 4 {
					if _, err := put(d, locate(name(n), 1), name(n), uint64(round+2), body(uint64(round+2), 3000)); err != nil {
						t.Error(err)
						return
					}
				}
			}
		}()
	}
	writers.Wait()
	close(stop)
	others.Wait()
	if d.Stats().SegmentsRemoved < 10 {
		t.Errorf("%+v", d.Stats())
	}
}

// A disk that fills up refuses PUTs while compaction still can run; what was
// deleted can be used again.
func TestFullDeviceIsCompacted(t *testing.T) {
	mem := vfs.NewMem("/d")
	mem.SetLimit(4 << 20)
	o := compactOptions
	o.noFloor = false
	d := open(t, mem, "/d", o)
	defer d.Close()
	stored, ticks := 0, uint64(0)
	fill := func() {
		for ; ; stored++ {
			ticks++
			d.room.returned() // look again
			name := fmt.Sprint("/a/c/", stored)
			_, err := put(d, locate(name, 1), name, ticks, body(uint64(stored), 4096))
			if errors.Is(err, ErrNoSpace) {
				return
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	fill()
	if stored < 600 {
		t.Fatalf("full after %d", stored)
	}
	left := 4<<20 - used(t, d)
	if left < 4<<20*2/100-(8<<10) {
		t.Fatalf("%d bytes left", left)
	}
	first := stored
	for n := 0; n < stored; n += 2 {
		ticks++
		name := fmt.Sprint("/a/c/", n)
		if _, err := d.Delete(locate(name, 1), at(ticks), name); err != nil {
			t.Fatalf("%d: %v", n, err)
		}
		if n%32 == 0 {
			if err := d.Compact(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := d.Compact(); err != nil {
		t.Fatal(err)
	}
	fill()
	if stored < first*5/4 {
		t.Errorf("%d objects, %d after half were deleted", first, stored)
	}
	for n := range stored {
		loc := locate(fmt.Sprint("/a/c/", n), 1)
		if n < first && n%2 == 0 {
			if _, err := d.Head(loc); !errors.As(err, new(*NotFoundError)) {
				t.Fatal(n, err)
			}
			continue
		}
		wantBody(t, d, loc, body(uint64(n), 4096))
	}
}

// A tombstone goes when it is old and all replicas are known to have it, not
// before.
func TestReclaim(t *testing.T) {
	now := uint64(time.Now().UnixMicro() / 10)
	day := uint64(86400 * ticksPerSecond)
	options := compactOptions
	options.compactByHand = true // or one may run before the peers are known, and nothing is left to do
	for _, c := range []struct {
		what          string
		deleted       uint64
		peers, synced []string // that have it
		isGone        bool
	}{
		{"the peers are not known", now - 8*day, nil, []string{"a", "b"}, false},
		{"all have it", now - 8*day, []string{"a", "b"}, []string{"a", "b"}, true},
		{"young", now - 6*day, []string{"a", "b"}, []string{"a", "b"}, false},
		{"one has what was before", now - 8*day, []string{"a", "b"}, []string{"a"}, false},
		{"another one has it", now - 8*day, []string{"a", "b"}, []string{"a", "c"}, false},
		{"there are no peers", now - 8*day, []string{}, nil, true},
	} {
		t.Run(c.what, func(t *testing.T) {
			mem := vfs.NewMem("/d")
			d := open(t, mem, "/d", options)
			gone := locate("/a/c/gone", 1)
			r := d.Replica(0, gone.Partition)
			synced := func(peers []string) {
				t.Helper()
				position := must[bundle.Position](t)(r.Position())
				for _, peer := range peers {
					if err := r.SetSyncedThrough(peer, position); err != nil {
						t.Fatal(err)
					}
				}
			}
			must[State](t)(put(d, gone, "/a/c/gone", c.deleted-1, body(1, 4096)))
			synced([]string{"a", "b", "c"})
			must[State](t)(d.Delete(gone, at(c.deleted), "/a/c/gone"))
			synced(c.synced)
			for i := range uint64(40) {
				must[State](t)(put(d, Location{Partition: gone.Partition, Hash: format.Hash{1}}, "/a/c/o", now+i, body(i, 4096)))
			}
			if c.peers != nil {
				must[int](t)(0, r.SetPeers(c.peers))
			}
			for range 2 {
				if err := d.Compact(); err != nil {
					t.Fatal(err)
				}
				tombstone := c.deleted
				if c.isGone {
					tombstone = 0
				}
				wantNotFound(t, d, gone, tombstone)
				if err := d.Close(); err != nil {
					t.Fatal(err)
				}
				mem = mem.KillClone()
				d = open(t, mem, "/d", options)
			}
			if err := d.Close(); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// Closing the device ends a compaction that waits for its turn.
func TestCloseEndsCompaction(t *testing.T) {
	o := compactOptions
	o.CompactionRate = 1
	d := open(t, vfs.NewMem("/d"), "/d", o)
	d.compactor.pace.then = time.Now() // the burst is used up
	d.compactor.pace.before = 1 << 60
	for i := uint64(1); i < 100; i++ {
		must[State](t)(put(d, locate("/a/c/o", 1), "/a/c/o", i, body(i, 4096)))
		name := fmt.Sprint("/a/c/", i)
		must[State](t)(put(d, locate(name, 1), name, i, body(i, 100)))
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
}

// On a full device deletes that are spread over all segments make room, however
// few of a segment's objects they are of: their tombstones do not fill the rest of
// it first.
func TestSpreadDeletesOnFullDevice(t *testing.T) {
	mem := vfs.NewMem("/d")
	mem.SetLimit(16 << 20)
	o := compactOptions
	o.noFloor = false
	d := open(t, mem, "/d", o)
	defer d.Close()
	name := func(n int) string { return fmt.Sprint("/a/c/", n) }
	stored := 0
	for ; ; stored++ {
		_, err := put(d, locate(name(stored), 1), name(stored), 1, body(uint64(stored), 400))
		if errors.Is(err, ErrNoSpace) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for n := 0; n < stored; n += 6 {
		if _, err := d.Delete(locate(name(n), 1), at(2), name(n)); err != nil {
			t.Fatalf("%d of %d: %v; %d bytes are free", n, stored, err, 16<<20-used(t, d))
		}
		if n%96 == 0 { // the compactor would come to it by itself
			if err := d.Compact(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if _, err := put(d, locate("/a/c/new", 1), "/a/c/new", 3, body(1, 400)); err != nil {
		t.Error(err)
	}
}
