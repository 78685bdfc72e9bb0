package bundle

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	"martlet/object-server/bundle/format"
	"martlet/object-server/bundle/segment"
	"martlet/object-server/vfs"
)

// calm compacts without locks and pauses.
func calm() *Compaction {
	return &Compaction{
		Lock: func(format.Hash) {}, Unlock: func(format.Hash) {}, Pace: func(int) error { return nil }, Settle: func() error { return nil },
		Share: 0.5, Room: 1 << 40,
	}
}

// compactAll compacts until nothing is worth it.
func compactAll(t testing.TB, b *Bundle, c *Compaction) (sum Compacted) {
	t.Helper()
	for {
		done, err := b.Compact(c)
		check(t, err)
		if done.Segments == 0 {
			return sum
		}
		sum.Segments, sum.Bytes, sum.Tombstones = sum.Segments+done.Segments, sum.Bytes+done.Bytes, sum.Tombstones+done.Tombstones
		sum.Versions += done.Versions
	}
}

func tombstone(t testing.TB, n int, ticks uint64) *Draft {
	d := NewDraft(0)
	m := format.Metadata{Name: fmt.Sprint("/a/c/", n), Timestamp: format.Timestamp{Ticks: ticks}}
	check(t, d.SealTombstone(name(n), &m))
	return d
}

// content is all that a bundle shows: LSN, type and time of each name.
func content(t testing.TB, b *Bundle, names int) map[int]string {
	t.Helper()
	all := map[int]string{}
	for n := range names {
		r, buffer, err := b.Read(name(n))
		if err != nil {
			all[n] = errors.Unwrap(err).Error()
		} else if r != nil {
			all[n] = fmt.Sprint(r.LSN(), r.Type(), r.Timestamp(), r.CheckData())
		}
		buffer.Free()
	}
	return all
}

// shape is what the segments of a bundle are.
func shape(b *Bundle) (all []string) {
	for _, s := range b.segments.inOrder() {
		if s.last >= s.base {
			all = append(all, fmt.Sprintf("%d-%d generation %d: records %d to %d, %d of %d units",
				s.sequence, s.through, s.generation, s.base, s.last, s.live, s.units))
		}
	}
	return all
}

func segmentFiles(t testing.TB, fs vfs.FS) (names []string, bytes int64) {
	t.Helper()
	entries, err := fs.ReadDir("/d/bundles/7")
	check(t, err)
	for _, e := range entries {
		info, err := e.Info()
		check(t, err)
		names, bytes = append(names, e.Name()), bytes+info.Size()
	}
	return names, bytes
}

// wantRebuilt compares a bundle with what a new process makes of its files.
func wantRebuilt(t testing.TB, fs *vfs.Mem, live *Bundle, names int) *Bundle {
	t.Helper()
	rebuilt := reopened(t, fs)
	if got, want := shape(rebuilt), shape(live); !slices.Equal(got, want) {
		t.Fatalf("rebuilt %q, live %q", got, want)
	}
	if !maps.Equal(places(live), places(rebuilt)) || live.lastLSN != rebuilt.lastLSN {
		t.Fatalf("the index differs: %d names, rebuilt %d", live.Len(), rebuilt.Len())
	}
	if rebuilt.agreement.table.All(0) != live.agreement.table.All(0) || rebuilt.agreement.horizon != live.agreement.horizon {
		t.Fatalf("the set differs: %v, rebuilt %v", live.agreement.table.All(0), rebuilt.agreement.table.All(0))
	}
	if got, want := content(t, rebuilt, names), content(t, live, names); !maps.Equal(got, want) {
		t.Fatalf("rebuilt %v, live %v", got, want)
	}
	return rebuilt
}

