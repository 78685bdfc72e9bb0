package proof

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
)

// checkTime is how long the search for an order of one history may take.
const checkTime = time.Minute

// ByName parts a history by the names of the objects that its requests are about: they have nothing to do with each other.
func ByName(nameOf func(request any) string) func([]porcupine.Operation) [][]porcupine.Operation {
	return func(all []porcupine.Operation) (parts [][]porcupine.Operation) {
		places := map[string]int{}
		for _, o := range all {
			name := nameOf(o.Input)
			if _, ok := places[name]; !ok {
				places[name] = len(parts)
				parts = append(parts, nil)
			}
			parts[places[name]] = append(parts[places[name]], o)
		}
		return parts
	}
}

// Clients send requests at once, so many each, and note when each was sent and answered. Draw chooses a request, send
// sends it; each client has numbers of its own to draw by. The history is of use only if there is no error.
func Clients[Q, A any](
	seed uint64, count, each int, draw func(*rand.Rand) Q, send func(*rand.Rand, Q) (A, error),
) ([]porcupine.Operation, error) {
	var group sync.WaitGroup
	start := time.Now()
	histories, errs := make([][]porcupine.Operation, count), make([]error, count)
	for c := range count {
		group.Add(1)
		go func() {
			defer group.Done()
			rng := rand.New(rand.NewPCG(seed, uint64(c)))
			for range each {
				request := draw(rng)
				called := time.Since(start)
				answer, err := send(rng, request)
				if err != nil {
					errs[c] = fmt.Errorf("%+v: %w", request, err)
					return
				}
				histories[c] = append(histories[c], porcupine.Operation{
					ClientId: c, Input: request, Call: int64(called), Output: answer, Return: int64(time.Since(start)),
				})
			}
		}()
	}
	group.Wait()
	return slices.Concat(histories...), errors.Join(errs...)
}

// Linearizable checks that the answers of each history can be put in an order in which each request happened at one moment
// between its start and its end. It runs the first samples of seeds, and goes on for MARTLET_LINEAR_SECONDS. A history
// without such an order is drawn.
func Linearizable(
	t testing.TB, model porcupine.Model, samples uint64, run func(seed uint64) ([]porcupine.Operation, error),
) {
	t.Helper()
	seconds, err := strconv.Atoi(cmp.Or(os.Getenv("MARTLET_LINEAR_SECONDS"), "0"))
	if err != nil {
		t.Fatalf("MARTLET_LINEAR_SECONDS: %v", err)
	}
	requests := 0
	for seed, start := uint64(0), time.Now(); seed < samples || time.Since(start) < time.Duration(seconds)*time.Second; seed++ {
		all, err := run(seed)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if result := porcupine.CheckOperationsTimeout(model, all, checkTime); result != porcupine.Ok {
			t.Fatalf("seed %d: %s; %s", seed, result, drawing(t.Name(), seed, model, all))
		}
		requests += len(all)
	}
	t.Logf("%d requests", requests)
}

// drawing draws a history and says where.
func drawing(test string, seed uint64, model porcupine.Model, all []porcupine.Operation) string {
	_, info := porcupine.CheckOperationsVerbose(model, all, checkTime)
	name := fmt.Sprintf("martlet-%s-%d.html", strings.ReplaceAll(test, "/", "-"), seed)
	path := filepath.Join(os.TempDir(), name)
	if err := porcupine.VisualizePath(model, info, path); err != nil {
		return "not drawn: " + err.Error()
	}
	return "drawn in " + path
}
