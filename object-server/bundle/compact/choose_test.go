package compact

import (
	"testing"

	"pgregory.net/rapid"
)

func usages() *rapid.Generator[[]Usage] {
	return rapid.Custom(func(t *rapid.T) []Usage {
		var all []Usage
		lsn := uint64(1)
		for range rapid.IntRange(0, 40).Draw(t, "segments") {
			u := Usage{Base: lsn, Fixed: rapid.IntRange(0, 5).Draw(t, "fixed") == 0}
			u.All = rapid.Int64Range(0, 1<<rapid.IntRange(0, 20).Draw(t, "size")).Draw(t, "all")
			u.Live = u.All * rapid.Int64Range(0, 100).Draw(t, "percent") / 100
			u.Last = lsn + rapid.Uint64Range(0, 1<<rapid.IntRange(1, 32).Draw(t, "span")).Draw(t, "records") - 1
			lsn = u.Last + 1
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
		a := Appetite{
			Capacity: rapid.Int64Range(1<<18, 1<<20).Draw(t, "capacity"), Room: 1 << 40,
			Share: rapid.SampledFrom([]float64{0.5, 0.25}).Draw(t, "share"),
			Least: rapid.Int64Range(1, 1<<12).Draw(t, "least"),
		}
		for round := 0; ; round++ {
			from, to := a.Choose(segments)
			if from == to {
				break
			}
			if round > 200 {
				t.Fatal("no end")
			}
			sum := Usage{Base: segments[from].Base, Last: segments[to-1].Last}
			largest := int64(0)
			for _, s := range segments[from:to] {
				if s.Fixed {
					t.Fatal("fixed")
				}
				sum.All, sum.Live, largest = sum.All+s.All, sum.Live+s.Live, max(largest, s.All)
			}
			isDead := float64(sum.All-sum.Live) >= a.Share*float64(sum.All) && sum.All-sum.Live >= a.Least
			if sum.Live > a.Capacity && to-from > 1 || sum.Last+1-sum.Base > 1<<32 || !isDead && (to-from < mergeLeast || 2*largest > sum.All) {
				t.Fatalf("%d to %d: %+v", from, to, sum)
			}
			sum.All = sum.Live
			segments = append(append(append([]Usage{}, segments[:from]...), sum), segments[to:]...)
		}
		for i, s := range segments {
			if dead := s.All - s.Live; !s.Fixed && dead >= a.Least && float64(dead) >= a.Share*float64(s.All) &&
				s.Last+1-s.Base < 1<<32 {
				t.Fatalf("%d: %+v is left", i, s)
			}
		}
	})
}

// However small the segments are, there are few of them.
func TestChooseMerges(t *testing.T) {
	a := Appetite{Capacity: 1 << 30, Room: 1 << 40, Share: 0.5, Least: 1 << 18}
	var segments []Usage
	moved := int64(0)
	for i := range 20_000 {
		segments = append(segments, Usage{All: 4096, Live: 4096, Base: uint64(i + 1), Last: uint64(i + 1)})
		for {
			from, to := a.Choose(segments)
			if from == to {
				break
			}
			sum := Usage{Base: segments[from].Base, Last: segments[to-1].Last}
			for _, s := range segments[from:to] {
				sum.All, sum.Live = sum.All+s.All, sum.Live+s.Live
			}
			moved += sum.All
			segments = append(append(append([]Usage{}, segments[:from]...), sum), segments[to:]...)
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
