package sethash

import (
	"cmp"
	"encoding/binary"
	"math"
	"slices"
)

// LevelMax is the deepest level of slices: they are told apart by at most so many
// first bits of a hash.
const LevelMax = 32

// leafNames is how many names share a leaf, about, of a table of For.
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
// of tombstones by day as well. It takes about 0.2 bytes a name, and at most 6 of those
// that it has or was made for.
type Table struct {
	depth   uint8
	isFixed bool   // the depth stays
	planned int    // how many names it was made for, about
	names   int    // how many elements there are, about
	leaves  []leaf // in the order of their cells
}

// leaf is the sum of a cell. It has no pointers: the garbage collector does not look
// at the leaves.
type leaf struct {
	cell
	Sum
}

// cell is a slice of the depth of the table, on a day.
type cell struct {
	prefix uint32
	day    uint32 // of tombstones: days since 1970 and one; 0: versions
}

// compare puts the highest prefix first. A bundle gives its elements in this order, so
// a table of them grows at its end: an insertion before many leaves moves them all.
func (c cell) compare(o cell) int {
	return cmp.Or(cmp.Compare(o.prefix, c.prefix), cmp.Compare(o.day, c.day))
}

// New returns an empty table of a depth of at most LevelMax, which stays.
func New(depth uint8) *Table { return &Table{depth: depth, isFixed: true} }

// For returns an empty table for about so many names, whose hashes have at least their
// first common bits in common. With other names it may become less deep.
func For(common uint8, names int) *Table {
	t := &Table{depth: min(common, LevelMax), planned: names}
	for n := names / leafNames; n > 0 && t.depth < LevelMax; n /= 2 {
		t.depth++
	}
	return t
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
	t.names += int(by.Count)
	i, isThere := slices.BinarySearchFunc(t.leaves, c, func(l leaf, c cell) int { return l.compare(c) })
	if !isThere {
		t.leaves = slices.Insert(t.leaves, i, leaf{c, by})
		t.coarsen()
		return
	}
	t.leaves[i].add(by)
	if t.leaves[i].Sum == (Sum{}) {
		t.leaves = slices.Delete(t.leaves, i, i+1)
	}
}

const (
	leavesFew = 64 // so many are never too many
	sparse    = 4  // names a leaf; with fewer, leaves are merged
)

// coarsen makes the table less deep while its leaves have few names each: it was made
// for few names, which had more bits in common than those that came later, or there are
// tombstones of many days. Those it was made for may be still to come. Leaves that only
// their days tell apart are never merged.
func (t *Table) coarsen() {
	most := max(leavesFew, t.names/sparse, t.planned/sparse)
	for !t.isFixed && t.depth > 0 && len(t.leaves) > most && t.leaves[0].prefix != t.leaves[len(t.leaves)-1].prefix {
		t.depth--
		for i := range t.leaves {
			t.leaves[i].prefix >>= 1
		}
		slices.SortFunc(t.leaves, func(a, b leaf) int { return a.compare(b.cell) })
		merged := t.leaves[:0]
		for _, l := range t.leaves {
			if n := len(merged); n > 0 && merged[n-1].cell == l.cell {
				merged[n-1].add(l.Sum)
			} else {
				merged = append(merged, l)
			}
		}
		t.leaves = slices.Clip(slices.DeleteFunc(merged, func(l leaf) bool { return l.Sum == Sum{} }))
	}
}

// IsShallow tells whether the set has grown so much that a table made anew would
// be deeper by several levels.
func (t *Table) IsShallow() bool {
	return t.depth < LevelMax && t.names > 16*leafNames*(len(t.leaves)+1)
}

// All is the digest of the whole set. Tombstones from before the horizon, which must
// be the start of a day in ticks, do not count.
func (t *Table) All(horizon uint64) (d Digest) {
	for i := range t.leaves {
		d.count(&t.leaves[i], horizon)
	}
	return d
}

// count adds the sum of a leaf, unless it is from before the horizon.
func (d *Digest) count(l *leaf, horizon uint64) {
	switch {
	case l.day == 0:
		d.Versions.add(l.Sum)
	case l.day >= dayOf(horizon):
		d.Tombstones.add(l.Sum)
	}
}

// Slices returns the digests of the slices of a level that begin with a prefix of
// another, shallower one; empty ones are left out. ok is false if the level is deeper
// than the table.
func (t *Table) Slices(above uint8, prefix uint32, level uint8, horizon uint64) (found []Slice, ok bool) {
	if level > t.depth || above > level {
		return nil, false
	}
	highest := cell{prefix: uint32((uint64(prefix)+1)<<(t.depth-above) - 1), day: math.MaxUint32}
	i, _ := slices.BinarySearchFunc(t.leaves, highest, func(l leaf, c cell) int { return l.compare(c) })
	for _, l := range t.leaves[i:] {
		if uint64(l.prefix)>>(t.depth-above) != uint64(prefix) {
			break
		}
		at := uint32(uint64(l.prefix) >> (t.depth - level))
		if n := len(found); n == 0 || found[n-1].Prefix != at {
			found = append(found, Slice{Prefix: at})
		}
		found[len(found)-1].Digest.count(&l, horizon)
	}
	slices.Reverse(found)
	return slices.DeleteFunc(found, func(s Slice) bool { return s.Digest.IsEmpty() }), true
}
