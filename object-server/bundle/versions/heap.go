package versions

import (
	"encoding/binary"
	"math/bits"

	"martlet/object-server/bundle/format"
)

// The live versions of a chainMemory are a heap of places, which the versions
// know in turn: so a version that is removed is taken out wherever it lies.

// spread makes of an id what a table is searched with.
func spread(id format.VersionID) uint32 {
	le := binary.LittleEndian
	high, low := bits.Mul64(le.Uint64(id[:])^0x9e3779b97f4a7c15, le.Uint64(id[8:])^0xf1de83e19937733d)
	x := (high ^ low) * 0xbf58476d1ce4e5b9
	return uint32(x >> 32)
}

// isNewer tells whether the version at place a of the heap is newer than that at b.
func (m *chainMemory) isNewer(a, b int32) bool {
	v, u := &m.known[m.live[a]], &m.known[m.live[b]]
	return (&format.Version{ID: v.id, Timestamp: v.timestamp}).Compare(u.timestamp, u.id) > 0
}

func (m *chainMemory) swap(a, b int32) {
	m.live[a], m.live[b] = m.live[b], m.live[a]
	m.known[m.live[a]].place, m.known[m.live[b]].place = a, b
}

func (m *chainMemory) up(at int32) {
	m.known[m.live[at]].place = at
	for at > 0 && m.isNewer(at, (at-1)/2) {
		m.swap(at, (at-1)/2)
		at = (at - 1) / 2
	}
}

func (m *chainMemory) down(at int32) {
	for n := int32(len(m.live)); ; {
		child := 2*at + 1
		if child+1 < n && m.isNewer(child+1, child) {
			child++
		}
		if child >= n || !m.isNewer(child, at) {
			return
		}
		m.swap(at, child)
		at = child
	}
}

// bury takes a version out of the heap.
func (m *chainMemory) bury(at int32) {
	last := int32(len(m.live) - 1)
	m.swap(at, last)
	m.known[m.live[last]].place = -1
	m.live = m.live[:last]
	if at < last {
		m.up(at)
		m.down(at)
	}
}

// best finds the newest version that is not hidden; it looks at no more than the
// hidden ones that are newer, and their neighbours.
func (m *chainMemory) best(hidden func(format.VersionID) bool) (i uint32, ok bool) {
	if len(m.live) == 0 {
		return 0, false
	}
	front := []int32{0} // itself a heap
	for len(front) > 0 {
		at := front[0]
		if i := m.live[at]; !hidden(m.known[i].id) {
			return i, true
		}
		last := len(front) - 1
		front[0] = front[last]
		front = front[:last]
		m.sink(front)
		for child := 2*at + 1; child <= 2*at+2 && int(child) < len(m.live); child++ {
			front = m.rise(append(front, child))
		}
	}
	return 0, false
}

// sink restores the heap of places after its first was replaced.
func (m *chainMemory) sink(front []int32) {
	for at := 0; ; {
		child := 2*at + 1
		if child+1 < len(front) && m.isNewer(front[child+1], front[child]) {
			child++
		}
		if child >= len(front) || !m.isNewer(front[child], front[at]) {
			return
		}
		front[at], front[child] = front[child], front[at]
		at = child
	}
}

// rise restores the heap of places after one was appended.
func (m *chainMemory) rise(front []int32) []int32 {
	for at := len(front) - 1; at > 0 && m.isNewer(front[at], front[(at-1)/2]); at = (at - 1) / 2 {
		front[at], front[(at-1)/2] = front[(at-1)/2], front[at]
	}
	return front
}
