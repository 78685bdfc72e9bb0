package index

import (
	"iter"
	"unsafe"
)

const (
	groupSlots = 48   // average length of a group at which all of them double
	levelMax   = 20   // see Index
	reach      = 4096 // slots to look at for a gap before making some
)

// Index is a table of slots by key, 64 uniform bits of a name's hash. Any
// number of slots may have the same key.
//
// The slots lie in one logical array of pages from a pool. The top `level` bits
// of a key choose its group. Groups lie in order, each in a region of its own
// that ends where the next begins; empty slots are anywhere in it. An insert into
// a full region finds the nearest empty slot and moves one slot of each region
// between, so that it becomes its own. When less than a sixteenth is empty the
// array grows by a sixteenth, in place. Then all slots move, which takes 5 ms for a million of them, as does
// the doubling of groups; no other insert depends on their number.
//
// When groups have become long they all double, and each slot goes where the top
// bit of its tag says. This takes a bit from the tag, so a slot that was made at
// level m has 20+m-level of them left and matches an absent key with probability
// 2^-(20+m-level). As half of the slots are younger than one doubling, a quarter
// older than one and so on, a look-up of an absent key meets less than one false
// candidate in 2000 even at the last level. At level 20, with 50 million slots,
// the first ones have no bit left; groups double no more and get longer instead.
//
// It is not safe for concurrent use, but Find, Each and Len may run
// together.
type Index struct {
	pool   *Pool
	pages  []uint32 // the array
	starts []uint32 // of the groups' regions, and the end of the last one; nil without pages
	slots  int
	level  uint8
}

// New returns an empty index, which needs no page yet.
func New(pool *Pool) Index { return Index{pool: pool} }

// Len is the number of slots.
func (x *Index) Len() int { return x.slots }

// bytes is all that the index occupies, in pages and on the Go heap.
func (x *Index) bytes() int {
	return int(unsafe.Sizeof(*x)) + len(x.pages)*pageSize + 4*(cap(x.pages)+cap(x.starts))
}

// Free gives the pages back and leaves the index empty.
func (x *Index) Free() {
	x.pool.release(x.pages)
	*x = New(x.pool)
}

// Find appends to buf the slots that may be the key's.
func (x *Index) Find(key uint64, buf []Slot) []Slot {
	full := fullTag(key, x.level)
	for at, end := x.region(key); at < end; {
		run := x.run(at, end)
		for _, s := range run {
			if s.matches(full) {
				buf = append(buf, s)
			}
		}
		at += len(run)
	}
	return buf
}

// Insert adds a slot.
func (x *Index) Insert(key uint64, s Slot) {
	if capacity := x.capacity(); x.slots >= capacity-capacity/16 {
		x.grow(max(1, len(x.pages)/16))
	}
	if crowded(x.slots+1, x.level) {
		x.double()
	}
	i := x.group(key)
	at, ok := x.vacate(i, reach)
	if !ok {
		x.grow(1)
		at, _ = x.vacate(i, x.capacity())
	}
	x.set(at, x.tagged(key, s))
	x.slots++
}

// Replace puts a slot in the place of the key's old one for the same record; the
// tag becomes a full one. It returns false if the old one is not there.
func (x *Index) Replace(key uint64, old, s Slot) bool {
	at, ok := x.locate(key, old)
	if ok {
		x.set(at, x.tagged(key, s))
	}
	return ok
}

// Remove takes out the key's slot for the same record as old. It returns false
// if that is not there.
func (x *Index) Remove(key uint64, old Slot) bool {
	at, ok := x.locate(key, old)
	if ok {
		x.set(at, 0)
		x.slots--
	}
	return ok
}

// Each calls visit with every slot until it returns false. The index must not
// change meanwhile.
func (x *Index) Each(visit func(Slot) bool) {
	for _, number := range x.pages {
		for _, s := range x.pool.get(number) {
			if s != 0 && !visit(s) {
				return
			}
		}
	}
}

// Build makes the index anew, without moving anything twice. The entries are
// walked twice and must be the same both times; their order does not matter.
// The number expected is for the number of groups only.
func (x *Index) Build(expected int, entries iter.Seq2[uint64, Slot]) {
	x.Free()
	for crowded(expected, x.level) {
		x.level++
	}
	lengths := make([]uint32, 1<<x.level)
	for key := range entries {
		lengths[x.group(key)]++
		x.slots++
	}
	if x.slots == 0 {
		x.level = 0
		return
	}
	x.pages = make([]uint32, (x.slots+x.slots/15)/pageSlots+1) // a sixteenth of that is empty
	x.pool.alloc(x.pages)
	x.starts = make([]uint32, len(lengths)+1)
	before := 0
	for i, length := range lengths {
		x.starts[i] = x.spread(before)
		before += int(length)
		lengths[i] = x.starts[i] // from here on where the next one goes
	}
	x.starts[len(lengths)] = uint32(x.capacity())
	for key, s := range entries {
		next := &lengths[x.group(key)]
		x.set(int(*next), x.tagged(key, s))
		*next++
	}
}

// crowded tells whether a table of so many slots needs more groups than the level
// has.
func crowded(slots int, level uint8) bool { return slots > groupSlots<<level && level < levelMax }

// locate finds the key's slot for the same record.
func (x *Index) locate(key uint64, old Slot) (int, bool) {
	for at, end := x.region(key); at < end; at++ {
		if s := x.get(at); s != 0 && s.At() == old.At() {
			return at, true
		}
	}
	return 0, false
}

func (x *Index) tagged(key uint64, s Slot) Slot { return s&^tagMask | fullTag(key, x.level) }

func (x *Index) group(key uint64) int { return int(key >> (64 - x.level)) }

// region is where the slots of the key's group lie.
func (x *Index) region(key uint64) (start, end int) {
	if x.starts == nil {
		return 0, 0
	}
	i := x.group(key)
	return int(x.starts[i]), int(x.starts[i+1])
}

func (x *Index) capacity() int { return len(x.pages) * pageSlots }

func (x *Index) get(at int) Slot { return x.pool.get(x.pages[at/pageSlots])[at%pageSlots] }

func (x *Index) set(at int, s Slot) { x.pool.get(x.pages[at/pageSlots])[at%pageSlots] = s }

// run is the part of the slots from at to end that lies in one page.
func (x *Index) run(at, end int) []Slot {
	first := at % pageSlots
	return x.pool.get(x.pages[at/pageSlots])[first:min(pageSlots, first+end-at)]
}
