package device

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"martlet/object-server/bundle/format"
	"martlet/object-server/vfs"
)

// onBoth runs a test in memory and on a real directory.
func onBoth(t *testing.T, test func(t *testing.T, fs vfs.FS, root string)) {
	t.Run("mem", func(t *testing.T) { test(t, vfs.NewMem("/d"), "/d") })
	t.Run("os", func(t *testing.T) { test(t, vfs.OS{}, t.TempDir()) })
}

func TestRoundTrip(t *testing.T) {
	sizes := []int{0, 1, 4095, 4096, format.ChunkSize - 1, format.ChunkSize, format.ChunkSize + 1,
		1 << 20, 1<<20 + 1, 3<<20 + 17}
	for _, method := range []SyncMethod{SyncAuto, SyncFdatasync} {
		t.Run(string(method), func(t *testing.T) {
			onBoth(t, func(t *testing.T, fs vfs.FS, root string) {
				o := Options{SyncMethod: method}
				d := open(t, fs, root, o)
				for round := range 3 { // fresh, reopened after a clean stop, overwritten
					for i, size := range sizes {
						name := fmt.Sprintf("/a/c/o%d", i)
						if round != 1 {
							must[State](t)(put(d, locate(name, 2), name, uint64(10+round), body(uint64(i+round), size)))
						}
						m := wantBody(t, d, locate(name, 2), body(uint64(i+round/2*2), size))
						if m.Name != name || m.Timestamp != at(uint64(10+round/2*2)) || m.MetaTimestamp != m.Timestamp {
							t.Fatalf("metadata %+v", m)
						}
					}
					if err := d.Close(); err != nil {
						t.Fatal(err)
					}
					d = open(t, fs, root, o)
				}
				if err := d.Close(); err != nil {
					t.Fatal(err)
				}
			})
		})
	}
}

func TestRanges(t *testing.T) {
	d := open(t, vfs.NewMem("/d"), "/d", Options{})
	defer d.Close()
	for _, size := range []int{200_000, 1_200_000} {
		name := fmt.Sprint(size)
		data := body(7, size)
		must[State](t)(put(d, locate(name, 1), name, 1, data))
		o := must[*Object](t)(d.Open(locate(name, 1)))
		edges := []int64{0, 1, 65535, 65536, 65537, 131072, 199_999, 200_000}
		for _, off := range edges {
			for _, n := range edges {
				var b bytes.Buffer
				err := o.WriteRange(&b, off, n)
				if off+n > int64(size) {
					if !errors.Is(err, ErrInvalid) || b.Len() > 0 {
						t.Fatalf("%d+%d of %d: %v, %d bytes", off, n, size, err, b.Len())
					}
				} else if err != nil || !bytes.Equal(b.Bytes(), data[off:off+n]) {
					t.Fatalf("%d+%d of %d: %v", off, n, size, err)
				}
			}
		}
		if err := o.WriteRange(io.Discard, -1, 1); !errors.Is(err, ErrInvalid) {
			t.Fatal(err)
		}
		o.Close()
	}
}

// The newest write wins, whatever its kind and in whatever order they come.
func TestLastWriteWins(t *testing.T) {
	onBoth(t, func(t *testing.T, fs vfs.FS, root string) {
		d := open(t, fs, root, Options{})
		defer d.Close()
		loc := locate("/a/c/o", 4)
		var older *OlderError

		state := must[State](t)(d.Delete(loc, at(5), "/a/c/o")) // nothing there: still a tombstone
		if state.Existed || !state.Tombstone.IsZero() {
			t.Fatalf("%+v", state)
		}
		wantNotFound(t, d, loc, 5)
		for _, ticks := range []uint64{4, 5} {
			if _, err := put(d, loc, "/a/c/o", ticks, body(1, 10)); !errors.As(err, &older) || older.Existing != at(5) {
				t.Fatalf("put at %d: %v", ticks, err)
			}
		}
		state = must[State](t)(put(d, loc, "/a/c/o", 6, body(2, 10)))
		if state.Existed || state.Tombstone != at(5) {
			t.Fatalf("%+v", state)
		}
		state = must[State](t)(put(d, loc, "/a/c/o", 8, body(3, 10)))
		if !state.Existed || state.Metadata.Timestamp != at(6) {
			t.Fatalf("%+v", state)
		}
		if _, err := d.Delete(loc, at(7), "/a/c/o"); !errors.As(err, &older) || older.Existing != at(8) {
			t.Fatal(err)
		}
		wantBody(t, d, loc, body(3, 10))
		state = must[State](t)(d.Delete(loc, at(8), "/a/c/o")) // which wins over data
		if !state.Existed || state.Metadata.Size != 10 {
			t.Fatalf("%+v", state)
		}
	})
}

