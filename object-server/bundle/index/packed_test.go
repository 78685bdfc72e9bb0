package index

import (
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// holds tells whether a slot is among those found, whatever its tag.
func holds(found []Slot, s Slot) bool {
	return slices.ContainsFunc(found, func(f Slot) bool { return f&^tagMask == s&^tagMask })
}

// checkPacked fails unless the slots of the table lie in the regions of their
// groups and are as many as it says.
func checkPacked(t rapid.TB, x *Index, keys map[uint64]uint64) {
	t.Helper()
	if x.starts == nil {
		if x.slots != 0 || len(x.pages) != 0 {
			t.Fatalf("%d slots in %d pages without groups", x.slots, len(x.pages))
		}
		return
	}
	if len(x.starts) != 1<<x.level+1 || x.starts[0] != 0 || x.starts[1<<x.level] != uint32(x.capacity()) || !slices.IsSorted(x.starts) {
		t.Fatalf("level %d, capacity %d: starts %v", x.level, x.capacity(), x.starts)
	}
	slots := 0
	for i := range len(x.starts) - 1 {
		for at := x.starts[i]; at < x.starts[i+1]; at++ {
			s := x.get(int(at))
			if s == 0 {
				continue
			}
			slots++
			if key := keys[s.At()]; x.group(key) != i || !s.matches(fullTag(key, x.level)) {
				t.Fatalf("slot %x of key %x lies in group %d of %d", s, key, i, len(x.starts)-1)
			}
		}
	}
	if slots != x.slots || slots != x.Len() {
		t.Fatalf("%d slots, said to be %d", slots, x.Len())
	}
}

// packedModel is the table next to what it ought to hold.
type packedModel struct {
	x     Index
	slots map[uint64][]Slot // by key, without tags
	keys  map[uint64]uint64 // by place
	made  uint32            // number of slots ever made, so that places differ
}

func (m *packedModel) next(state uint8) Slot {
	m.made++
	return makeSlot(uint16(m.made%SegmentsMax), m.made/SegmentsMax, m.made%100+1, state)
}

func (m *packedModel) insert(key uint64) {
	s := m.next(slotLive)
	m.x.Insert(key, s)
	m.slots[key] = append(m.slots[key], s)
	m.keys[s.At()] = key
}

func (m *packedModel) check(t *rapid.T) {
	checkPacked(t, &m.x, m.keys)
	want, got := []Slot{}, []Slot{}
	for key, slots := range m.slots {
		found := m.x.Find(key, nil)
		for _, s := range slots {
			if !holds(found, s) {
				t.Fatalf("%x of key %x is not among %x", s, key, found)
			}
			want = append(want, s)
		}
	}
	m.x.Each(func(s Slot) bool {
		got = append(got, s&^tagMask)
		return true
	})
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(want, got) {
		t.Fatalf("%d slots, want %d: %x, want %x", len(got), len(want), got, want)
	}
}

// drawKey draws keys that clash: in the group, in the tag, altogether.
func drawKey(t *rapid.T) uint64 {
	high := rapid.Uint64Range(0, 7).Draw(t, "high")
	return high<<61 | rapid.Uint64Range(0, 3).Draw(t, "middle")<<40 | rapid.Uint64Range(0, 1).Draw(t, "low")
}

// one draws a key and one of its slots, and -1 if it has none.
func (m *packedModel) one(t *rapid.T) (key uint64, which int) {
	key = drawKey(t)
	if len(m.slots[key]) == 0 {
		return key, -1
	}
	return key, rapid.IntRange(0, len(m.slots[key])-1).Draw(t, "which")
}

func (m *packedModel) replace(t *rapid.T) {
	key, i := m.one(t)
	s := m.next(slotTombstone)
	if i < 0 {
		if m.x.Replace(key, s, s) {
			t.Fatalf("replaced nothing of key %x", key)
		}
		return
	}
	if !m.x.Replace(key, m.slots[key][i], s) {
		t.Fatalf("%x of key %x was not there", m.slots[key][i], key)
	}
	m.slots[key][i] = s
	m.keys[s.At()] = key
	if found := m.x.Find(key, nil); !slices.Contains(found, s|fullTag(key, m.x.level)) {
		t.Fatalf("%x has not the full tag of %x among %x", s, key, found)
	}
}

func (m *packedModel) remove(t *rapid.T) {
	key, i := m.one(t)
	if i < 0 {
		if m.x.Remove(key, m.next(slotLive)) {
			t.Fatalf("removed nothing of key %x", key)
		}
		return
	}
	if !m.x.Remove(key, m.slots[key][i]) {
		t.Fatalf("%x of key %x was not there", m.slots[key][i], key)
	}
	m.slots[key] = slices.Delete(m.slots[key], i, i+1)
}

func (m *packedModel) removeAll(t *rapid.T) {
	key := drawKey(t)
	for _, s := range m.slots[key] {
		if !m.x.Remove(key, s) {
			t.Fatalf("%x of key %x was not there", s, key)
		}
	}
	delete(m.slots, key)
}

func (m *packedModel) rebuild(t *rapid.T) {
	expected := rapid.IntRange(0, 2*m.x.Len()).Draw(t, "expected")
	m.x.Build(expected, func(yield func(uint64, Slot) bool) {
		for key, slots := range m.slots {
			for _, s := range slots {
				if !yield(key, s) {
					return
				}
			}
		}
	})
}

func TestPackedIndexIsItsModel(t *testing.T) {
	pool := newTestPool(t)
	rapid.Check(t, func(t *rapid.T) {
		m := packedModel{x: New(pool), slots: map[uint64][]Slot{}, keys: map[uint64]uint64{}}
		defer m.x.Free()
		t.Repeat(map[string]func(*rapid.T){
			"": m.check,
			"insert": func(t *rapid.T) {
				key := drawKey(t)
				for range rapid.IntRange(1, 90).Draw(t, "times") {
					m.insert(key)
				}
			},
			"insertMany": func(t *rapid.T) {
				random := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
				for range rapid.IntRange(1, 300).Draw(t, "number") {
					m.insert(random.Uint64())
				}
			},
			"replace":   m.replace,
			"remove":    m.remove,
			"removeAll": m.removeAll,
			"rebuild":   m.rebuild,
		})
	})
}

// randomEntries gives the same n entries each time; the key of entry i is
// randomKey(i).
func randomEntries(n int) iter.Seq2[uint64, Slot] {
	return func(yield func(uint64, Slot) bool) {
		for i := range n {
			if !yield(randomKey(i), entrySlot(i)) {
				return
			}
		}
	}
}

func entrySlot(i int) Slot {
	return makeSlot(uint16(i%SegmentsMax), uint32(i/SegmentsMax), 20, slotLive)
}

// randomKey is the finalizer of splitmix64, which is a bijection.
func randomKey(i int) uint64 {
	z := uint64(i+1) * 0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// All keys in one group, and the rest of the table crowded: gaps are far away.
func TestPackedIndexCrowdedGroup(t *testing.T) {
	x := New(newTestPool(t))
	defer x.Free()
	keys := map[uint64]uint64{}
	for i := range 15000 {
		key := randomKey(i)
		if i >= 12000 {
			key = 42<<50 | uint64(i%3) // in the tag they do not differ
		}
		x.Insert(key, entrySlot(i))
		keys[entrySlot(i).At()] = key
	}
	checkPacked(t, &x, keys)
	if found := x.Find(42<<50, nil); len(found) != 3000 {
		t.Errorf("%d found", len(found))
	}
	visits := 0
	x.Each(func(Slot) bool {
		visits++
		return visits < 7
	})
	if visits != 7 {
		t.Errorf("%d visits after the one that was to be the last", visits-7)
	}
}

// Slots made in the first group are found down to the last level, where they have
// no bit of a tag left, and groups double no further.
func TestPackedIndexLastLevel(t *testing.T) {
	x := New(newTestPool(t))
	defer x.Free()
	keys := map[uint64]uint64{}
	add := func(from, to int) {
		for i := from; i < to; i++ {
			x.Insert(randomKey(i), entrySlot(i))
			keys[entrySlot(i).At()] = randomKey(i)
		}
	}
	add(0, 40)
	for x.level < levelMax {
		x.double()
		if x.level%8 == 0 {
			checkPacked(t, &x, keys)
		}
	}
	if !crowded(1<<40, levelMax-1) || crowded(1<<40, levelMax) {
		t.Error("the last level is not the last")
	}
	add(40, 300)
	checkPacked(t, &x, keys)
	if old := x.Find(randomKey(0), nil)[0]; old&tagMask != 1 {
		t.Errorf("tag %x left of the first slot", old&tagMask)
	}
	if !x.Replace(randomKey(0), entrySlot(0), entrySlot(0)) || x.Find(randomKey(0), nil)[0]&tagMask != fullTag(randomKey(0), levelMax) {
		t.Error("the tag is not renewed")
	}
}

func TestPackedIndexBytes(t *testing.T) {
	pool := newTestPool(t)
	x := New(pool)
	defer x.Free()
	if x.bytes() > 100 || pool.Bytes() != 0 {
		t.Errorf("empty: %d bytes", x.bytes())
	}
	worst := map[int]float64{}
	for i := range 1_000_000 {
		x.Insert(randomKey(i), entrySlot(i))
		n, bytes := i+1, x.bytes()
		each := float64(bytes) / float64(n)
		limit := 0.0
		switch {
		case n <= 20:
			if bytes > pageSize+120 || pool.Bytes() != pageSize {
				t.Fatalf("%d objects: %d bytes", n, bytes)
			}
		case n >= 1_000_000:
			limit = 9.4
			worst[1_000_000] = each
		case n >= 5000:
			limit = 9.6
			worst[5000] = max(worst[5000], each)
		case n >= 500:
			limit = 10
			worst[500] = max(worst[500], each)
		}
		if limit > 0 && each > limit {
			t.Fatalf("%d objects: %.2f bytes each", n, each)
		}
	}
	t.Logf("worst from 500: %.2f, from 5000: %.2f, at 1000000: %.2f bytes an object", worst[500], worst[5000], worst[1_000_000])
	for _, n := range []int{500, 1000, 5000, 100_000} {
		built := New(pool)
		built.Build(n, randomEntries(n))
		if each := float64(built.bytes()) / float64(n); each > 10 {
			t.Errorf("%d objects built: %.2f bytes each", n, each)
		}
		built.Free()
	}
}

func TestPackedIndexFalseCandidates(t *testing.T) {
	x := New(newTestPool(t))
	defer x.Free()
	const n, misses = 10_000, 1_000_000
	for i := range n {
		x.Insert(randomKey(i), entrySlot(i))
	}
	false_, buf := 0, []Slot(nil)
	for i := n; i < n+misses; i++ {
		buf = x.Find(randomKey(i), buf[:0])
		false_ += len(buf)
	}
	rate := float64(false_) / misses
	t.Logf("%.2g false candidates for an absent key", rate)
	if rate >= 1e-3 || rate == 0 {
		t.Errorf("%d false candidates for %d absent keys", false_, misses)
	}
}

func BenchmarkPackedInsert(b *testing.B) {
	for _, n := range []int{500, 10_000, 1_000_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			pool := newTestPool(b)
			x := New(pool)
			var longest time.Duration
			i := 0
			for b.Loop() {
				if i == n {
					x.Free()
					i = 0
				}
				began := time.Now()
				x.Insert(randomKey(i), entrySlot(i))
				longest = max(longest, time.Since(began))
				i++
			}
			b.ReportMetric(float64(longest.Microseconds())/1000, "ms/longest")
			x.Free()
		})
	}
}

