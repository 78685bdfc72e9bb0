package bundle

import (
	"fmt"
	"math"
	"testing"

	"martlet/object-server/bundle/format"
	"martlet/object-server/bundle/sethash"
	"martlet/object-server/vfs"
)

// graveDay is the day on which name 0 is deleted in buried, in ticks; name 1 is deleted
// on the next day, and so on.
const graveDay = 100 * sethash.DayTicks

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
		write(tombstone(t, n, graveDay+uint64(n)*sethash.DayTicks+77))
	}
	for i := range 60 {
		write(put(t, 50+i%30, uint64(200+i)))
	}
	return fs, b
}

func reclaiming(before uint64) *Compaction {
	c := calm()
	c.Reclaim, c.ReclaimThrough = format.Timestamp{Ticks: before}, math.MaxUint64
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

// Tombstones go when they are old enough, by whole days, and nothing that they
// deleted comes back (I8). How old they were is known after a restart, too.
func TestReclaim(t *testing.T) {
	for days, want := range map[uint64]int{0: 20, 100: 20, 107: 13, 150: 0} {
		before := days * sethash.DayTicks
		if days == 107 {
			before += 500 // a part of the day is not enough
		}
		t.Run(fmt.Sprint(days), func(t *testing.T) {
			fs, b := buried(t)
			done := compactAll(t, b, reclaiming(before))
			if done.Segments == 0 || graves(t, b) != want || done.Tombstones != 20-want {
				t.Fatalf("%+v, %d left", done, graves(t, b))
			}
			rebuilt := wantRebuilt(t, fs, b, 100)
			if horizon := rebuilt.Horizon(); (horizon == format.Timestamp{}) != (want == 20) || want < 20 && horizon.Ticks != sethash.StartOfDay(before) {
				t.Fatalf("horizon %v after tombstones before %d were reclaimed", horizon, before)
			}
			if graves(t, rebuilt) != want {
				t.Fatalf("%d left after a restart", graves(t, rebuilt))
			}
			appendBatch(t, rebuilt, put(t, 3, 1<<40)) // a new life
			wantRebuilt(t, fs, rebuilt, 100)
		})
	}
}

// While a segment before the run is not rewritten with it, it may hold what a
// tombstone deletes, so the tombstone stays.
func TestReclaimNeedsTheOldestSegment(t *testing.T) {
	fs, b := buried(t)
	b.segments.inOrder()[0].unfit = true
	if done := compactAll(t, b, reclaiming(1000*sethash.DayTicks)); done.Segments == 0 || done.Tombstones != 0 || graves(t, b) != 20 {
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
	if done := compactAll(t, b, reclaiming(1000*sethash.DayTicks)); done.Segments == 0 || done.Tombstones != 0 {
		t.Fatalf("%+v", done)
	}
}

// A name that was written anew while its tombstone was left out keeps the new
// record.
func TestReclaimWhileWriting(t *testing.T) {
	fs, b := buried(t)
	c := reclaiming(1000 * sethash.DayTicks)
	isDone := false
	c.Pace = func(bytes int) error {
		if bytes > 0 && !isDone {
			isDone = true
			for n := range 20 {
				appendBatch(t, b, put(t, n, 1<<40+uint64(n)))
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