// Compaction keeps all that shows, and gives back the room; what a restart finds
// is the same.
func TestCompact(t *testing.T) {
	for _, lacks := range []vfs.Feature{0, vfs.FeatureTemp} {
		fs, b := tendedLog(t)
		fs.Lack(lacks)
		before := content(t, b, 90)
		_, used := segmentFiles(t, fs)
		done := compactAll(t, b, calm())
		if done.Segments < 3 || done.Bytes == 0 {
			t.Fatalf("%+v", done)
		}
		if after := content(t, b, 90); !maps.Equal(before, after) {
			t.Fatalf("%v became %v", before, after)
		}
		files, left := segmentFiles(t, fs)
		if left > used*3/4 || len(files) != len(shape(b)) {
			t.Fatalf("%d bytes of %d left, files %v for %q", left, used, files, shape(b))
		}
		wantClean(t, fs)
		b = wantRebuilt(t, fs, b, 90)
		if len(b.Report().Damaged) > 0 {
			t.Fatal(b.Report().Damaged)
		}
		for i := range 250 { // and so on
			appendBatch(t, b, put(t, i*11%90, uint64(1000+i)))
			tend(t, b)
			compactAll(t, b, calm())
		}
		b = wantRebuilt(t, fs, b, 90)
		if live, all := b.Bytes(); all > 3*live {
			t.Fatalf("%d bytes, %d live", all, live)
		}
	}
}

// Nothing that counts is in some segments: what is left of them keeps their LSNs.
func TestCompactOfNothing(t *testing.T) {
	fs := vfs.NewMem("/d")
	b := reopened(t, fs)
	for i := range 300 {
		appendBatch(t, b, put(t, i%3, uint64(i+1)))
		tend(t, b)
	}
	compactAll(t, b, calm())
	if got := len(shape(b)); got > 3 {
		t.Fatalf("%q", shape(b))
	}
	rebuilt := wantRebuilt(t, fs, b, 3)
	appendBatch(t, rebuilt, put(t, 1, 1000))
	wantRebuilt(t, fs, rebuilt, 3)
}

// A record that was written while it was copied stays replaced.
func TestCompactWhileWriting(t *testing.T) {
	fs, b := tendedLog(t)
	c := calm()
	ticks := uint64(1000)
	c.Pace = func(bytes int) error {
		if bytes > 0 {
			for n := range 20 {
				ticks++
				appendBatch(t, b, put(t, n*3, ticks))
			}
		}
		return nil
	}
	if done := must(b.Compact(c)); done.Segments == 0 {
		t.Fatal("nothing compacted")
	}
	wantRebuilt(t, fs, b, 90)
}

// A file that is being read stays until it has been read.
func TestCompactWaitsForReaders(t *testing.T) {
	fs, b := tendedLog(t)
	var space [4]candidate
	found := b.candidates(space[:0], name(0))
	old := found[0].segment
	path := b.files.path(old.key(b.id))
	for i := range 250 {
		appendBatch(t, b, put(t, i%90, uint64(1000+i)))
		tend(t, b)
	}
	compactAll(t, b, calm())
	if !old.hidden {
		t.Fatal("not compacted")
	}
	if r, buffer, err := b.readCandidate(&found[0], name(0), 0); err != nil || r == nil || r.CheckData() != nil {
		t.Fatal(r, err)
	} else {
		buffer.Free()
	}
	b.mark(found[0].slot, format.ErrDamaged) // what a reader finds too late is of no harm
	release(found)
	b.reap(calm())
	if _, err := fs.Open(path); err == nil {
		t.Fatal("still there")
	}
	if len(b.damaged) != 0 {
		t.Fatal(b.damaged)
	}
	wantRebuilt(t, fs, b, 90)
}

// A crash leaves old and new side by side. Whichever of the old ones are there,
// opening finds the same; also when the new footer is damaged afterwards.
func TestOldAndNewSegments(t *testing.T) {
	fs, b := tendedLog(t)
	old := fs.KillClone()
	names, _ := segmentFiles(t, old)
	compactAll(t, b, calm())
	want := content(t, b, 90)
	after, _ := segmentFiles(t, fs)
	for mask := range 1 << len(names) {
		mixed := fs.KillClone()
		for i, name := range names {
			if mask>>i&1 == 1 && !slices.Contains(after, name) {
				plant(t, mixed, "/d/bundles/7/"+name, contentOf(t, old, "/d/bundles/7/"+name))
			}
		}
		for _, isCut := range []bool{false, true} {
			fs := mixed.KillClone()
			if isCut {
				for _, s := range b.segments.inOrder() {
					if s.generation > 0 {
						alter(t, fs, b.files.path(s.key(b.id)), func(f vfs.File) { check(t, f.Truncate(s.tail+5)) })
					}
				}
			}
			for range 2 {
				rebuilt := reopened(t, fs)
				if got := content(t, rebuilt, 90); !maps.Equal(got, want) || rebuilt.lastLSN != b.lastLSN {
					t.Fatalf("old ones %b, cut %v: %v, want %v", mask, isCut, got, want)
				}
				tend(t, rebuilt)
			}
		}
	}
}