// What the slowest inserts into a table of a million wait for.
func BenchmarkPackedGrow(b *testing.B) {
	benchmarkPackedRoom(b, func(x *Index) { x.grow(1) })
}

func BenchmarkPackedDouble(b *testing.B) { benchmarkPackedRoom(b, (*Index).double) }

func benchmarkPackedRoom(b *testing.B, make func(*Index)) {
	const n = 1_000_000
	x := New(newTestPool(b))
	for b.Loop() {
		b.StopTimer()
		x.Build(n, randomEntries(n))
		b.StartTimer()
		make(&x)
	}
	x.Free()
}

func BenchmarkPackedBuild(b *testing.B) {
	const n = 1_000_000
	x := New(newTestPool(b))
	for b.Loop() {
		x.Build(n, randomEntries(n))
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/object")
	x.Free()
}

// benchmarkPackedFind looks up keys from first on in tables of several sizes.
func benchmarkPackedFind(b *testing.B, key func(i, n int) uint64) {
	for _, n := range []int{500, 10_000, 1_000_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			x := New(newTestPool(b))
			for i := range n {
				x.Insert(randomKey(i), entrySlot(i))
			}
			buf, i := make([]Slot, 0, 16), 0
			for b.Loop() {
				buf = x.Find(key(i, n), buf[:0])
				i++
			}
			b.ReportMetric(float64(x.bytes())/float64(n), "B/object")
			x.Free()
		})
	}
}

func BenchmarkPackedFind(b *testing.B) {
	benchmarkPackedFind(b, func(i, n int) uint64 { return randomKey(i * 7919 % n) })
}

func BenchmarkPackedMiss(b *testing.B) {
	benchmarkPackedFind(b, func(i, n int) uint64 { return randomKey(i + n) })
}
