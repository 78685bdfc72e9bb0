package bundle

import (
	"fmt"
	"testing"

	"martlet/object-server/bundle/format"
	"martlet/object-server/vfs"
)

// buried is a log in whose first segments names 0 to 19 are written, and deleted
// in later ones. Name 50 and on live.
func buried(t testing.TB) (*vfs.Mem, *Bundle) {
	fs := vfs.NewMem("/d")
	b := reopened(t, fs)
	write := func(d *Draft) {
		appendBatch(t, b, d)
		tend(t, b)
	}
	for n := range 20 {
		write(put(t, n, uint64(n+1)))
	}
	for n := range 20 {
		write(tombstone(t, n, uint64(100+n)))
	}
	for i := range 60 {
		write(put(t, 50+i%30, uint64(200+i)))
	}
	return fs, b
}

func reclaiming(before uint64) *Compaction {
	c := calm()
	c.Reclaim = format.Timestamp{Ticks: before}
	return c
}

// graves counts the names that show a tombstone, and fails if one shows an
// object.
func graves(t testing.TB, b *Bundle) (n int) {
	t.Helper()
	for i := range 20 {
		r, ok, err := find(b, name(i))
		check(t, err)
		if ok && r.Live() {
			t.Fatalf("%d came back", i)
		}
		if ok {
			n++
		}
	}
	return n
}

// Tombstones go when they are old enough, and nothing that they deleted comes
// back (I8).
func TestReclaim(t *testing.T) {
	for before, want := range map[uint64]int{0: 20, 100: 20, 107: 13, 150: 0} {
		t.Run(fmt.Sprint(before), func(t *testing.T) {
			fs, b := buried(t)
			done := compactAll(t, b, reclaiming(before))
			if done.Segments == 0 || graves(t, b) != want || done.Tombstones != 20-want {
				t.Fatalf("%+v, %d left", done, graves(t, b))
			}
			rebuilt := wantRebuilt(t, fs, b, 100)
			if graves(t, rebuilt) != want {
				t.Fatalf("%d left after a restart", graves(t, rebuilt))
			}
			appendBatch(t, rebuilt, put(t, 3, 300)) // a new life
			wantRebuilt(t, fs, rebuilt, 100)
		})
	}
}

// While a segment before the run is not rewritten with it, it may hold what a
// tombstone deletes, so the tombstone stays.
func TestReclaimNeedsTheOldestSegment(t *testing.T) {
	fs, b := buried(t)
	b.segments.inOrder()[0].unfit = true
	if done := compactAll(t, b, reclaiming(1000)); done.Segments == 0 || done.Tombstones != 0 || graves(t, b) != 20 {
		t.Fatalf("%+v, %d left", done, graves(t, b))
	}
	if n := graves(t, wantRebuilt(t, fs, b, 100)); n != 20 {
		t.Fatalf("%d left after a restart", n)
	}
}

// Where records are lost a name that is not known is in quarantine, and a
// tombstone says more.
func TestReclaimNeedsAWholeLog(t *testing.T) {
	_, b := buried(t)
	b.lostThrough = 1
	if done := compactAll(t, b, reclaiming(1000)); done.Segments == 0 || done.Tombstones != 0 {
		t.Fatalf("%+v", done)
	}
}

// A name that was written anew while its tombstone was left out keeps the new
// record.
func TestReclaimWhileWriting(t *testing.T) {
	fs, b := buried(t)
	c := reclaiming(1000)
	isDone := false
	c.Pace = func(bytes int) error {
		if bytes > 0 && !isDone {
			isDone = true
			for n := range 20 {
				appendBatch(t, b, put(t, n, uint64(500+n)))
			}
		}
		return nil
	}
	done := must(b.Compact(c))
	if done.Segments == 0 || !isDone {
		t.Fatalf("%+v", done)
	}
	for n := range 20 {
		if r, ok, err := find(b, name(n)); !ok || err != nil || !r.Live() {
			t.Fatal(n, ok, err)
		}
	}
	wantRebuilt(t, fs, b, 100)
}
