package device

import (
	"errors"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"martlet/object-server/bundle/format"
	"martlet/object-server/vfs"
)

// failing fails as many reads of segments as it holds.
type failing struct{ reads atomic.Int32 }

func (f *failing) over(fs vfs.FS) vfs.FS {
	return vfs.NewFaults(fs, func(op, name string) error {
		if op == "read" && strings.HasSuffix(name, ".bundle") && f.reads.Add(-1) >= 0 {
			return syscall.EIO
		}
		return nil
	})
}

// A read error does not let an older write replace a newer one, which may be a
// DELETE: it is repeated, and if it lasts the write is refused.
func TestReadErrorsAndOlderWrites(t *testing.T) {
	const name = "/a/c/o"
	loc := locate(name, 4)
	for _, reads := range []int32{1, 2, 100} {
		var faults failing
		mem := vfs.NewMem("/d")
		d := open(t, faults.over(mem), "/d", Options{})
		must[State](t)(d.Delete(loc, at(10), name))
		faults.reads.Store(reads)
		_, err := put(d, loc, name, 5, body(1, 300))
		faults.reads.Store(0)
		var older *OlderError
		if !errors.As(err, &older) && (reads < 100 || !errors.Is(err, ErrUnknown)) {
			t.Errorf("%d reads fail: %v", reads, err)
		}
		wantNotFound(t, d, loc, 10)
		must[State](t)(put(d, loc, name, 11, body(1, 300)))
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// Where the header of the newest record is rotten its time is not known. Only a
// write is taken that is later than the record can be, so that a late one brings
// back nothing that was deleted.
func TestRottenHeaderAndOlderWrites(t *testing.T) {
	const name = "/a/c/o"
	loc := locate(name, 4)
	mem := vfs.NewMem("/d")
	d := open(t, mem, "/d", Options{})
	deleted := at(uint64(time.Now().UnixMicro() / 10))
	must[State](t)(d.Delete(loc, deleted, name))
	var segment string
	for file := range files(t, mem) {
		segment = file
	}
	damage(t, mem, segment, 128, 1, func(p []byte) { p[0]++ })
	old, later := deleted, deleted
	old.Ticks -= 10
	later.Ticks += 3600 * 100_000
	for range 2 {
		if _, err := put(d, loc, name, old.Ticks, body(1, 300)); !errors.Is(err, ErrUnknown) {
			t.Errorf("an older write: %v", err)
		}
		if _, err := d.Delete(loc, old, name); !errors.Is(err, ErrUnknown) {
			t.Errorf("an older delete: %v", err)
		}
	}
	if _, err := d.Head(loc); !errors.Is(err, ErrQuarantined) {
		t.Error(err)
	}
	must[State](t)(put(d, loc, name, later.Ticks, body(2, 300)))
	wantBody(t, d, loc, body(2, 300))
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
}

// rottenHead is a device with a name of three versions, of which the header of the
// newest is rotten, and the time at which they were written.
// The record lies in a segment that is full.
func rottenHead(t *testing.T, name string) (mem *vfs.Mem, d *Device, now uint64) {
	t.Helper()
	mem = vfs.NewMem("/d")
	d = open(t, mem, "/d", Options{compactByHand: true})
	now = uint64(time.Now().UnixMicro() / 10)
	segment, end := "", int64(0)
	for n := uint64(1); n <= 3; n++ {
		for segment, end = range files(t, mem) {
			if strings.HasSuffix(segment, ".bundle") {
				break
			}
		}
		if err := doVersion(d, name, versionChange{"put", n, now - 10 + n}); err != nil {
			t.Fatal(err)
		}
	}
	if err := d.bundles.all()[0].Close(); err != nil {
		t.Fatal(err)
	}
	damage(t, mem, segment, end, 1, func(p []byte) { p[0]++ })
	return mem, d, now
}

// Where the newest record of a name with versions is rotten, many removals are
// refused like one.
func TestRottenHeaderAndOlderRemovals(t *testing.T) {
	const name = "/a/c/heron"
	loc := locate(name, modelBits)
	_, d, now := rottenHead(t, name)
	defer d.Close()
	if _, err := d.DeleteVersion(loc, versionID(1), at(now), name); !errors.Is(err, ErrUnknown) {
		t.Errorf("one: %v", err)
	}
	if _, err := d.DeleteVersions(loc, []format.VersionID{versionID(1)}, at(now), name); !errors.Is(err, ErrUnknown) {
		t.Errorf("many: %v", err)
	}
	if _, err := d.Head(loc); !errors.Is(err, ErrQuarantined) {
		t.Error(err)
	}
}

// Later writes are taken. When all that they wrote is removed again, the name is not
// said to be gone: it had versions.
func TestRottenHeaderAndLaterRemovals(t *testing.T) {
	const name, hour = "/a/c/heron", 3600 * 100_000
	loc := locate(name, modelBits)
	for what, write := range map[string]func(d *Device, now uint64) error{
		"an older version is removed": func(d *Device, now uint64) error {
			_, err := d.DeleteVersion(loc, versionID(1), at(now+hour), name)
			return err
		},
		"older versions are removed": func(d *Device, now uint64) error {
			_, err := d.DeleteVersions(loc, []format.VersionID{versionID(1), versionID(2)}, at(now+hour), name)
			return err
		},
		"a later version is written and removed": func(d *Device, now uint64) error {
			_, err := d.DeleteVersion(loc, versionID(4), at(now+2*hour), name)
			return errors.Join(doVersion(d, name, versionChange{"put", 5, now + hour}), err,
				doVersion(d, name, versionChange{"remove", 5, now + 2*hour}))
		},
	} {
		mem, d, now := rottenHead(t, name)
		if err := write(d, now); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		for range 2 { // after a restart, too
			var doubt *DoubtError
			if _, err := d.Head(loc); !errors.As(err, &doubt) {
				t.Errorf("%s: HEAD: %v", what, err)
			}
			if _, err := d.Open(loc); !errors.As(err, &doubt) {
				t.Errorf("%s: GET: %v", what, err)
			}
			if err := d.Close(); err != nil {
				t.Fatal(err)
			}
			d = open(t, mem, "/d", Options{})
		}
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
