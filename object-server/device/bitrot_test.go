package device

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"martlet/object-server/vfs"
)

// rotten is a small device with overwritten, posted and deleted names, closed
// cleanly, so that everything in it is proven.
func rotten(t *testing.T) (*vfs.Mem, *model) {
	mem, m := vfs.NewMem("/d"), newModel()
	d := openModel(t, mem)
	for i, c := range []change{
		{"put", modelNames[0], 8}, {"put", modelNames[1], 1}, {"put", modelNames[2], 2}, {"put", modelNames[2], 5},
		{"put", modelNames[0], 9}, {"post", modelNames[1], 11}, {"delete", modelNames[2], 12}, {"put", modelNames[3], 15},
	} {
		if err := m.do(d, c); err != nil {
			t.Fatal(i, err)
		}
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	return mem, m
}

// files lists what filesOfRecords does of the device at /d.
func files(t *testing.T, fs vfs.FS) map[string]int64 { return filesOfRecords(t, fs, "/d") }

// filesOfRecords lists the files of a device with their sizes, but for the table of positions, which an opening removes
// if it is damaged.
func filesOfRecords(t *testing.T, fs vfs.FS, root string) map[string]int64 {
	sizes := filesBelow(t, fs, root)
	delete(sizes, filepath.Join(root, SyncedFile))
	return sizes
}

func filesBelow(t *testing.T, fs vfs.FS, root string) map[string]int64 {
	sizes := map[string]int64{}
	for _, name := range tree(t, fs, root) {
		if f, err := fs.Open(name); err == nil {
			sizes[name], _ = f.Size()
			_ = f.Close()
		}
	}
	return sizes
}

// damage applies change to length bytes of a file.
func damage(t *testing.T, fs vfs.FS, name string, offset int64, length int, change func([]byte)) {
	t.Helper()
	f, err := fs.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	p := make([]byte, length)
	if _, err := f.ReadAt(p, offset); err != nil {
		t.Fatal(err)
	}
	change(p)
	if err := errors.Join(f.Writev([][]byte{p}, offset), f.Datasync(), f.Close()); err != nil {
		t.Fatal(err)
	}
}

// checkRotten demands the right bytes or an error of quarantine under each
// name, never wrong bytes, nor that a name is not there; an older version, or a deleted
// object, only where it is marked doubtful.
func checkRotten(t *testing.T, fs vfs.FS, m *model, where string) (errs int) {
	t.Helper()
	return checkRottenAt(t, fs, "/d", modelOptions, m, where)
}

func checkRottenAt(t *testing.T, fs vfs.FS, root string, o Options, m *model, where string) (errs int) {
	t.Helper()
	d, err := Open(fs, root, o)
	if err != nil {
		t.Fatal(where, err)
	}
	defer d.Close()
	for round := range 2 { // damage met when opening, and when reading
		for _, name := range modelNames {
			v, err := observe(d, name)
			if errors.Is(err, ErrQuarantined) || err == nil && isStale(d, name, v, m.acked[name]) {
				errs++
				continue
			}
			if err != nil || v != m.acked[name] {
				t.Fatalf("%s, round %d: %s shows %+v, %v; acknowledged %+v", where, round, name, v, err, m.acked[name])
			}
		}
	}
	return errs
}

// isStale tells whether a name shows, as doubtful, what is not newer than what was
// acknowledged.
func isStale(d *Device, name string, shown, acked version) bool {
	m, err := d.Head(locate(name, modelBits))
	return err == nil && m.Doubtful && shown.ticks <= acked.ticks && (shown.meta <= acked.meta || acked.deleted)
}

func TestBitFlips(t *testing.T) {
	mem, m := rotten(t)
	quarantined, clean := 0, 0
	for name, size := range files(t, mem) {
		step := int64(1)
		if size > 8<<10 || raceDetector {
			step = 7 // large files and long bodies: every seventh byte
		}
		for offset := int64(0); offset < size; offset += step {
			flipped := mem.KillClone()
			damage(t, flipped, name, offset, 1, func(p []byte) { p[0] ^= 1 << (offset % 8) })
			if checkRotten(t, flipped, m, fmt.Sprintf("%s offset %d", name, offset)) > 0 {
				quarantined++
			} else {
				clean++
			}
		}
	}
	t.Logf("%d flips found, %d harmless (dead records and padding)", quarantined, clean)
	if quarantined < 300 {
		t.Fatal("flips are not found")
	}
}

// A lost sector or block, zeroed or with other bytes, is damage too, also when it
// takes the last record with the PAD behind it: the stop was clean.
func TestLostBlocks(t *testing.T) {
	mem, m := rotten(t)
	quarantined := 0
	for name, size := range files(t, mem) {
		for _, block := range []int{512, 4096} {
			for offset := int64(0); offset < size; offset += int64(block) {
				for _, fill := range []byte{0, 0xff} {
					lost := mem.KillClone()
					damage(t, lost, name, offset, int(min(int64(block), size-offset)), func(p []byte) {
						for i := range p {
							p[i] = fill
						}
					})
					quarantined += checkRotten(t, lost, m, fmt.Sprintf("%s block of %d at %d", name, block, offset))
				}
			}
		}
	}
	if quarantined == 0 {
		t.Fatal("lost blocks are not found")
	}
}

// An object on sectors that cannot be read is damaged: the rest is served. A write of it is refused while
// that lasts: what is there may be newer.
func TestUnreadableSectors(t *testing.T) {
	mem := vfs.NewMem("/d")
	var broken atomic.Bool
	fs := vfs.NewFaults(mem, func(op, name string) error {
		if broken.Load() && op == "read" && strings.HasSuffix(name, ".bundle") {
			return &os.PathError{Op: "pread", Path: name, Err: syscall.EIO}
		}
		return nil
	})
	d := openModel(t, fs)
	defer d.Close()
	for _, name := range modelNames {
		must[State](t)(put(d, locate(name, modelBits), name, 1, modelBody(name, 1)))
	}
	broken.Store(true)
	if _, err := observe(d, modelNames[0]); !errors.Is(err, ErrQuarantined) {
		t.Error("get: ", err)
	}
	if _, err := put(d, locate(modelNames[1], modelBits), modelNames[1], 2, modelBody(modelNames[1], 2)); !errors.Is(err, ErrUnknown) {
		t.Error("put: ", err)
	}
	if _, err := d.Delete(locate(modelNames[2], modelBits), at(2), modelNames[2]); !errors.Is(err, ErrUnknown) {
		t.Error("delete: ", err)
	}
	broken.Store(false)
	must[State](t)(put(d, locate(modelNames[1], modelBits), modelNames[1], 2, modelBody(modelNames[1], 2)))
	if v, err := observe(d, modelNames[1]); err != nil || v.ticks != 2 {
		t.Error(v, err)
	}
	if v, err := observe(d, modelNames[3]); err != nil || v.ticks != 1 || d.Err() != nil {
		t.Error(v, err, d.Err())
	}
}

// A name in quarantine takes a newer write, and a repair with the same one.
func TestQuarantineEndsWithAWrite(t *testing.T) {
	mem := vfs.NewMem("/d")
	d := openModel(t, mem)
	name := modelNames[0]
	loc := locate(name, modelBits)
	must[State](t)(put(d, loc, name, 10, modelBody(name, 10)))
	var segment string
	for file := range files(t, mem) {
		segment = file
	}
	damage(t, mem, segment, 128+128+800, 1, func(p []byte) { p[0]++ })
	for range 2 {
		if _, err := observe(d, name); !errors.Is(err, ErrQuarantined) {
			t.Fatal(err)
		}
	}
	var older *OlderError
	if _, err := put(d, loc, name, 9, modelBody(name, 9)); !errors.As(err, &older) {
		t.Fatal(err)
	}
	state := must[State](t)(put(d, loc, name, 10, modelBody(name, 10)))
	if state.Existed {
		t.Fatalf("%+v", state)
	}
	for range 2 {
		if v, err := observe(d, name); err != nil || v.ticks != 10 {
			t.Fatal(v, err)
		}
		if s := d.Stats(); s.Quarantined > 1 {
			t.Fatalf("%+v", s)
		}
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
		d = openModel(t, mem)
	}
	d.Close()
}
