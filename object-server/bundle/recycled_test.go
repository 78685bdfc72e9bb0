package bundle

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"

	"martlet/object-server/bundle/format"
	"martlet/object-server/vfs"
)

// recycledConfig makes segments of some hundred records.
var recycledConfig = Config{SegmentBytes: 32 << 10, CheckpointBytes: 1 << 20}

func recyclingFiles(t testing.TB, fs vfs.FS) *Files {
	t.Helper()
	f := NewFiles(fs, "/d", 4)
	f.Direct = true
	check(t, f.LoadPool(1<<20, recycledConfig.SegmentBytes))
	return f
}

// recycledLog is a bundle whose newest segment is recycled: it has records of the
// names 1 to 5, behind older ones of 30 names, and stale bytes behind them.
func recycledLog(t testing.TB) (*vfs.Mem, *Bundle) {
	t.Helper()
	fs := vfs.NewMem("/d")
	b, err := Open(recyclingFiles(t, fs), logID, recycledConfig)
	check(t, err)
	tick := uint64(0)
	for len(b.files.pool.free) == 0 {
		for n := range 30 {
			tick++
			appendBatch(t, b, put(t, n, tick))
		}
		check(t, b.Seal())
		compactAll(t, b, calm())
	}
	b.turn = true
	for n := 1; n <= 5; n++ {
		appendBatch(t, b, put(t, n, 1000+uint64(n)))
	}
	if b.active.life == nil {
		t.Fatal("the newest segment is not recycled")
	}
	return fs, b
}

// reopenRecycled opens what another process has left.
func reopenRecycled(t testing.TB, fs *vfs.Mem) *Bundle {
	t.Helper()
	b, err := Open(recyclingFiles(t, fs), logID, recycledConfig)
	check(t, err)
	return b
}

// wantTimes compares the times of the names 0 to 29 with those of the live bundle,
// but for those that are told.
func wantTimes(t *testing.T, b, live *Bundle, but map[int]uint64) {
	t.Helper()
	for n := range 30 {
		want, _, err := find(live, name(n))
		check(t, err)
		ticks := want.Timestamp().Ticks
		if other, ok := but[n]; ok {
			ticks = other
		}
		if got, _, err := find(b, name(n)); err != nil || got.Timestamp().Ticks != ticks {
			t.Errorf("name %d: time %d, %v; want %d", n, got.Timestamp().Ticks, err, ticks)
		}
	}
}

func activePath(b *Bundle) string { return b.files.path(b.active.key(b.id)) }

// offsetOf is where the newest record of a name lies.
func offsetOf(t *testing.T, b *Bundle, n int) int64 {
	t.Helper()
	r, ok, err := find(b, name(n))
	if check(t, err); !ok {
		t.Fatal("no record of", n)
	}
	return int64(r.slot.Unit()) * format.UnitSize
}

// The log ends where stale bytes begin, and goes on there.
func TestRecycledSegmentGoesOn(t *testing.T) {
	fs, live := recycledLog(t)
	fs = fs.KillClone()
	b := reopenRecycled(t, fs)
	if r := b.Report(); len(r.Damaged) > 0 || r.TornTails > 0 {
		t.Fatalf("%+v", r)
	}
	wantTimes(t, b, live, nil)
	if b.active == nil || b.active.tail != live.active.tail || b.lastLSN != live.lastLSN {
		t.Fatalf("the log ends elsewhere: %+v", b.active)
	}
	for n := range 5 {
		appendBatch(t, b, put(t, n, 2000))
	}
	wantTimes(t, reopenRecycled(t, fs.KillClone()), b, nil)
	wantClean(t, fs)
}

// Damage in the middle is told from the end of the log, as in any segment.
func TestDamageInRecycledSegment(t *testing.T) {
	fs, live := recycledLog(t)
	fs = fs.KillClone()
	alter(t, fs, activePath(live), func(f vfs.File) { flip(t, f, offsetOf(t, live, 3)) })
	b := reopenRecycled(t, fs)
	if r := b.Report(); len(r.Damaged) != 1 || r.TornTails > 0 || b.lastLSN != live.lastLSN {
		t.Fatalf("%+v, last LSN %d of %d", r, b.lastLSN, live.lastLSN)
	}
	if _, _, err := find(b, name(5)); err != nil {
		t.Error(err)
	}
}

