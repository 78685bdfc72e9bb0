package sethash

import (
	"encoding/binary"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

const horizon = 20_000 * DayTicks

// drawElement draws from few hashes and days, so that many elements share a cell.
var drawElement = rapid.Custom(func(t *rapid.T) Element {
	e := Element{Signature: rapid.Uint64().Draw(t, "signature")}
	e.Hash[0], e.Hash[1] = rapid.Byte().Draw(t, "hash 0"), rapid.Byte().Draw(t, "hash 1")&0xf0
	if rapid.Bool().Draw(t, "is tombstone") {
		e.Deleted = horizon + rapid.Uint64Range(0, 5*DayTicks).Draw(t, "time") - 2*DayTicks
	}
	return e
})

// model computes a digest from all elements.
func model(elements []Element, level uint8, prefix uint32, horizon uint64) (d Digest) {
	for _, e := range elements {
		switch {
		case Prefix(e.Hash, level) != prefix:
		case e.Deleted == 0:
			d.Versions.add(Sum{e.Signature, 1})
		case e.Deleted >= horizon:
			d.Tombstones.add(Sum{e.Signature, 1})
		}
	}
	return d
}

// A table says of every slice what all elements of it say, in whatever order they
// came, and whatever came and went between them.
func TestTableIsTheSetOfItsElements(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		table := New(rapid.Uint8Range(0, LevelMax).Draw(t, "depth"))
		elements := rapid.SliceOfN(drawElement, 0, 40).Draw(t, "elements")
		gone := rapid.SliceOfN(drawElement, 0, 10).Draw(t, "gone")
		type step struct {
			Element
			isRemoval bool
		}
		var steps []step
		for _, e := range slices.Concat(elements, gone) {
			steps = append(steps, step{e, false})
		}
		for _, e := range gone {
			steps = append(steps, step{e, true})
		}
		for _, s := range rapid.Permutation(steps).Draw(t, "order") {
			if s.isRemoval {
				table.Remove(s.Element)
			} else {
				table.Add(s.Element)
			}
		}
		if got, want := table.All(horizon), model(elements, 0, 0, horizon); got != want {
			t.Fatalf("all: %v, want %v", got, want)
		}
		above := rapid.Uint8Range(0, table.Depth()).Draw(t, "above")
		level := rapid.Uint8Range(above, table.Depth()).Draw(t, "level")
		prefix := Prefix(drawElement.Draw(t, "prefix").Hash, above)
		if len(elements) > 0 {
			prefix = Prefix(elements[0].Hash, above)
		}
		checkSlices(t, table, elements, above, prefix, level)
		if len(elements) == 0 && len(table.leaves) > 0 {
			t.Fatal("something is left of what was removed")
		}
	})
}

func checkSlices(t *rapid.T, table *Table, elements []Element, above uint8, prefix uint32, level uint8) {
	got, ok := table.Slices(above, prefix, level, horizon)
	if !ok {
		t.Fatalf("no slices of level %d in a table of depth %d", level, table.Depth())
	}
	var all Digest
	for i, s := range got {
		if want := model(elements, level, s.Prefix, horizon); s.Digest != want || s.Digest.IsEmpty() {
			t.Fatalf("slice %#x of level %d: %v, want %v", s.Prefix, level, s.Digest, want)
		}
		if i > 0 && s.Prefix <= got[i-1].Prefix {
			t.Fatal("slices are not in order")
		}
		all.Add(s.Digest)
	}
	if want := model(elements, above, prefix, horizon); all != want {
		t.Fatalf("slices of %#x make %v together, want %v", prefix, all, want)
	}
}

// A difference of one element shows in its slice, and in no other.
func TestDifferenceIsInItsSlice(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := New(8), New(8)
		for _, e := range rapid.SliceOf(drawElement).Draw(t, "elements") {
			a.Add(e)
			b.Add(e)
		}
		odd := drawElement.Draw(t, "odd")
		odd.Deleted = 0
		a.Add(odd)
		left, _ := a.Slices(0, 0, a.Depth(), horizon)
		right, _ := b.Slices(0, 0, b.Depth(), horizon)
		at := Prefix(odd.Hash, a.Depth())
		isOdd := func(s Slice) bool { return s.Prefix == at }
		if slices.Equal(left, right) || a.All(horizon) == b.All(horizon) {
			t.Fatal("the difference does not show")
		}
		if !slices.Equal(slices.DeleteFunc(left, isOdd), slices.DeleteFunc(right, isOdd)) {
			t.Fatal("another slice differs as well")
		}
	})
}

