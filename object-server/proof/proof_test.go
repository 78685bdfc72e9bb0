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
func (f *failing) Errorf(string, ...any) { f.failed = true }

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

func TestGolden(t *testing.T) {
	path := filepath.Join(t.TempDir(), "folder", "golden")
	for _, c := range []struct {
		value    int
		isUpdate bool
		failed   bool
	}{{1, false, true}, {1, true, false}, {1, false, false}, {2, false, true}, {2, true, false}} {
		f := &failing{TB: t}
		*update = c.isUpdate
		GoldenJSON(f, path, []int{c.value})
		*update = false
		if f.failed != c.failed {
			t.Errorf("%+v: failed is %v", c, f.failed)
		}
	}
	if text, err := os.ReadFile(path); err != nil || string(text) != "[\n 2\n]\n" {
		t.Errorf("the file is %q, %v", text, err)
	}
}
