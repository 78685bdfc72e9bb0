package device

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"martlet/object-server/bundle/format"
	"martlet/object-server/vfs"
)

// inPartition is the place of the i-th of many objects of one partition.
func numbered(i int) (Location, string) {
	name := fmt.Sprint("/a/c/", i)
	l := locate(name, 8)
	l.Partition = 7
	return l, name
}

// oneLost is a device with objects 0 to 99 of one partition, of which one header is
// rotten: that of the last. Object 0 is large, 1 deleted.
func oneLost(t *testing.T) (*vfs.Mem, *Device) {
	t.Helper()
	mem := vfs.NewMem("/d")
	d := open(t, mem, "/d", Options{SpillBytes: 2000})
	for i := range 100 {
		l, name := numbered(i)
		size := 300
		if i == 0 {
			size = 5000
		}
		must[State](t)(put(d, l, name, 10, body(uint64(i), size)))
		if i == 1 {
			must[State](t)(d.Delete(l, at(11), name))
		}
		if i == 98 {
			for file, end := range files(t, mem) {
				if strings.HasSuffix(file, ".bundle") {
					defer damage(t, mem, file, end, 64, func(p []byte) { clear(p) })
				}
			}
		}
	}
	l, name := numbered(100)
	must[State](t)(put(d, l, name, 10, body(100, 300))) // it proves the one before
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	return mem, d
}

// One rotten header takes one object away. The others are served, as doubtful where
// the lost record may have replaced them; that there is none is not said.
func TestOneRottenHeader(t *testing.T) {
	mem, _ := oneLost(t)
	d := open(t, mem, "/d", Options{SpillBytes: 2000})
	defer d.Close()
	for i := range 101 {
		l, _ := numbered(i)
		_, m, err := get(d, l)
		var doubt *DoubtError
		switch {
		case i == 1:
			if !errors.As(err, &doubt) || doubt.Timestamp != at(11) {
				t.Errorf("a deleted object: %v", err)
			}
		case i == 99:
			if !errors.Is(err, ErrQuarantined) {
				t.Errorf("the lost object: %v", err)
			}
		case err != nil || m.Doubtful != (i < 99):
			t.Errorf("object %d: %+v, %v", i, m, err)
		}
	}
}

// A write to a doubtful object is refused if it is not newer, and ends the doubt if
// it is; a POST would end it without right. A large file that it replaces stays.
func TestWritesToDoubtfulObjects(t *testing.T) {
	mem, _ := oneLost(t)
	d := open(t, mem, "/d", Options{SpillBytes: 2000})
	defer d.Close()
	large := countLarge(t, mem)
	for _, i := range []int{0, 1, 2} {
		l, name := numbered(i)
		var older *OlderError
		if _, err := put(d, l, name, 9, nil); !errors.As(err, &older) {
			t.Errorf("an older write of %d: %v", i, err)
		}
		err := d.Post(l, func(m *format.Metadata) error { m.MetaTimestamp = at(40); return nil })
		if !errors.Is(err, ErrQuarantined) {
			t.Errorf("a POST of %d: %v", i, err)
		}
		must[State](t)(put(d, l, name, 20, body(7, 100)))
		if m := wantBody(t, d, l, body(7, 100)); m.Doubtful {
			t.Errorf("%d is doubtful after a write", i)
		}
	}
	if n := countLarge(t, mem); n != large || n != 1 {
		t.Errorf("%d large files of %d are left", n, large)
	}
	l, name := numbered(99)
	must[State](t)(put(d, l, name, 20, body(7, 100)))
	if m := wantBody(t, d, l, body(7, 100)); m.Doubtful {
		t.Error("the lost object is doubtful after a write")
	}
}

func countLarge(t *testing.T, fs vfs.FS) (n int) {
	t.Helper()
	entries, err := fs.ReadDir("/d/bundles/7/large")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}
