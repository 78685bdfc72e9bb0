package index

import (
	"math/rand/v2"
	"sync"
	"testing"
)

// newTestPool returns a pool that must be empty when the test ends.
func newTestPool(t testing.TB) *Pool {
	pool := NewPool()
	t.Cleanup(func() {
		if used := pool.Bytes(); used != 0 {
			t.Errorf("%d bytes of the pool were not given back", used)
		}
		if err := pool.Close(); err != nil {
			t.Error(err)
		}
	})
	return pool
}

func TestPagesAreEmptyAndUsedAgain(t *testing.T) {
	pool := newTestPool(t)
	for range 3 {
		numbers := make([]uint32, 2*chunkPages+1)
		pool.alloc(numbers)
		if pool.Bytes() != len(numbers)*pageSize {
			t.Fatal(pool.Bytes())
		}
		seen := map[*page]bool{}
		for _, number := range numbers {
			p := pool.get(number)
			if seen[p] || *p != (page{}) {
				t.Fatalf("page %d was given before or is not empty", number)
			}
			seen[p] = true
			for i := range p {
				p[i] = ^Slot(0)
			}
		}
		pool.release(numbers)
	}
	if chunks := len(*pool.chunks.Load()); chunks != 3 {
		t.Errorf("%d chunks mapped", chunks)
	}
}

// Each index has a goroutine of its own, the pool is shared.
func TestPoolSharedByIndexes(t *testing.T) {
	pool := newTestPool(t)
	var group sync.WaitGroup
	for g := range 4 {
		group.Add(1)
		go func() {
			defer group.Done()
			for round := range 3 {
				x := New(pool)
				random := rand.New(rand.NewPCG(uint64(g), uint64(round)))
				keys := make([]uint64, 5000)
				for i := range keys {
					keys[i] = random.Uint64()
					x.Insert(keys[i], makeSlot(uint16(g), uint32(i), 8, slotLive))
				}
				for i, key := range keys {
					if !holds(x.Find(key, nil), makeSlot(uint16(g), uint32(i), 8, slotLive)) {
						t.Errorf("key %d is gone", i)
					}
				}
				x.Free()
			}
		}()
	}
	group.Wait()
}
