package device

import (
	"errors"
	"strings"
	"testing"

	"martlet/object-server/bundle"
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
		if _, err := bundle.PlanRepair(bundle.NewFiles(fs, "/d", 10), bundle.ID{Partition: 7}); err != nil {
			t.Fatalf("sector %d: %v", sector, err)
		}
	}
}
