package device

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"martlet/object-server/bundle/format"
	"martlet/object-server/vfs"
)

// onAll runs a test on file systems with and without what a copy can use.
func onAll(t *testing.T, test func(t *testing.T, fs vfs.FS, root string)) {
	onBoth(t, test)
	t.Run("mem without", func(t *testing.T) {
		mem := vfs.NewMem("/d")
		mem.Lack(vfs.FeatureTemp | vfs.FeatureClone | vfs.FeatureXattr)
		test(t, mem, "/d")
	})
}

// as turns the metadata of a source into those of a copy.
func as(name string, ticks uint64) func(*format.Metadata) error {
	return func(m *format.Metadata) error {
		m.Name, m.Timestamp, m.MetaTimestamp, m.TypeTimestamp = name, at(ticks), at(ticks), at(ticks)
		return nil
	}
}

func copyAs(d *Device, from, to string, ticks uint64) (State, error) {
	_, prev, err := d.Copy(locate(from, modelBits), locate(to, modelBits), as(to, ticks))
	return prev, err
}

func TestCopy(t *testing.T) {
	sizes := []int{0, 100, format.ChunkSize + 1, 1<<20 + 5, 3<<20 + 17}
	onAll(t, func(t *testing.T, fs vfs.FS, root string) {
		d := open(t, fs, root, Options{})
		for i, size := range sizes {
			from, to := fmt.Sprint("/a/c/from", i), fmt.Sprint("/a/c/to", i)
			must[State](t)(put(d, locate(from, 1), from, 5, body(uint64(i), size)))
			must[State](t)(copyAs(d, from, to, 6))
			m := wantBody(t, d, locate(to, 1), body(uint64(i), size))
			if m.Name != to || m.Timestamp != at(6) || m.ContentType != "text/plain" || len(m.User) != 1 {
				t.Fatalf("%+v", m)
			}
			if m := wantBody(t, d, locate(from, 1), body(uint64(i), size)); m.Name != from || m.Timestamp != at(5) {
				t.Fatalf("the source became %+v", m)
			}
			must[State](t)(d.Delete(locate(from, 1), at(7), from)) // the copy does not need it
			prev := must[State](t)(copyAs(d, to, to, 8))           // upon itself
			if !prev.Existed || prev.Metadata.Timestamp != at(6) {
				t.Fatalf("%+v", prev)
			}
		}
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
		d = open(t, fs, root, Options{})
		for i, size := range sizes {
			wantBody(t, d, locate(fmt.Sprint("/a/c/to", i), 1), body(uint64(i), size))
			wantNotFound(t, d, locate(fmt.Sprint("/a/c/from", i), 1), 7)
		}
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
		if left := largeFiles(t, fs, root); len(left) != 2 {
			t.Fatal("files are left over: ", left)
		}
	})
}

func largeFiles(t *testing.T, fs vfs.FS, root string) []string {
	return slices.DeleteFunc(tree(t, fs, root), func(name string) bool {
		return !strings.HasSuffix(name, ".data") && !strings.HasSuffix(name, ".tmp")
	})
}

// A larger object than the threshold of today stays in the log when it is copied
// from there, or leaves it; either way the bytes are right.
func TestCopyAfterTheThresholdChanged(t *testing.T) {
	mem := vfs.NewMem("/d")
	d := open(t, mem, "/d", Options{})
	must[State](t)(put(d, locate("/a/c/o", 1), "/a/c/o", 5, body(1, 300_000)))
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	d = open(t, mem, "/d", modelOptions)
	defer d.Close()
	must[State](t)(copyAs(d, "/a/c/o", "/a/c/p", 6))
	wantBody(t, d, locate("/a/c/p", 1), body(1, 300_000))
}

func TestCopyIsRefused(t *testing.T) {
	onAll(t, func(t *testing.T, fs vfs.FS, root string) {
		for i, size := range []int{100, 1<<20 + 5} {
			d := open(t, fs, root, Options{})
			from, to, none := fmt.Sprint("/a/c/from", i), fmt.Sprint("/a/c/to", i), "/a/c/none"
			must[State](t)(put(d, locate(from, 1), from, 5, body(1, size)))
			must[State](t)(put(d, locate(to, 1), to, 9, body(2, size)))
			var gone *NotFoundError
			if _, err := copyAs(d, none, to, 10); !errors.As(err, &gone) {
				t.Fatal(err)
			}
			var older *OlderError
			if _, err := copyAs(d, from, to, 9); !errors.As(err, &older) || older.Existing != at(9) {
				t.Fatal(err)
			}
			refusal := errors.New("refused")
			edit := func(*format.Metadata) error { return refusal }
			if _, _, err := d.Copy(locate(from, 1), locate(to, 1), edit); err != refusal {
				t.Fatal(err)
			}
			edit = func(m *format.Metadata) error { m.Size--; return as(to, 10)(m) }
			if _, _, err := d.Copy(locate(from, 1), locate(to, 1), edit); !errors.Is(err, ErrInvalid) {
				t.Fatal(err)
			}
			edit = func(m *format.Metadata) error { m.Timestamp = at(0); return nil }
			if _, _, err := d.Copy(locate(from, 1), locate(to, 1), edit); !errors.Is(err, ErrInvalid) {
				t.Fatal(err)
			}
			wantBody(t, d, locate(to, 1), body(2, size))
			if err := d.Close(); err != nil {
				t.Fatal(err)
			}
			if left := largeFiles(t, fs, root); len(left) != 2*i {
				t.Fatal("files are left over: ", left)
			}
		}
	})
}