func contentOf(t testing.TB, fs vfs.FS, path string) []byte {
	f := must(fs.Open(path))
	p := make([]byte, must(f.Size()))
	check(t, segment.ReadFull(f, p, 0))
	return p
}

// What is left of a compaction that a crash ended is removed.
func TestTemporarySegments(t *testing.T) {
	fs, _ := tendedLog(t)
	plant(t, fs, "/d/bundles/7/.00000001-0001.bundle.tmp", []byte("x"))
	plant(t, fs, "/d/bundles/7/.mine.tmp", []byte("x"))
	reopened(t, fs)
	names, _ := segmentFiles(t, fs)
	if slices.Contains(names, ".00000001-0001.bundle.tmp") || !slices.Contains(names, ".mine.tmp") {
		t.Fatal(names)
	}
}

// Damaged bodies stay found damaged; damaged headers keep a segment as it is.
func TestCompactOfDamage(t *testing.T) {
	fs, b := tendedLog(t)
	victim, _, err := b.Read(name(0))
	check(t, err)
	s := b.segments.table[victim.slot.Segment()]
	alter(t, fs, b.files.path(s.key(b.id)), func(f vfs.File) { // in its data
		flip(t, f, int64(victim.slot.Unit())*format.UnitSize+int64(victim.Head.Layout().Data)+7)
	})
	_ = b.Quarantine(victim, format.ErrDamaged)
	for i := range 200 {
		appendBatch(t, b, put(t, 1+i%89, uint64(1000+i)))
		tend(t, b)
	}
	if done := compactAll(t, b, calm()); done.Segments == 0 || !s.hidden {
		t.Fatalf("%+v", done)
	}
	if _, _, err := b.Read(name(0)); !errors.Is(err, format.ErrQuarantined) {
		t.Fatal(err)
	}
	r, _, err := reopened(t, fs).Read(name(0))
	if err != nil || r.LSN() != victim.LSN() || r.CheckData() == nil {
		t.Fatal(r, err)
	}

	fs, b = tendedLog(t)
	var told []error
	b.config.Damaged = func(err error) { told = append(told, err) }
	kept, _, _ := find(b, name(1))
	bad := b.segments.table[kept.slot.Segment()]
	alter(t, fs, b.files.path(bad.key(b.id)), func(f vfs.File) { flip(t, f, int64(kept.slot.Unit())*format.UnitSize+40) })
	for i := range 200 {
		appendBatch(t, b, put(t, 2+i%88, uint64(1000+i)))
		tend(t, b)
	}
	compactAll(t, b, calm())
	if bad.hidden || len(told) != 1 {
		t.Fatalf("%v, %v", bad.hidden, told)
	}
}

// A segment with a bad sector stays as it is, and that is no error.
func TestCompactOfBadSectors(t *testing.T) {
	mem, _ := tendedLog(t)
	reads, bad := 0, 0
	fs := vfs.NewFaults(mem, func(op, name string) error {
		if op != "read" || !strings.HasSuffix(name, "00000002-0000.bundle") {
			return nil
		}
		if reads++; bad == 0 || reads < bad {
			return nil
		}
		return &os.PathError{Op: "pread", Path: name, Err: syscall.EIO}
	})
	b, err := Open(NewFiles(fs, "/d", 4), logID, tended)
	check(t, err)
	second := b.segments.inOrder()[1]
	bad = reads + 2
	if done := compactAll(t, b, calm()); done.Segments == 0 || second.hidden || reads < bad {
		t.Fatalf("%+v, %d of %d reads", done, reads, bad)
	}
	wantRebuilt(t, mem, b, 90)
}

// A footer that cannot be read is no reason not to compact.
func TestCompactWithoutFooter(t *testing.T) {
	fs, b := tendedLog(t)
	before := content(t, b, 90)
	for _, s := range b.segments.inOrder() {
		if s.sealed {
			alter(t, fs, b.files.path(s.key(b.id)), func(f vfs.File) { flip(t, f, s.tail+40) })
		}
	}
	if done := compactAll(t, b, calm()); done.Segments == 0 {
		t.Fatal("nothing compacted")
	}
	if after := content(t, b, 90); !maps.Equal(before, after) {
		t.Fatalf("%v became %v", before, after)
	}
	wantRebuilt(t, fs, b, 90)
}

