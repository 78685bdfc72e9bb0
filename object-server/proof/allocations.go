package proof

import (
	"runtime"
	"testing"
)

// slack is what a call may allocate whatever it is given, and factor how many
// bytes for each byte of input.
const (
	slack  = 1 << 20
	factor = 64
)

// Bounded calls f, which decodes size bytes of input, and fails if it allocates
// out of proportion: a length in the input was believed before it was checked.
// Small allocations of others at the same time are within the slack.
func Bounded(t testing.TB, size int, f func()) {
	t.Helper()
	before := allocated()
	f()
	if n := allocated() - before; n > slack+factor*uint64(size) {
		t.Fatalf("%d bytes of input made it allocate %d", size, n)
	}
}

// allocated returns the bytes that the process has allocated so far. It stops the
// world for 12 µs. Sample /gc/heap/allocs:bytes of runtime/metrics does not, but a
// collection adds up to a megabyte to it that was allocated before.
func allocated() uint64 {
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.TotalAlloc
}
