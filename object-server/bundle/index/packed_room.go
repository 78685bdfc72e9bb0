package index

import "slices"

// How the packed index makes room: moving gaps, growing, doubling the groups.

// vacate returns an empty slot in the region of group i, if need be the nearest
// one that is not further away than the limit, moved there.
func (x *Index) vacate(i, limit int) (int, bool) {
	start, end := int(x.starts[i]), int(x.starts[i+1])
	for at := start; at < end; {
		run := x.run(at, end)
		if i := slices.Index(run, 0); i >= 0 {
			return at + i, true
		}
		at += len(run)
	}
	capacity := x.capacity()
	for d := range limit {
		after, before := end+d, start-1-d
		if after < capacity && x.get(after) == 0 {
			return x.moveDown(after, i), true
		}
		if before >= 0 && x.get(before) == 0 {
			return x.moveUp(before, i), true
		}
	}
	return 0, false
}

// moveDown moves the gap, which lies behind the region of group i, to its end:
// each region between gives its first slot to become its last.
func (x *Index) moveDown(gap, i int) int {
	j := i + 1
	for int(x.starts[j+1]) <= gap {
		j++
	}
	for ; j > i; j-- {
		if first := int(x.starts[j]); first != gap {
			x.set(gap, x.get(first))
			gap = first
		}
		x.starts[j]++
	}
	return gap
}

// moveUp moves the gap, which lies before the region of group i, to its start.
func (x *Index) moveUp(gap, i int) int {
	j := i
	for int(x.starts[j-1]) > gap {
		j--
	}
	for ; j <= i; j++ {
		x.starts[j]--
		if last := int(x.starts[j]); last != gap {
			x.set(gap, x.get(last))
			gap = last
		}
	}
	return gap
}

// grow adds pages and shares the gaps out among the regions, in proportion to
// their slots. It does so where they are: first all slots move to the end, then
// each group to its place, which is never further up.
func (x *Index) grow(pages int) {
	old := x.capacity()
	grown := make([]uint32, len(x.pages)+pages)
	copy(grown, x.pages)
	x.pool.alloc(grown[len(x.pages):])
	x.pages = grown
	if x.starts == nil {
		x.starts = make([]uint32, 2)
	}
	groups := len(x.starts) - 1
	x.starts[groups] = uint32(x.capacity())
	to, end := x.capacity(), old
	for i := groups - 1; i >= 0; i-- {
		start := int(x.starts[i])
		to = x.pack(start, end, to)
		x.starts[i], end = uint32(to), start
	}
	free := 0
	for i := range groups {
		from, end := int(x.starts[i]), int(x.starts[i+1])
		at := int(x.spread(from - (x.capacity() - x.slots)))
		x.starts[i] = uint32(at)
		x.clear(free, at)
		free = at + end - from
		x.shift(from, end, at)
	}
	x.clear(free, x.capacity())
}

// spread is where the region of a group starts that has so many slots before it.
func (x *Index) spread(before int) uint32 {
	return uint32(before * x.capacity() / max(x.slots, 1))
}

// pack moves the slots between start and end up to just before to, and returns
// where they begin. to is not below end.
func (x *Index) pack(start, end, to int) int {
	for start < end {
		first := max(start, (end-1)/pageSlots*pageSlots)
		for _, s := range slices.Backward(x.run(first, end)) {
			if s != 0 {
				to--
				x.set(to, s)
			}
		}
		end = first
	}
	return to
}

// shift moves the slots from start to end down to begin at to.
func (x *Index) shift(start, end, to int) {
	for start < end {
		run := x.run(start, end)
		n := copy(x.run(to, to+len(run)), run)
		start, to = start+n, to+n
	}
}

// clear empties the slots from start to end.
func (x *Index) clear(start, end int) {
	for start < end {
		run := x.run(start, end)
		clear(run)
		start += len(run)
	}
}

// double makes two groups of each, which share its region.
func (x *Index) double() {
	starts := make([]uint32, 2*len(x.starts)-1)
	var children [2][]Slot
	for i := range len(x.starts) - 1 {
		start, end := int(x.starts[i]), int(x.starts[i+1])
		for c := range children {
			children[c] = slices.Grow(children[c][:0], end-start)
		}
		lower, upper := x.split(start, end, children[0], children[1])
		middle := end - len(upper) - (end-start-len(lower)-len(upper))/2
		starts[2*i], starts[2*i+1] = uint32(start), uint32(middle)
		x.fill(start, middle, lower)
		x.fill(middle, end, upper)
	}
	starts[len(starts)-1] = uint32(x.capacity())
	x.starts = starts
	x.level++
}

// split sorts the slots from start to end into those of the two children; both
// slices have room for all. Which child it is the processor cannot foresee, so
// each slot is written to both and counts in one.
func (x *Index) split(start, end int, lower, upper []Slot) ([]Slot, []Slot) {
	lower, upper = lower[:end-start], upper[:end-start]
	l, u := 0, 0
	for start < end {
		run := x.run(start, end)
		for _, s := range run {
			if s != 0 {
				child, below := s.descend()
				lower[l], upper[u] = below, below
				l, u = l+1-child, u+child
			}
		}
		start += len(run)
	}
	return lower[:l], upper[:u]
}

// fill puts the slots at start and empties the rest up to end.
func (x *Index) fill(start, end int, slots []Slot) {
	for len(slots) > 0 {
		n := copy(x.run(start, end), slots)
		slots, start = slots[n:], start+n
	}
	x.clear(start, end)
}