func TestPost(t *testing.T) {
	for _, size := range []int{4096, 1<<20 + 5} {
		onBoth(t, func(t *testing.T, fs vfs.FS, root string) {
			d := open(t, fs, root, Options{})
			loc := locate("/a/c/o", 4)
			var gone *NotFoundError
			if err := d.Post(loc, func(*format.Metadata) error { return nil }); !errors.As(err, &gone) {
				t.Fatal(err)
			}
			must[State](t)(put(d, loc, "/a/c/o", 5, body(1, size)))
			refusal := errors.New("refused")
			if err := d.Post(loc, func(m *format.Metadata) error { m.ETag = "x"; return refusal }); err != refusal {
				t.Fatal(err)
			}
			if err := d.Post(loc, func(m *format.Metadata) error { m.Size++; return nil }); !errors.Is(err, ErrInvalid) {
				t.Fatal(err)
			}
			edit := func(m *format.Metadata) error {
				m.User, m.MetaTimestamp = format.Headers{"X-Object-Meta-A": "b"}, at(9)
				return nil
			}
			if err := d.Post(loc, edit); err != nil {
				t.Fatal(err)
			}
			check := func(dataTicks uint64, seed uint64) {
				t.Helper()
				m := wantBody(t, d, loc, body(seed, size))
				if m.ETag != "" || m.User["X-Object-Meta-A"] != "b" || len(m.User) != 1 ||
					m.MetaTimestamp != at(9) || m.Timestamp != at(dataTicks) {
					t.Fatalf("%+v", m)
				}
			}
			check(5, 1)
			// Data between the old data and the POST: both count.
			must[State](t)(put(d, loc, "/a/c/o", 7, body(2, size)))
			check(7, 2)
			if err := d.Close(); err != nil {
				t.Fatal(err)
			}
			d = open(t, fs, root, Options{})
			defer d.Close()
			check(7, 2)
			must[State](t)(put(d, loc, "/a/c/o", 10, body(3, size)))
			if m := wantBody(t, d, loc, body(3, size)); m.User["X-Object-Meta-A"] != "" {
				t.Fatalf("%+v", m)
			}
		})
	}
}

// An upload that is aborted or refused leaves no file and no memory of itself.
func TestAbortLeavesNothing(t *testing.T) {
	onBoth(t, func(t *testing.T, fs vfs.FS, root string) {
		d := open(t, fs, root, Options{})
		loc := locate("/a/c/o", 4)
		for _, hint := range []int64{-1, 100, 2 << 20} {
			u := must[*Upload](t)(d.NewUpload(loc, hint))
			must[int](t)(u.Write(body(1, 2<<20)))
			u.Abort()
			u.Abort()
			if _, err := u.Write([]byte("x")); !errors.Is(err, ErrInvalid) {
				t.Fatal(err)
			}
		}
		u := must[*Upload](t)(d.NewUpload(loc, -1))
		must[int](t)(u.Write([]byte("four")))
		if _, err := u.Commit(&format.Metadata{Size: 5, Timestamp: at(1)}); !errors.Is(err, ErrInvalid) {
			t.Fatal(err)
		}
		u.Abort()
		must[State](t)(put(d, loc, "/a/c/o", 2, body(1, 2<<20)))
		if _, err := put(d, loc, "/a/c/o", 1, body(2, 2<<20)); err == nil {
			t.Fatal("older write accepted")
		}
		must[State](t)(put(d, loc, "/a/c/o", 3, body(3, 2<<20))) // removes the first large file
		if n := len(tree(t, fs, root)); n != 6 {                 // objects, partition, segment, large, one file
			t.Fatalf("%d files and directories: %v", n, tree(t, fs, root))
		}
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
	})
}

