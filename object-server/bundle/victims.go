package bundle

import "martlet/object-server/bundle/index"

// usage is what the choice of victims knows of a segment.
type usage struct {
	all   int64  // bytes of records with a name
	live  int64  // of those that count
	cost  int64  // bytes that a rewrite writes
	base  uint64 // LSN of the first record
	last  uint64 // LSN of the last one
	fixed bool   // it grows, is damaged or has no footer: it stays as it is
	gap   bool   // records before it are lost: a segment that stood for both sides would hide that
	alone bool   // it is not rewritten together with others
}

// appetite says which segments are worth rewriting.
type appetite struct {
	capacity int64   // bytes of live records that fit into one segment; one that has more may be rewritten alone
	room     int64   // bytes that may be written
	share    float64 // of a run's bytes that must be dead
	least    int64   // bytes that must be dead, so that a few do not cost a rewrite
}

// mergeLeast neighbours make one, however alive they are, if none of them has
// more than half of the bytes. So a bundle has few segments for its size, and a
// byte is moved for that reason at most once each time its segment doubles.
const mergeLeast = 8

// spanMax bounds the LSNs of a segment: run entries keep 32 bits of them.
const spanMax = 1<<32 - 1

// first returns the first segment that may be rewritten and for which there is
// room, as a run of its own.
func (a appetite) first(segments []usage) (from, to int) {
	for i := range segments {
		if s := &segments[i]; !s.fixed && s.cost <= a.room {
			return i, i + 1
		}
	}
	return 0, 0
}

// choose returns the run [from, to) of neighbouring segments to rewrite into one;
// from == to if none is worth it. The segments are in log order. Of the runs that
// are dead enough it is the one that gains most over what is to be copied; small
// neighbours join it.
func (a appetite) choose(segments []usage) (from, to int) {
	best := 0.0
	for i := range segments {
		var all, live, cost, largest int64
		for j := i; j < len(segments); j++ {
			s := &segments[j]
			all, live, cost, largest = all+s.all, live+s.live, cost+s.cost, max(largest, s.all)
			if s.fixed || (s.gap || s.alone || segments[i].alone) && j > i || live > a.capacity && j > i || cost > a.room || s.last >= segments[i].base && s.last-segments[i].base > spanMax {
				break
			}
			dead, count := all-live, int64(j-i+1)
			if float64(dead) >= a.share*float64(all) && dead >= a.least && dead > 0 {
				// Not below 1: enough to beat what is merged for its number alone.
				score := 1 + float64(dead) - a.share*float64(all) + float64((count-1)*a.least)
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
