package versions

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"martlet/object-server/bundle/format"
)

// memoryModel is a chain on which each question is asked of a walk, of a memory
// that all questions share, and of one that is too small for the name.
type memoryModel struct {
	store  *chainStore
	memory *Memory
	small  *Memory
}

func newMemoryModel() *memoryModel {
	s := newChainStore()
	s.damaged = map[uint64]bool{}
	return &memoryModel{store: s, memory: NewMemory(1 << 20), small: NewMemory(8 << 10)}
}

// ask puts a question to all; they must say the same unless damage hides it from
// the walk. It returns what the walk says.
func ask[T any](t rapid.TB, m *memoryModel, question func(c *Chain) (T, error)) (T, error) {
	t.Helper()
	m.store.memory = nil
	want, wantErr := question(m.store.chain())
	for _, memory := range []*Memory{m.memory, m.small} {
		m.store.memory = memory
		got, err := question(m.store.chain())
		if errors.Is(wantErr, format.ErrQuarantined) {
			continue // what was remembered is as true as before
		}
		if fmt.Sprint(err) != fmt.Sprint(wantErr) || fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", want) {
			t.Fatalf("says %+v, %v, a walk %+v, %v", got, err, want, wantErr)
		}
	}
	return want, wantErr
}

// found is what Find says, and nothing that may differ.
func (m *memoryModel) find(t rapid.TB, id format.VersionID) {
	t.Helper()
	_, _ = ask(t, m, func(c *Chain) (format.Reference, error) { return c.Find(id) })
}

// addition is what an Addition says, with the block as it is stored.
type addition struct {
	block    []byte
	previous uint64
	versions uint32
	replaced format.Reference
}

// change continues the chain, if that is not refused.
func (m *memoryModel) change(t rapid.TB, kind format.Type, id format.VersionID, ts format.Timestamp, gap uint64) {
	t.Helper()
	var made Addition
	_, err := ask(t, m, func(c *Chain) (addition, error) {
		var a Addition
		var err error
		switch kind {
		case format.TypeTombstone:
			a, err = c.Remove(id, ts)
		case format.TypeMeta:
			var old format.Reference
			if old, err = c.Find(id); err == nil {
				a, err = c.Rewrite(old)
			}
		default:
			a, err = c.Add(id, ts)
		}
		if err == nil {
			made = a
		}
		return addition{a.block.Append(nil), a.previous, a.versions, a.Replaced()}, err
	})
	if err != nil {
		return
	}
	if kind == format.TypeMeta {
		kind, ts = format.TypePut, made.replaced.Timestamp
	}
	m.store.put(made, kind, id, ts, gap)
}

// What is remembered of a chain says what a walk through it says, after every
// change: late versions, null versions, POSTs, removals, damage, a restart.
func TestMemoryEqualsWalk(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		m := newMemoryModel()
		if kind := rapid.SampledFrom([]format.Type{0, format.TypePut, format.TypeTombstone}).Draw(rt, "first"); kind != 0 {
			m.store.plain(kind, format.Timestamp{Ticks: 35})
		}
		ids := rapid.SampledFrom([]int{12, 40, 300}).Draw(rt, "ids")
		for i := range ids - 10 {
			id, ts := numbered(i)
			m.change(rt, format.TypePut, id, ts, 0)
		}
		kinds := []format.Type{format.TypePut, format.TypePut, format.TypeDeleteMarker, format.TypeTombstone, format.TypeTombstone, format.TypeTombstone, format.TypeMeta}
		for range rapid.IntRange(0, 80).Draw(rt, "operations") {
			id, ts := numbered(rapid.IntRange(0, ids).Draw(rt, "version"))
			kind := rapid.SampledFrom(kinds).Draw(rt, "kind")
			switch rapid.IntRange(0, 19).Draw(rt, "what") {
			case 0, 1:
				id = format.VersionID{}
			case 2:
				m.memory = NewMemory(1 << 20) // as after a restart
			case 3:
				m.store.damaged[rapid.Uint64Range(1, max(m.store.head-1, 1)).Draw(rt, "damaged")] = true
			case 4:
				clear(m.store.damaged)
			case 5, 6, 7:
				m.find(rt, id)
			case 8, 9: // the newest one
				if newest, ok := m.store.chain().Newest(); ok {
					id, ts, kind = newest.ID, newest.Timestamp, format.TypeTombstone
				}
			}
			if kind == format.TypeTombstone {
				ts.Ticks += rapid.SampledFrom([]uint64{0, 0, 1, 500}).Draw(rt, "later")
			}
			if m.store.damaged[m.store.head] {
				clear(m.store.damaged)
			}
			m.change(rt, kind, id, ts, rapid.Uint64Range(0, 3).Draw(rt, "gap"))
		}
		clear(m.store.damaged)
		for i := range ids + 1 {
			id, _ := numbered(i)
			m.find(rt, id)
		}
		m.find(rt, format.VersionID{})
	})
}

