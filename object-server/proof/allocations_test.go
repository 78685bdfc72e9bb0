package proof

import (
	"runtime"
	"runtime/debug"
	"testing"
)

// TestBoundedCountsOnlyTheCall allocates objects of many sizes before the call.
// A collection within the call adds none of them.
func TestBoundedCountsOnlyTheCall(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	for size := 8; size <= 32<<10; size += 8 {
		kept = make([]byte, size)
	}
	before := allocated()
	runtime.GC()
	if n := allocated() - before; n > 64<<10 {
		t.Fatalf("a collection counts as %d bytes", n)
	}
}

var kept []byte