func TestLevels(t *testing.T) {
	hash := [16]byte{0xab, 0xcd, 0xef, 0x01, 0xff}
	for level, want := range map[uint8]uint32{0: 0, 4: 0xa, 12: 0xabc, 32: 0xabcdef01} {
		if got := Prefix(hash, level); got != want {
			t.Errorf("level %d: %#x, want %#x", level, got, want)
		}
	}
	for _, c := range []struct {
		common uint8
		names  int
		want   uint8
	}{{0, 0, 0}, {10, 127, 10}, {10, 128, 11}, {10, 1 << 20, 24}, {30, 1 << 20, 32}, {128, 0, 32}} {
		if got := For(c.common, c.names).Depth(); got != c.want {
			t.Errorf("%d names with %d common bits: depth %d, want %d", c.names, c.common, got, c.want)
		}
	}
	table := New(32)
	table.Add(Element{Hash: hash, Signature: 1})
	if got, ok := table.Slices(32, 0xabcdef01, 32, 0); !ok || len(got) != 1 || got[0].Prefix != 0xabcdef01 {
		t.Error(got, ok)
	}
	if _, ok := New(3).Slices(0, 0, 4, 0); ok {
		t.Error("slices below the leaves")
	}
}

// A table that was made for one name, and gets many, has no leaf for each; it is still
// the set of its elements.
func TestTableOfOneNameStaysSmall(t *testing.T) {
	table := For(LevelMax, 1)
	var elements []Element
	for i := range uint64(100_000) {
		e := Element{Signature: i * 0x9e3779b97f4a7c15}
		binary.BigEndian.PutUint64(e.Hash[:], i*0xbf58476d1ce4e5b9)
		if i%5 == 0 {
			e.Deleted = horizon + i%3*DayTicks
		}
		elements = append(elements, e)
		table.Add(e)
	}
	if got, most := len(table.leaves), len(elements)/sparse; got > most || table.Depth() == 0 {
		t.Errorf("%d leaves of depth %d for %d names", got, table.Depth(), len(elements))
	}
	for prefix := range uint32(16) {
		got, ok := table.Slices(4, prefix, 4, horizon)
		if want := model(elements, 4, prefix, horizon); !ok || len(got) != 1 || got[0].Digest != want {
			t.Errorf("slice %d: %v, %v; want %v", prefix, got, ok, want)
		}
	}
}

// A table that has become too shallow says so, one that was made for its names does not.
func TestIsShallow(t *testing.T) {
	fill := func(table *Table) *Table {
		for i := range 1 << 13 {
			table.Add(Element{Hash: [16]byte{byte(i), byte(i >> 8)}, Signature: uint64(i)})
		}
		return table
	}
	if !fill(New(0)).IsShallow() || fill(For(0, 1<<13)).IsShallow() {
		t.Error("the depth of a table does not tell whether it is shallow")
	}
}

// deleted are tombstones of so many days, as a bundle gives them: the highest hash first.
func deleted(names, days int) []Element {
	all := make([]Element, names)
	for i := range all {
		n := uint64(names - i)
		all[i] = Element{Signature: n * 0x9e3779b97f4a7c15, Deleted: horizon + n*0xbf58476d1ce4e5b9%uint64(days)*DayTicks}
		binary.BigEndian.PutUint64(all[i].Hash[:], n*(1<<63/uint64(names+1))*2)
	}
	return all
}

// However many days the tombstones are from, a table of many names tells slices of them,
// and is not made anew for nothing.
func TestTombstonesOfManyDays(t *testing.T) {
	const names = 1 << 18
	for _, days := range []int{1, 30, 100, 1000} {
		table := For(0, names)
		elements := deleted(names, days)
		for _, e := range elements {
			table.Add(e)
		}
		if got, most := len(table.leaves), names/sparse; table.Depth() < 5 || got > most || table.IsShallow() {
			t.Errorf("%d days: %d leaves of depth %d for %d names, shallow: %v", days, got, table.Depth(), names, table.IsShallow())
		}
		for prefix := range uint32(4) {
			got, ok := table.Slices(2, prefix, 2, horizon)
			if want := model(elements, 2, prefix, horizon); !ok || len(got) != 1 || got[0].Digest != want {
				t.Errorf("%d days, slice %d: %v, %v; want %v", days, prefix, got, ok, want)
			}
		}
	}
}

// BenchmarkTable is what opening a bundle takes to make its table.
func BenchmarkTable(b *testing.B) {
	for _, days := range []int{1, 30} {
		b.Run(fmt.Sprint(days, " days"), func(b *testing.B) {
			elements := deleted(400_000, days)
			for b.Loop() {
				table := For(0, len(elements))
				for _, e := range elements {
					table.Add(e)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(elements)), "ns/name")
		})
	}
}