// An error leaves everything as it was, and no room taken.
func TestCompactFails(t *testing.T) {
	full := fmt.Errorf("full: %w", vfs.ErrNoSpace)
	for n := 1; ; n++ {
		mem, b := tendedLog(t)
		mem.Lack(vfs.Feature(n % 2))
		before, shaped := content(t, b, 90), shape(b)
		_, used := segmentFiles(t, mem)
		count := 0
		b.files.FS = vfs.NewFaults(mem, func(op, _ string) error {
			if op == "remove" || op == "open" || op == "read" {
				return nil
			}
			if count++; count == n {
				return full
			}
			return nil
		})
		_, err := b.Compact(calm())
		if count < n {
			check(t, err)
			if n < 5 {
				t.Fatalf("%d operations", n)
			}
			return
		}
		if !errors.Is(err, vfs.ErrNoSpace) {
			t.Fatalf("operation %d: %v", n, err)
		}
		if _, now := segmentFiles(t, mem); now != used || !slices.Equal(shape(b), shaped) {
			t.Fatalf("operation %d: %d bytes, were %d; %q, was %q", n, now, used, shape(b), shaped)
		}
		wantRebuilt(t, mem, b, 90)
		compactAll(t, b, calm())
		if after := content(t, b, 90); !maps.Equal(before, after) {
			t.Fatalf("operation %d: %v became %v", n, before, after)
		}
		wantRebuilt(t, mem, b, 90)
	}
}

// When the name of a failed compaction cannot be taken back there is no other
// before the bundle has been opened again.
func TestCompactionIsStuck(t *testing.T) {
	mem, b := tendedLog(t)
	before := content(t, b, 90)
	broken := errors.New("input/output error")
	isBroken := true
	b.files.FS = vfs.NewFaults(mem, func(op, _ string) error {
		if isBroken && (op == "syncdir" || op == "remove") {
			return broken
		}
		return nil
	})
	if _, err := b.Compact(calm()); !errors.Is(err, broken) {
		t.Fatal(err)
	}
	isBroken = false
	if done := compactAll(t, b, calm()); done.Segments != 0 {
		t.Fatalf("%+v", done)
	}
	rebuilt := reopened(t, mem)
	if after := content(t, rebuilt, 90); !maps.Equal(before, after) {
		t.Fatalf("%v became %v", before, after)
	}
	compactAll(t, rebuilt, calm())
	wantRebuilt(t, mem, rebuilt, 90)
}

// A segment that is lost leaves a gap in the LSNs, which makes older records of
// its names doubtful. No segment comes to stand for both sides of it.
func TestCompactionKeepsGaps(t *testing.T) {
	for _, config := range []Config{tended, filedConfig} {
		fs := vfs.NewMem("/d")
		reopen := func() *Bundle {
			b, err := Open(NewFiles(fs, "/d", 4), logID, config)
			check(t, err)
			return b
		}
		b, ticks := reopen(), uint64(0)
		write := func(count int) {
			for range count {
				ticks++
				appendBatch(t, b, put(t, int(ticks%10), ticks))
				tendFiled(t, b)
			}
		}
		write(60)
		appendBatch(t, b, put(t, 50, 1))
		write(120)
		appendBatch(t, b, tombstone(t, 50, 2))
		lost := b.segments.withLSN(b.lastLSN).key(logID)
		write(240)
		check(t, fs.Remove(b.files.path(lost)))
		b = reopen()
		shows := content(t, b, 51)
		if r, ok, err := find(b, name(50)); !ok || err != nil || !r.Doubtful() {
			t.Fatalf("%q", shows[50])
		}
		if compactAll(t, b, calm()).Segments < 4 {
			t.Fatalf("%q", shape(b))
		}
		b = reopen()
		if got := content(t, b, 51); !maps.Equal(got, shows) {
			t.Fatalf("%v became %v", shows, got)
		}
		if r, _, _ := find(b, name(50)); !r.Doubtful() {
			t.Fatal("the gap is gone")
		}
	}
}