// tree lists everything below a directory.
func tree(t testing.TB, fs vfs.FS, root string) []string {
	entries, err := fs.ReadDir(root)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		name := filepath.Join(root, e.Name())
		names = append(names, name)
		if e.IsDir() {
			names = append(names, tree(t, fs, name)...)
		}
	}
	return names
}

func TestAbsentPartitionsTakeNoMemory(t *testing.T) {
	d := open(t, vfs.NewMem("/d"), "/d", Options{})
	defer d.Close()
	for i := range 100 {
		loc := locate(fmt.Sprint(i), 16)
		wantNotFound(t, d, loc, 0)
		var gone *NotFoundError
		if err := d.Post(loc, func(*format.Metadata) error { return nil }); !errors.As(err, &gone) {
			t.Fatal(err)
		}
	}
	if n := len(d.bundles.open); n != 0 {
		t.Errorf("%d partitions are open", n)
	}
}

func TestTwoInodesPerPartition(t *testing.T) {
	root := t.TempDir()
	d := open(t, vfs.OS{}, root, Options{})
	for i := range 200 {
		name := fmt.Sprintf("/a/c/%d", i)
		must[State](t)(put(d, locate(name, 3), name, 1, body(uint64(i), 4096)))
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if n := len(tree(t, vfs.OS{}, root)); n != 3+2*8 { // bundles, synced and clean-stop, and for each partition its directory and a segment
		t.Fatalf("%d inodes for 8 partitions", n)
	}
	d = open(t, vfs.OS{}, root, Options{})
	defer d.Close()
	if p := must[[]uint32](t)(d.Partitions(0)); len(p) != 8 {
		t.Fatalf("partitions %v", p)
	}
	if p := must[[]uint32](t)(d.Partitions(3)); p != nil {
		t.Fatalf("partitions %v", p)
	}
}

func TestLockedAndMissing(t *testing.T) {
	onBoth(t, func(t *testing.T, fs vfs.FS, root string) {
		d := open(t, fs, root, Options{})
		if _, err := Open(fs, root, Options{Logger: quiet}); !errors.Is(err, vfs.ErrLocked) {
			t.Fatal(err)
		}
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := d.Head(locate("x", 1)); !errors.Is(err, ErrClosed) {
			t.Fatal(err)
		}
		if err := open(t, fs, root, Options{}).Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(fs, filepath.Join(root, "nowhere"), Options{}); !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
	})
}

// Records of a batch that do not fit go to the next segment, in order.
func TestSegmentsRoll(t *testing.T) {
	fs := vfs.NewMem("/d")
	o := Options{SegmentBytes: 16 << 10, SpillBytes: 64 << 10}
	d := open(t, fs, "/d", o)
	for i := range 40 {
		name := fmt.Sprint(i)
		must[State](t)(put(d, locate(name, 0), name, 1, body(uint64(i), i*1000)))
	}
	for range 2 {
		for i := range 40 {
			wantBody(t, d, locate(fmt.Sprint(i), 0), body(uint64(i), i*1000))
		}
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
		d = open(t, fs, "/d", o)
	}
	d.Close()
}

func TestLargeMetadataMovesData(t *testing.T) {
	d := open(t, vfs.NewMem("/d"), "/d", Options{})
	defer d.Close()
	for _, length := range []int{0, 300, 500, 600, 700, 3000, 200_000} {
		loc := locate(fmt.Sprint(length), 1)
		u := must[*Upload](t)(d.NewUpload(loc, 100))
		data := body(3, 100)
		must[int](t)(u.Write(data))
		m := format.Metadata{Size: 100, Timestamp: at(1), User: format.Headers{"X": string(body(9, length))}}
		must[State](t)(u.Commit(&m))
		if got := wantBody(t, d, loc, data); len(got.User["X"]) != length {
			t.Fatalf("metadata of %d bytes", length)
		}
	}
	u := must[*Upload](t)(d.NewUpload(locate("big", 1), 0))
	defer u.Abort()
	_, err := u.Commit(&format.Metadata{Timestamp: at(1), User: format.Headers{"X": string(make([]byte, 300_000))}})
	if !errors.Is(err, ErrTooLarge) {
		t.Fatal(err)
	}
}
