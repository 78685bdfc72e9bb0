package compact

import (
	"martlet/object-server/bundle/format"
	"martlet/object-server/bundle/index"
)

// Usage is what the choice of victims knows of a segment.
type Usage struct {
	All   int64  // bytes of records with a name
	Live  int64  // of those that count
	Cost  int64  // bytes that a rewrite writes
	Base  uint64 // LSN of the first record
	Last  uint64 // LSN of the last one
	Fixed bool   // it grows, is damaged or has no footer: it stays as it is
	Gap   bool   // records before it are lost: a segment that stood for both sides would hide that
	Alone bool   // it is not rewritten together with others
}

// Appetite says which segments are worth rewriting.
type Appetite struct {
	Capacity int64   // bytes of live records that fit into one segment; one that has more may be rewritten alone
	Room     int64   // bytes that may be written
	Share    float64 // of a run's bytes that must be dead
	Least    int64   // bytes that must be dead, so that a few do not cost a rewrite
}

// mergeLeast neighbours make one, however alive they are, if none of them has
// more than half of the bytes. So a bundle has few segments for its size, and a
// byte is moved for that reason at most once each time its segment doubles.
const mergeLeast = 8

// First returns the first segment that may be rewritten and for which there is
// room, as a run of its own.
func (a Appetite) First(segments []Usage) (from, to int) {
	for i := range segments {
		if s := &segments[i]; !s.Fixed && s.Cost <= a.Room {
			return i, i + 1
		}
	}
	return 0, 0
}

// Choose returns the run [from, to) of neighbouring segments to rewrite into one;
// from == to if none is worth it. The segments are in log order. Of the runs that
// are dead enough it is the one that gains most over what is to be copied; small
// neighbours join it.
func (a Appetite) Choose(segments []Usage) (from, to int) {
	best := 0.0
	for i := range segments {
		var all, live, cost, largest int64
		for j := i; j < len(segments); j++ {
			s := &segments[j]
			all, live, cost, largest = all+s.All, live+s.Live, cost+s.Cost, max(largest, s.All)
			if s.Fixed || (s.Gap || s.Alone || segments[i].Alone) && j > i || live > a.Capacity && j > i || cost > a.Room || s.Last >= segments[i].Base && s.Last-segments[i].Base > format.SpanMax {
				break
			}
			dead, count := all-live, int64(j-i+1)
			if float64(dead) >= a.Share*float64(all) && dead >= a.Least && dead > 0 {
				// Not below 1: enough to beat what is merged for its number alone.
				score := 1 + float64(dead) - a.Share*float64(all) + float64((count-1)*a.Least)
				if score > best {
					best, from, to = score, i, j+1
				}
			}
			if best < 1 && count >= mergeLeast && 2*largest <= all {
				if score := float64(count) / (index.SegmentsMax + 1); score > best {
					best, from, to = score, i, j+1
				}
			}
		}
	}
	return from, to
}
