package proof

import (
	"os"
	"path/filepath"
	"testing"
)

// failing is a test that notes its failure and goes on.
type failing struct {
	testing.TB
	failed bool
}

func (f *failing) Helper()               {}
func (f *failing) Fatalf(string, ...any) { f.failed = true }

var sink []byte

func TestBounded(t *testing.T) {
	for size, tooMuch := range map[int]bool{100: false, 512 << 10: false, 4 << 20: true} {
		f := &failing{TB: t}
		Bounded(f, 100, func() { sink = make([]byte, size) })
		if f.failed != tooMuch {
			t.Errorf("%d bytes: failed is %v", size, f.failed)
		}
	}
}

func TestDisks(t *testing.T) {
	seen := map[string]bool{}
	Disks(t, func(t *testing.T, root string) {
		seen[root] = true
		if err := os.WriteFile(filepath.Join(root, "f"), []byte("x"), 0o600); err != nil {
			t.Error(err)
		}
	})
	if len(seen) == 0 {
		t.Error("no test has run")
	}
}