// A whole record behind a torn one was never acknowledged. It must not come back when
// the log goes on: so it goes on elsewhere.
func TestTornTailInRecycledSegment(t *testing.T) {
	fs, live := recycledLog(t)
	path, tail := activePath(live), live.active.tail
	a, err := (&Writer{live}).Append([]*Draft{put(t, 6, 3000), put(t, 7, 3000)})
	check(t, err)
	fs = fs.KillClone()
	a.Publish()
	alter(t, fs, path, func(f vfs.File) { flip(t, f, tail) })
	for range 2 { // nothing is written by the first
		b := reopenRecycled(t, fs)
		if r := b.Report(); len(r.Damaged) > 0 || r.TornTails != 1 || b.active != nil {
			t.Fatalf("%+v, %+v", r, b.active)
		}
		fs = fs.KillClone()
	}
	b := reopenRecycled(t, fs)
	appendBatch(t, b, put(t, 6, 3001))
	again := reopenRecycled(t, fs.KillClone())
	if r, _, err := find(again, name(7)); err != nil || r.Timestamp().Ticks >= 3000 {
		t.Error("a record that was given up came back", err)
	}
	check(t, b.Seal())
	wantTimes(t, reopenRecycled(t, fs.KillClone()), b, nil)
	wantClean(t, fs)
}

// Each of the two headers stands for both. Without both nothing in the file is
// believed, and it is damage.
func TestHeadersOfRecycledSegment(t *testing.T) {
	for _, c := range []struct {
		what          string
		first, second bool
	}{{"first", true, false}, {"second", false, true}, {"both", true, true}} {
		t.Run(c.what, func(t *testing.T) {
			fs, live := recycledLog(t)
			fs = fs.KillClone()
			alter(t, fs, activePath(live), func(f vfs.File) {
				if c.first {
					flip(t, f, 16)
				}
				if c.second {
					flip(t, f, live.active.life.capacity+16)
				}
			})
			b := reopenRecycled(t, fs)
			if len(b.Report().Damaged) == 0 || b.active != nil {
				t.Fatalf("%+v, %+v", b.Report(), b.active)
			}
			if c.first && c.second {
				if _, _, err := find(b, name(29)); err != nil || b.lostThrough < live.lastLSN {
					t.Errorf("lost through %d of %d: %v", b.lostThrough, live.lastLSN, err)
				}
			} else {
				wantTimes(t, b, live, nil)
			}
			check(t, b.Seal())
			repaired(t, fs)
		})
	}
}

// A header that was written to the wrong place is damage; a file that was moved by
// hand is refused, whatever its stale bytes say.
func TestMisdirectedHeaderOfRecycledSegment(t *testing.T) {
	fs, live := recycledLog(t)
	fs = fs.KillClone()
	moved := fs.KillClone()
	other := live.active.life.head
	other.Partition, other.UUID[0] = 8, other.UUID[0]+1
	alter(t, fs, activePath(live), func(f vfs.File) { check(t, f.Writev([][]byte{other.Encode()}, 0)) })
	b := reopenRecycled(t, fs)
	if len(b.Report().Damaged) != 1 || b.active != nil {
		t.Errorf("%+v", b.Report())
	}
	wantTimes(t, b, live, nil)
	alter(t, moved, activePath(live), func(f vfs.File) {
		check(t, moved.Link(f, filepath.Join(live.directory, "00000099-0000.bundle")))
	})
	if _, err := Open(recyclingFiles(t, moved), logID, recycledConfig); !errors.Is(err, format.ErrUnsupported) {
		t.Error(err)
	}
}

// A file that is still read, in whatever process, or that has another name, is
// never written to again.
func TestReadersKeepTheirFile(t *testing.T) {
	fs := vfs.NewMem("/d")
	b, err := Open(recyclingFiles(t, fs), logID, recycledConfig)
	check(t, err)
	type reader struct {
		vfs.File
		before []byte
	}
	var readers []reader
	tick := uint64(0)
	for range 12 {
		for n := range 30 {
			tick++
			appendBatch(t, b, put(t, n, tick))
		}
		check(t, b.Seal())
		names, _ := segmentFiles(t, fs)
		for i, name := range names {
			path := filepath.Join(b.directory, name)
			if path == activePath(b) { // it grows
				continue
			}
			file, err := fs.Open(path)
			check(t, err)
			if i%2 == 0 {
				readers = append(readers, reader{file, contentOf(t, fs, path)})
				continue
			}
			check(t, fs.Link(file, fmt.Sprintf("/d/backup-%d-%d", tick, i)))
			check(t, file.Close())
		}
		compactAll(t, b, calm())
	}
	if len(b.files.pool.free) > 0 {
		t.Error("a file that is read waits to be written to")
	}
	for _, r := range readers {
		now := make([]byte, len(r.before))
		if _, err := r.ReadAt(now, 0); err != nil || !slices.Equal(now, r.before) {
			t.Fatal("the bytes of a reader have changed", err)
		}
	}
}