// A copy gives damaged bytes no checksum that they would pass.
func TestCopyOfDamagedBytes(t *testing.T) {
	for _, size := range []int{5000, modelSpill + 3000} {
		for _, lacks := range []vfs.Feature{0, vfs.FeatureClone} {
			mem := vfs.NewMem("/d")
			mem.Lack(lacks)
			d := openModel(t, mem)
			must[State](t)(put(d, locate("/a/c/from", 1), "/a/c/from", 5, body(1, size)))
			suffix := map[bool]string{true: ".data", false: ".bundle"}[size > modelSpill]
			for name, length := range files(t, mem) {
				if strings.HasSuffix(name, suffix) { // in the last chunk, or the only one
					damage(t, mem, name, length-3000, 1, func(p []byte) { p[0] ^= 4 })
				}
			}
			_, err := copyAs(d, "/a/c/from", "/a/c/to", 6)
			if size > modelSpill && lacks == 0 { // the bytes were not looked at
				if err != nil {
					t.Fatal(err)
				}
				_, _, err = get(d, locate("/a/c/to", 1))
			}
			if !errors.Is(err, ErrQuarantined) {
				t.Fatalf("%d bytes, without %b: %v", size, lacks, err)
			}
			_ = d.Close()
		}
	}
}

// A crash before any operation leaves of a copy all or nothing, leaves no file
// behind, and what was acknowledged stays; with and without unnamed files and
// shared bytes.
func TestCrashWhileCopying(t *testing.T) {
	for _, lacks := range []vfs.Feature{0, vfs.FeatureClone, vfs.FeatureTemp | vfs.FeatureClone} {
		t.Run(fmt.Sprintf("lacks %b", lacks), func(t *testing.T) {
			t.Parallel()
			copyCrashes(t, lacks)
		})
	}
}

type copyStep struct {
	from, to string // from is empty: a PUT of size bytes
	size     int
}

var copySteps = []copyStep{
	{"", "/a/c/small", 700}, {"", "/a/c/large", modelSpill + 70_000}, {"/a/c/small", "/a/c/s2", 0},
	{"/a/c/large", "/a/c/l2", 0}, {"/a/c/large", "/a/c/small", 0}, {"/a/c/s2", "/a/c/large", 0},
	{"/a/c/l2", "/a/c/l2", 0}, {"", "/a/c/l2", 10},
}

func copyCrashes(t *testing.T, lacks vfs.Feature) {
	mem := vfs.NewMem("/d")
	mem.Lack(lacks)
	rng := rand.New(rand.NewPCG(1, uint64(lacks)))
	shows, next := map[string][]byte{}, map[string][]byte{} // acknowledged; with the step under way
	var failure error
	states := 0
	fs := vfs.NewFaults(mem, func(op, name string) error {
		for i := range 3 {
			clone := mem.KillClone()
			if i > 0 {
				clone = mem.CrashClone(rng)
			}
			states++
			if err := checkCopies(t, clone, shows, next); err != nil && failure == nil {
				failure = fmt.Errorf("before %s %s, state %d: %w", op, name, i, err)
			}
		}
		return nil
	})
	d := open(t, fs, "/d", modelOptions)
	for i, step := range copySteps {
		data := shows[step.from]
		if step.from == "" {
			data = body(uint64(i), step.size)
		}
		next = maps.Clone(shows)
		next[step.to] = data
		var err error
		if step.from == "" {
			_, err = put(d, locate(step.to, modelBits), step.to, uint64(i+1), data)
		} else {
			_, err = copyAs(d, step.from, step.to, uint64(i+1))
		}
		if err != nil {
			t.Fatal(i, err)
		}
		shows = next
	}
	if err := errors.Join(failure, d.Close(), failure); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d states", states)
}

// checkCopies demands that all names show what one of two states has.
func checkCopies(t *testing.T, fs *vfs.Mem, acked, tried map[string][]byte) error {
	d, err := Open(fs, "/d", modelOptions)
	if err != nil {
		return err
	}
	large := 0
	for _, name := range []string{"/a/c/small", "/a/c/large", "/a/c/s2", "/a/c/l2"} {
		data, _, err := get(d, locate(name, modelBits))
		var gone *NotFoundError
		if err != nil && !errors.As(err, &gone) {
			return fmt.Errorf("%s: %w", name, err)
		}
		if !bytes.Equal(data, acked[name]) && !bytes.Equal(data, tried[name]) {
			return fmt.Errorf("%s shows %d bytes", name, len(data))
		}
		if len(data) > modelSpill {
			large++
		}
	}
	left := slices.DeleteFunc(largeFiles(t, fs, "/d"), func(name string) bool { return strings.Contains(name, "/quarantined/") })
	if len(left) != large {
		return fmt.Errorf("%d large objects, but %v", large, left)
	}
	return d.Close()
}
