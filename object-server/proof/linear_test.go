package proof

import (
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/anishathalye/porcupine"
)

// tick is a request for the next number of a counter.
type tick struct{ counter string }

var counters = porcupine.Model{
	Partition: ByName(func(request any) string { return request.(tick).counter }),
	Init:      func() any { return int64(0) },
	Step: func(state, _, output any) (bool, any) {
		return output == state.(int64)+1, state.(int64) + 1
	},
}

// ticks has clients count with two counters; the numbers are those of one counter for each name only if isApart.
func ticks(seed uint64, isApart bool) ([]porcupine.Operation, error) {
	var values [2]atomic.Int64
	names := []string{"a", "b"}
	return Clients(seed, 4, 10, func(rng *rand.Rand) tick {
		return tick{names[rng.IntN(2)]}
	}, func(_ *rand.Rand, request tick) (int64, error) {
		if isApart {
			return values[slices.Index(names, request.counter)].Add(1), nil
		}
		return values[0].Add(1), nil
	})
}

func TestLinearizable(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	for _, isApart := range []bool{true, false} {
		f, runs := &failing{TB: t}, 0
		Linearizable(f, counters, 3, func(seed uint64) ([]porcupine.Operation, error) {
			all, err := ticks(seed, isApart)
			if len(all) != 40 {
				t.Errorf("%d of 40 requests are in the history", len(all))
			}
			runs++
			return all, err
		})
		if f.failed == isApart || runs != 3 {
			t.Errorf("%d runs, failed is %v", runs, f.failed)
		}
	}
	drawn, err := os.ReadDir(os.TempDir())
	Check(t, err)
	if len(drawn) != 3 || !strings.HasPrefix(drawn[0].Name(), "martlet-TestLinearizable-") {
		t.Errorf("drawn: %v", drawn)
	}
}

func TestClientsSayWhatFailed(t *testing.T) {
	_, err := Clients(1, 2, 3, func(*rand.Rand) string { return "a request" }, func(*rand.Rand, string) (int, error) {
		return 0, os.ErrInvalid
	})
	if err == nil || err.Error() != "a request: invalid argument\na request: invalid argument" {
		t.Error(err)
	}
}
