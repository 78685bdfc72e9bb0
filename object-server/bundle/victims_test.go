package bundle

import (
	"testing"

	"pgregory.net/rapid"
)

func usages() *rapid.Generator[[]usage] {
	return rapid.Custom(func(t *rapid.T) []usage {
		var all []usage
		lsn := uint64(1)
		for range rapid.IntRange(0, 40).Draw(t, "segments") {
			u := usage{base: lsn, fixed: rapid.IntRange(0, 5).Draw(t, "fixed") == 0}
			u.all = rapid.Int64Range(0, 1<<rapid.IntRange(0, 20).Draw(t, "size")).Draw(t, "all")
			u.live = u.all * rapid.Int64Range(0, 100).Draw(t, "percent") / 100
			u.last = lsn + rapid.Uint64Range(0, 1<<rapid.IntRange(1, 32).Draw(t, "span")).Draw(t, "records") - 1
			lsn = u.last + 1
			all = append(all, u)
		}
		return all
	})
}

// What is chosen may be rewritten, is worth it, and is there if any segment is
// worth it. Choosing comes to an end.
func TestChoose(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		segments := usages().Draw(t, "usages")
		a := appetite{
			capacity: rapid.Int64Range(1<<18, 1<<20).Draw(t, "capacity"), room: 1 << 40,
			share: rapid.SampledFrom([]float64{0.5, 0.25}).Draw(t, "share"),
			least: rapid.Int64Range(1, 1<<12).Draw(t, "least"),
		}
		for round := 0; ; round++ {
			from, to := a.choose(segments)
			if from == to {
				break
			}
			if round > 200 {
				t.Fatal("no end")
			}
			sum := usage{base: segments[from].base, last: segments[to-1].last}
			largest := int64(0)
			for _, s := range segments[from:to] {
				if s.fixed {
					t.Fatal("fixed")
				}
				sum.all, sum.live, largest = sum.all+s.all, sum.live+s.live, max(largest, s.all)
			}
			isDead := float64(sum.all-sum.live) >= a.share*float64(sum.all) && sum.all-sum.live >= a.least
			if sum.live > a.capacity && to-from > 1 || sum.last+1-sum.base > 1<<32 || !isDead && (to-from < mergeLeast || 2*largest > sum.all) {
				t.Fatalf("%d to %d: %+v", from, to, sum)
			}
			sum.all = sum.live
			segments = append(append(append([]usage{}, segments[:from]...), sum), segments[to:]...)
		}
		for i, s := range segments {
			if dead := s.all - s.live; !s.fixed && dead >= a.least && float64(dead) >= a.share*float64(s.all) &&
				s.last+1-s.base < 1<<32 {
				t.Fatalf("%d: %+v is left", i, s)
			}
		}
	})
}

// However small the segments are, there are few of them.
func TestChooseMerges(t *testing.T) {
	a := appetite{capacity: 1 << 30, room: 1 << 40, share: 0.5, least: 1 << 18}
	var segments []usage
	moved := int64(0)
	for i := range 20_000 {
		segments = append(segments, usage{all: 4096, live: 4096, base: uint64(i + 1), last: uint64(i + 1)})
		for {
			from, to := a.choose(segments)
			if from == to {
				break
			}
			sum := usage{base: segments[from].base, last: segments[to-1].last}
			for _, s := range segments[from:to] {
				sum.all, sum.live = sum.all+s.all, sum.live+s.live
			}
			moved += sum.all
			segments = append(append(append([]usage{}, segments[:from]...), sum), segments[to:]...)
		}
		if len(segments) > 120 {
			t.Fatalf("%d segments after %d", len(segments), i)
		}
	}
	if written := int64(20_000 * 4096); moved > 15*written {
		t.Fatalf("%d bytes moved for %d", moved, written)
	}
	t.Logf("%d segments, each byte moved %d times", len(segments), moved/(20_000*4096))
}