// What the pool holds is bounded, survives a restart, and is given up when room is
// short or another way of writing is chosen.
func TestPool(t *testing.T) {
	fs, b := recycledLog(t)
	for len(b.files.pool.free) == 0 {
		for n := range 30 {
			appendBatch(t, b, put(t, n, 5000+b.lastLSN))
		}
		check(t, b.Seal())
		compactAll(t, b, calm())
	}
	count := len(b.files.pool.free)
	poolNames := func(fs vfs.FS) int {
		entries, err := fs.ReadDir("/d/" + PoolDirectory)
		check(t, err)
		return len(entries)
	}
	if poolNames(fs) != count {
		t.Fatalf("%d files, %d known", poolNames(fs), count)
	}
	restarted := fs.KillClone()
	if f := recyclingFiles(t, restarted); len(f.pool.free) != count || f.pool.bytes != b.files.pool.bytes {
		t.Errorf("after a restart %d files of %d", len(f.pool.free), count)
	}
	check(t, NewFiles(restarted, "/d", 4).LoadPool(0, recycledConfig.SegmentBytes))
	if poolNames(restarted) != 0 {
		t.Error("files wait that are of no use")
	}
	b.files.Drain()
	if poolNames(fs) != 0 || b.files.pool.bytes != 0 {
		t.Error("room is not given back")
	}
	b.files.Scarce.Store(true)
	for n := range 60 {
		appendBatch(t, b, put(t, n%30, 9000+b.lastLSN))
	}
	check(t, b.Seal())
	compactAll(t, b, calm())
	if poolNames(fs) != 0 {
		t.Error("files wait where room is short")
	}
}

// FuzzStaleTail puts any bytes behind the records of a recycled segment, and records
// of earlier lives: what opens is what was written, and it goes on.
func FuzzStaleTail(f *testing.F) {
	f.Add([]byte{}, uint64(1))
	f.Add([]byte("mrRC"), uint64(2))
	f.Add(readGolden(f), uint64(3))
	f.Add(goldenSealed(f), uint64(4))
	f.Fuzz(func(t *testing.T, stale []byte, seed uint64) {
		fs, live := recycledLog(t)
		fs = fs.KillClone()
		rng := rand.New(rand.NewPCG(seed, 0))
		alter(t, fs, activePath(live), func(file vfs.File) {
			room := live.active.life.capacity - live.active.tail
			for range 1 + rng.IntN(4) {
				piece := slices.Clone(stale)
				if at := rng.IntN(len(piece)/format.UnitSize + 1); (at+2)*format.UnitSize <= len(piece) {
					repair(piece[at*format.UnitSize:])
				}
				if rng.IntN(2) == 0 { // records of the same bundle, with any LSN
					piece = append(piece, foreign(t, rng)...)
				}
				piece = piece[:min(len(piece), int(room))]
				at := live.active.tail + rng.Int64N((room-int64(len(piece)))/format.UnitSize+1)*format.UnitSize
				check(t, file.Writev([][]byte{piece}, at))
			}
		})
		b := reopenRecycled(t, fs)
		if r := b.Report(); len(r.Damaged) > 0 || r.TornTails > 0 || b.lastLSN != live.lastLSN {
			t.Fatalf("%+v, last LSN %d of %d", r, b.lastLSN, live.lastLSN)
		}
		wantTimes(t, b, live, nil)
		for n := range 4 {
			appendBatch(t, b, put(t, n, 4000))
		}
		wantTimes(t, reopenRecycled(t, fs.KillClone()), b, nil)
		fs = fs.KillClone()
		alter(t, fs, activePath(live), func(file vfs.File) {
			for range rng.IntN(3) {
				flip(t, file, []int64{rng.Int64N(256), live.active.life.capacity + rng.Int64N(128), rng.Int64N(live.active.tail)}[rng.IntN(3)])
			}
		})
		_ = reopenRecycled(t, fs)
		repaired(t, fs)
	})
}

// foreign is a good record of another segment.
func foreign(t *testing.T, rng *rand.Rand) []byte {
	d := put(t, rng.IntN(30), 9000)
	lsn := rng.Uint64N(1000) + 1
	d.stamp(lsn, lsn-1, rng.Uint32(), 0)
	return slices.Clone(d.bytes())
}
