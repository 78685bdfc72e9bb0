package index

import (
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"martlet/object-server/bundle/format"
)

// randomRun makes a sorted run of names of one partition. Some names have several
// entries if there are to be rewrites.
func randomRun(seed uint64, names int, isRewritten bool) []format.Entry {
	random := rand.New(rand.NewPCG(seed, 1))
	var run []format.Entry
	for range names {
		var h format.Hash
		binary.BigEndian.PutUint64(h[:], 0x2a5<<54|random.Uint64()>>10)
		binary.BigEndian.PutUint64(h[8:], random.Uint64())
		records := 1
		if isRewritten && random.IntN(20) == 0 {
			records = []int{2, 5, 20, 1000}[random.IntN(40)/13]
		}
		for range records {
			run = append(run, format.Entry{Hash: h, LSN: uint64(len(run) + 1)})
		}
	}
	format.SortRun(run)
	return run
}

// A filter finds each entry that is its name's newest, keeps the states of all
// apart, and finds hardly anything else.
func TestFilter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		names := rapid.SampledFrom([]int{0, 1, 2, 50, 300, 3000}).Draw(t, "names")
		seed := rapid.Uint64().Draw(t, "seed")
		run := randomRun(seed, names, true)
		pool := NewPool()
		defer pool.Close()
		f := NewFilter(pool, run)
		states := make([]uint8, len(run))
		random := rand.New(rand.NewPCG(seed, 2))
		for range 2 * len(run) {
			i, state := random.IntN(len(run)), uint8(random.IntN(3))
			f.SetState(uint32(i), state)
			states[i] = state
		}
		newest := 0
		for i := range run {
			if got := f.State(uint32(i)); got != states[i] {
				t.Fatalf("entry %d of %d: state %d, want %d", i, len(run), got, states[i])
			}
			isFound := slices.Contains(f.Find(nil, run[i].Hash), uint32(i))
			if isNewest := states[i] == Newest; isFound != isNewest {
				t.Fatalf("entry %d of %d in state %d: found %v", i, len(run), states[i], isFound)
			}
			if states[i] == Newest {
				newest++
			}
		}
		if f.Names != newest {
			t.Fatalf("%d newest, want %d", f.Names, newest)
		}
		f.Free()
		if pool.Bytes() != 0 {
			t.Fatal(pool.Bytes(), "bytes are left")
		}
	})
}

// The figures of the type's documentation.
func TestFilterCost(t *testing.T) {
	pool := NewPool()
	defer pool.Close()
	run := randomRun(1, 100_000, false)
	f := NewFilter(pool, run)
	for i := range run {
		f.SetState(uint32(i), Newest)
	}
	if each := float64(pool.Bytes()) / float64(len(run)); each > 1.9 {
		t.Errorf("%.2f bytes an entry", each)
	}
	const look = 20_000
	matched := 0
	for _, e := range randomRun(2, look, false) {
		matched += len(f.Find(nil, e.Hash))
	}
	if share := float64(matched) / look; share > 0.005 {
		t.Errorf("%.4f candidates of an absent name", share)
	} else {
		t.Logf("%.4f candidates of an absent name, %.2f bytes an entry", share, float64(pool.Bytes())/float64(len(run)))
	}
}

func TestEntryProvesItself(t *testing.T) {
	e := format.Entry{Hash: format.Hash{1, 2, 3}, LSN: 77, Unit: 9, Units: 8, Type: format.TypePut, Flags: 1}
	b := format.AppendRun(nil, 70, []format.Entry{e})
	if got, err := format.ParseEntry(b, 70); err != nil || got != e {
		t.Fatal(got, err)
	}
	for i := range 8 * len(b) {
		b[i/8] ^= 1 << (i % 8)
		if got, err := format.ParseEntry(b, 70); !format.IsDamage(err) {
			t.Errorf("bit %d turned: %v, %v", i, got, err)
		}
		b[i/8] ^= 1 << (i % 8)
	}
}
