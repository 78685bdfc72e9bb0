package device

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"martlet/object-server/bundle"
	"martlet/object-server/bundle/inspect"
	"martlet/object-server/vfs"
)

// One sector that cannot be read takes away the objects that it holds a part of, be
// it met when a partition is opened or later, and no write.
func TestOneBadSector(t *testing.T) {
	mem := vfs.NewMem("/d")
	d := open(t, mem, "/d", Options{})
	for i := range 64 {
		l, name := numbered(i)
		must[State](t)(put(d, l, name, 1, body(uint64(i), 300)))
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	size := files(t, mem)["/d/bundles/7/00000001-0000.bundle"]
	for sector := int64(0); sector*512 < size; sector++ {
		fs := vfs.NewBadSectors(mem.KillClone(), func(name string, from, to int64) bool {
			return strings.HasSuffix(name, "00000001-0000.bundle") && from < (sector+1)*512 && sector*512 < to
		})
		d := open(t, fs, "/d", Options{})
		missing := 0
		for i := range 64 {
			l, _ := numbered(i)
			switch _, _, err := get(d, l); {
			case errors.Is(err, ErrQuarantined):
				missing++
			case err != nil:
				t.Fatalf("sector %d, object %d: %v", sector, i, err)
			}
		}
		if missing > 3 { // a record is longer than half a sector
			t.Fatalf("sector %d: %d objects are missing", sector, missing)
		}
		l, name := numbered(1000)
		must[State](t)(put(d, l, name, 5, body(1, 300)))
		wantBody(t, d, l, body(1, 300))
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := inspect.PlanRepair(bundle.NewFiles(fs, "/d", 10), bundle.ID{Partition: 7}); err != nil {
			t.Fatalf("sector %d: %v", sector, err)
		}
	}
}

// The versions of a name are read past a sector that cannot be read, whether the
// partition is opened with it or not. One that is not there is not said not to be.
func TestVersionsOnABadSector(t *testing.T) {
	t.Parallel()
	const name, count = "/a/c/heron", 40
	mem, loc := vfs.NewMem("/d"), locate("/a/c/heron", 1)
	d := open(t, mem, "/d", Options{})
	for n := uint64(1); n <= count; n++ {
		if err := doVersion(d, name, versionChange{"put", n, n}); err != nil {
			t.Fatal(err)
		}
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	sectors, missing, step := 0, 0, int64(1)
	if raceDetector {
		step = 8
	}
	for file, size := range files(t, mem) {
		for sector := int64(0); sector*512 < size && strings.HasSuffix(file, ".bundle"); sector += step {
			var isBad atomic.Bool
			fs := vfs.NewBadSectors(mem.KillClone(), func(read string, from, to int64) bool {
				return isBad.Load() && read == file && from < (sector+1)*512 && sector*512 < to
			})
			isBad.Store(true)
			missing += checkVersionsOnDisk(t, open(t, fs, "/d", Options{}), loc, count, sector)
			isBad.Store(false)
			d := open(t, fs, "/d", Options{})
			wantBody(t, d, loc, modelBody(name, count))
			isBad.Store(true)
			missing += checkVersionsOnDisk(t, d, loc, count, sector)
			sectors++
		}
	}
	if missing > 2*sectors*2 { // of 40 in each of two looks at each
		t.Errorf("%d versions are missing in %d sectors", missing, sectors)
	}
}

func checkVersionsOnDisk(t *testing.T, d *Device, loc Location, count uint64, sector int64) (missing int) {
	t.Helper()
	defer d.Close()
	for n := uint64(1); n <= count; n++ {
		switch m, err := d.HeadVersion(loc, versionID(n)); {
		case errors.Is(err, ErrQuarantined):
			missing++
		case err != nil || m.Timestamp != at(n):
			t.Fatalf("sector %d: version %d: %+v, %v", sector, n, m, err)
		}
	}
	return missing
}
