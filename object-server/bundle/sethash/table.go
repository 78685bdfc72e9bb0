package sethash

import (
	"cmp"
	"encoding/binary"
	"slices"
)

// LevelMax is the deepest level of slices: they are told apart by at most so many
// first bits of a hash.
const LevelMax = 32

// leafNames is how many names share a leaf, about, of a table of DepthFor.
const leafNames = 128

// DayTicks is how long a day is, in ticks of 10 µs.
const DayTicks = 24 * 60 * 60 * 100_000

// StartOfDay is the latest horizon up to a time, in ticks: tombstones are counted
// by days.
func StartOfDay(ticks uint64) uint64 { return ticks / DayTicks * DayTicks }

// Element is one thing that replicas must agree on: a version that lives, or a
// tombstone of a name without versions.
type Element struct {
	Hash      [16]byte
	Signature uint64 // of the record: name, version id, all timestamps and metadata are in it
	Deleted   uint64 // of a tombstone: its time in ticks; 0: a version
}

// Table has the sums of a set by the first bits of the hashes, its depth, and those
// of tombstones by day as well. It takes about 0.5 bytes a name.
type Table struct {
	depth  uint8
	cells  map[cell]Sum
	totals map[uint32]Sum // by cell.day
}

// cell is the leaf of a prefix for a day. It has no pointers, and neither has Sum, so
// the garbage collector does not look into the map.
type cell struct {
	prefix uint32
	day    uint32 // of tombstones: days since 1970 and one; 0: versions
}

// New returns an empty table of a depth of at most LevelMax.
func New(depth uint8) *Table {
	return &Table{depth: depth, cells: make(map[cell]Sum), totals: make(map[uint32]Sum)}
}

// DepthFor is the depth of a table for about so many names, whose hashes have at
// least their first common bits in common.
func DepthFor(common uint8, names int) uint8 {
	depth := min(common, LevelMax)
	for n := names / leafNames; n > 0 && depth < LevelMax; n /= 2 {
		depth++
	}
	return depth
}

// Depth is the deepest level that the table can tell slices of.
func (t *Table) Depth() uint8 { return t.depth }

// Prefix returns the first bits of a hash.
func Prefix(hash [16]byte, level uint8) uint32 {
	return uint32(uint64(binary.BigEndian.Uint32(hash[:4])) >> (32 - level))
}

// Add puts an element into the set, which must not have it.
func (t *Table) Add(e Element) { t.change(e.cell(t.depth), Sum{e.Signature, 1}) }

// Remove takes an element out of the set, which must have it.
func (t *Table) Remove(e Element) { t.change(e.cell(t.depth), Sum{-e.Signature, ^uint64(0)}) }

func (e *Element) cell(depth uint8) cell {
	c := cell{prefix: Prefix(e.Hash, depth)}
	if e.Deleted > 0 {
		c.day = dayOf(e.Deleted)
	}
	return c
}

func dayOf(ticks uint64) uint32 { return uint32(ticks/DayTicks) + 1 }

func (t *Table) change(c cell, by Sum) {
	change(t.cells, c, by)
	change(t.totals, c.day, by)
}

// change adds to an entry of a map, and drops one that is empty.
func change[K comparable](m map[K]Sum, key K, by Sum) {
	s := m[key]
	s.add(by)
	if s == (Sum{}) {
		delete(m, key)
		return
	}
	m[key] = s
}

// Names is about how many elements the table has.
func (t *Table) Names() (n int) {
	for _, s := range t.totals {
		n += int(s.Count)
	}
	return n
}

// IsShallow tells whether the set has grown so much that a table made anew would
// be deeper by several levels.
func (t *Table) IsShallow() bool {
	return t.depth < LevelMax && t.Names() > 16*leafNames*(len(t.cells)+1)
}

// All is the digest of the whole set. Tombstones from before the horizon, which must
// be the start of a day in ticks, do not count.
func (t *Table) All(horizon uint64) (d Digest) {
	for day, s := range t.totals {
		d.count(day, horizon, s)
	}
	return d
}

// count adds the sum of a cell, unless it is from before the horizon.
func (d *Digest) count(day uint32, horizon uint64, s Sum) {
	switch {
	case day == 0:
		d.Versions.add(s)
	case day >= dayOf(horizon):
		d.Tombstones.add(s)
	}
}

// Slices returns the digests of the slices of a level that begin with a prefix of
// another, shallower one; empty ones are left out. ok is false if the level is deeper
// than the table.
func (t *Table) Slices(above uint8, prefix uint32, level uint8, horizon uint64) (found []Slice, ok bool) {
	if level > t.depth || above > level {
		return nil, false
	}
	digests := make(map[uint32]Digest)
	for c, s := range t.cells {
		if uint64(c.prefix)>>(t.depth-above) != uint64(prefix) {
			continue
		}
		at := uint32(uint64(c.prefix) >> (t.depth - level))
		d := digests[at]
		d.count(c.day, horizon, s)
		digests[at] = d
	}
	for at, d := range digests {
		if !d.IsEmpty() {
			found = append(found, Slice{at, d})
		}
	}
	slices.SortFunc(found, func(a, b Slice) int { return cmp.Compare(a.Prefix, b.Prefix) })
	return found, true
}
