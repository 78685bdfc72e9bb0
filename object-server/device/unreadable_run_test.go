package device

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"martlet/object-server/vfs"
)

// compacted is a device whose only segment is one that stands for several, as after a
// split, with the first of three names in it.
func compacted(t *testing.T) (mem *vfs.Mem, segment string, names []string) {
	mem, names = vfs.NewMem("/d"), namesIn(7, 3, 3)
	o := Options{SegmentBytes: 4 << 10, compactByHand: true, compactShare: 0.01, noFloor: true}
	d := open(t, mem, "/d", o)
	for n := range uint64(40) {
		must[State](t)(put(d, locate(names[0], modelBits), names[0], n+1, body(n, 700)))
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	d = raised(t, mem, "/d", o, 1)
	if err := errors.Join(d.Compact(), d.Close()); err != nil {
		t.Fatal(err)
	}
	for file := range files(t, mem) {
		if strings.HasSuffix(file, ".bundle") && !strings.HasSuffix(file, "-0000.bundle") {
			segment = file
		}
	}
	if n := len(must[[]os.DirEntry](t)(mem.ReadDir("/d/bundles/3"))); n != 1 || segment == "" {
		t.Fatalf("%d files, %s", n, segment)
	}
	return mem, segment, names
}

// What is written while a compacted segment cannot be read stays when it can be read
// again: the segment does not know of it, and does not stand for it.
func TestWritesBesideAnUnreadableCompactedSegment(t *testing.T) {
	for _, bad := range []int64{512, 1 << 20} { // the header and more; all
		mem, segment, names := compacted(t)
		if err := errors.Join(mem.Remove("/d/"+CleanStopFile), mem.SyncDir("/d")); err != nil {
			t.Fatal(err)
		}
		size := files(t, mem)[segment]
		isBad := func(name string, from, to int64) bool {
			return name == segment && (from < bad || to > size-512) // the footer, too
		}
		d := open(t, vfs.NewBadSectors(mem, isBad), "/d", Options{})
		if _, _, err := get(d, locate(names[0], modelBits)); !errors.Is(err, ErrQuarantined) {
			t.Fatal(err)
		}
		must[State](t)(put(d, locate(names[1], modelBits), names[1], 100, body(1, 300)))
		must[State](t)(put(d, locate(names[2], modelBits), names[2], 100, body(2, 300)))
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			d = open(t, mem, "/d", Options{})
			wantBody(t, d, locate(names[0], modelBits), body(39, 700))
			wantBody(t, d, locate(names[1], modelBits), body(1, 300))
			wantBody(t, d, locate(names[2], modelBits), body(2, 300))
			if err := d.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// A crash has left some of the segments that a compacted one replaced, and not the last.
// While that one cannot be read, what they hold is not said to be the newest.
func TestLeftoversOfAnUnreadableCompactedSegment(t *testing.T) {
	names := namesIn(7, 3, 2)
	o := Options{SegmentBytes: 4 << 10, compactByHand: true, compactShare: 0.01, noFloor: true, splitByHand: true}
	mem := vfs.NewMem("/d")
	d := open(t, mem, "/d", o)
	for n := range uint64(12) {
		must[State](t)(put(d, locate(names[0], modelBits), names[0], n+1, body(n, 700)))
	}
	must[State](t)(put(d, locate(names[1], modelBits), names[1], 1, body(1, 700)))
	must[State](t)(d.Delete(locate(names[0], modelBits), at(20), names[0]))
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	d = raised(t, mem, "/d", o, 1)
	old := mem.KillClone()
	if err := errors.Join(d.Compact(), d.Close()); err != nil {
		t.Fatal(err)
	}
	made := newestSegment(t, mem, 3)
	var left []string
	for file := range files(t, old) {
		if strings.Contains(file, "/bundles/3/") {
			left = append(left, file)
		}
	}
	slices.Sort(left)
	for _, keep := range [][]string{left[:1], left[1:2], {left[0], left[2]}, left[:len(left)-1]} {
		crashed := mem.KillClone()
		for _, file := range keep {
			copyInto(t, old, crashed, file)
		}
		d := open(t, vfs.NewBadSectors(crashed, func(name string, from, to int64) bool { return name == made }), "/d", o)
		if _, m, err := get(d, locate(names[0], modelBits)); err == nil && !m.Doubtful || err != nil && !errors.Is(err, ErrQuarantined) {
			t.Errorf("%v: shows %+v, %v", keep, m, err)
		}
		must[State](t)(put(d, locate(names[1], modelBits), names[1], 30, body(30, 300)))
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
		d = open(t, crashed, "/d", o)
		wantBody(t, d, locate(names[1], modelBits), body(30, 300))
		if _, m, err := get(d, locate(names[0], modelBits)); !errors.Is(err, ErrQuarantined) { // a tombstone, and records were given up behind it
			t.Errorf("%v: well again, shows %+v, %v", keep, m, err)
		}
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func copyInto(t *testing.T, from, to *vfs.Mem, file string) {
	t.Helper()
	source := must[vfs.File](t)(from.Open(file))
	data := make([]byte, must[int64](t)(source.Size()))
	must[int](t)(source.ReadAt(data, 0))
	target := must[vfs.File](t)(to.Create(file))
	if err := errors.Join(target.Writev([][]byte{data}, 0), target.Datasync(), to.SyncDir(filepath.Dir(file))); err != nil {
		t.Fatal(err)
	}
}