// Damage that the memory meets when it reads on does not matter where a walk ends before it.
func TestMemoryMeetsDamageThatAWalkDoesNot(t *testing.T) {
	for damaged := range uint64(40) {
		m := newMemoryModel()
		for i := range 290 {
			id, ts := numbered(i)
			m.change(t, format.TypePut, id, ts, 0)
		}
		newest, _ := m.store.chain().Newest()
		later := newest.Timestamp
		later.Ticks += 500
		m.change(t, format.TypeTombstone, newest.ID, later, 0)
		m.store.damaged[damaged] = true
		id, ts := numbered(0)
		m.change(t, format.TypeDeleteMarker, id, ts, 3)
	}
}

// orders are those in which versions are removed.
func orders(n int) map[string][]int {
	oldest := make([]int, n)
	for i := range oldest {
		oldest[i] = i
	}
	newest := slices.Clone(oldest)
	slices.Reverse(newest)
	return map[string][]int{"oldest first": oldest, "newest first": newest, "random": rand.New(rand.NewPCG(1, 2)).Perm(n)}
}

// What a removal reads does not depend on what was removed, in whatever order.
func TestRemovalsCostTheSame(t *testing.T) {
	const count = 20_000
	for name, order := range orders(count) {
		t.Run(name, func(t *testing.T) {
			s := newChainStore()
			s.memory = NewMemory(8 << 20)
			for i := range count {
				id, ts := ordered(i)
				s.add(t, format.TypePut, id, ts)
			}
			first, all, most := 0, 0, 0
			for i, n := range order {
				id, _ := ordered(n)
				a, err := s.chain().Remove(id, format.Timestamp{Ticks: 1<<40 + uint64(i)})
				check(t, err)
				if i == 0 {
					first = s.reads
				} else {
					most = max(most, s.reads)
				}
				all += s.reads
				s.put(a, format.TypeTombstone, id, format.Timestamp{Ticks: 1<<40 + uint64(i)}, 0)
				id, _ = ordered(order[count-1])
				if i == count-2 {
					if newest, _ := s.chain().Newest(); newest.ID != id {
						t.Errorf("newest is %+v, want %x", newest, id)
					}
				}
			}
			t.Logf("%d reads for the first, %d at most for another, %d for all; %d bytes", first, most, all, s.memory.Bytes())
			if limit := 2*count + count/directoryStride; all > limit {
				t.Errorf("%d reads, want %d at most", all, limit)
			}
		})
	}
}

// A memory stays in its bounds, and says what a walk says when names are dropped.
func TestMemoryIsBounded(t *testing.T) {
	const limit, names, each = 64 << 10, 12, 300
	memory := NewMemory(limit)
	var stores []*chainStore
	for range names {
		s := newChainStore()
		for i := range each {
			id, ts := ordered(i)
			s.add(t, format.TypePut, id, ts)
		}
		stores = append(stores, s)
	}
	for range 3 {
		for n, s := range stores {
			c := s.chain()
			c.memory, c.key = memory, memoryKey{1, format.Hash{byte(n)}}
			id, _ := ordered(n)
			if found, err := c.Find(id); err != nil || found.LSN != uint64(n)+1 {
				t.Fatalf("%+v, %v", found, err)
			}
			if n := memory.Bytes(); n <= 0 || n > limit {
				t.Fatalf("%d bytes", n)
			}
		}
	}
	if kept := len(memory.names); kept < 2 || kept > names {
		t.Errorf("%d names are remembered", kept)
	}
	var listed int64
	for e := memory.recent.Front(); e != nil; e = e.Next() {
		listed += e.Value.(*chainMemory).size()
	}
	if listed != memory.Bytes() {
		t.Errorf("%d bytes are counted, %d taken", memory.Bytes(), listed)
	}
}
