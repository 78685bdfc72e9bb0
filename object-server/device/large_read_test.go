package device

import (
	"bytes"
	"fmt"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"martlet/object-server/vfs"
)

// readCount counts the bytes that are read of large files past the page cache, and through it.
type readCount struct {
	vfs.FS
	direct, cached atomic.Int64
	isBuffered     atomic.Bool  // the file system has no direct reads
	isBroken       atomic.Bool  // direct reads fail
	broken         atomic.Int64 // those that did
}

func (c *readCount) Open(name string) (vfs.File, error) {
	f, err := c.FS.Open(name)
	if err != nil || !strings.Contains(name, "/large/") {
		return f, err
	}
	c.isBuffered.Store(f.DirectBlock() == 0)
	return &readCountFile{File: f, count: c}, nil
}

type readCountFile struct {
	vfs.File
	count *readCount
}

func (f *readCountFile) ReadAt(p []byte, offset int64) (int, error) {
	n, err := f.File.ReadAt(p, offset)
	f.count.cached.Add(int64(n))
	return n, err
}

func (f *readCountFile) ReadDirect(p []byte, offset int64) (int, error) {
	if f.count.isBroken.Load() {
		f.count.broken.Add(1)
		return 0, syscall.EINVAL
	}
	n, err := f.File.ReadDirect(p, offset)
	f.count.direct.Add(int64(n))
	return n, err
}

// rangeOf reads a range of an object.
func rangeOf(t *testing.T, d *Device, loc Location, off, n int64) []byte {
	t.Helper()
	o := must[*Object](t)(d.Open(loc))
	defer o.Close()
	var b bytes.Buffer
	if err := o.WriteRange(&b, off, n); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// What is read once goes past the page cache, and what is read again soon goes through it. So do small ranges.
func TestLargeReadsPastTheCache(t *testing.T) {
	const mib = 1 << 20
	data := body(7, 2*pastCacheMin+3*mib+1234)
	size := int64(len(data))
	reads := []struct {
		off, n int64
		isPast bool
	}{
		{0, size, true}, {0, size, false}, {0, size, false},
		{pastCacheMin, pastCacheMin, true}, {pastCacheMin + 77, pastCacheMin, false},
		{2*pastCacheMin + 5, size - 2*pastCacheMin - 5, false}, // less than pastCacheMin
	}
	for _, fs := range []*readCount{{FS: vfs.NewMem("/d")}, {FS: vfs.OS{}}} {
		root := "/d"
		if _, isReal := fs.FS.(vfs.OS); isReal {
			root = t.TempDir()
		}
		d := open(t, fs, root, Options{})
		loc := locate("/a/c/o", modelBits)
		must[State](t)(put(d, loc, "/a/c/o", 1, data))
		for i, read := range reads {
			fs.direct.Store(0)
			fs.cached.Store(0)
			if got := rangeOf(t, d, loc, read.off, read.n); !bytes.Equal(got, data[read.off:read.off+read.n]) {
				t.Fatalf("%T, read %d: other bytes", fs.FS, i)
			}
			direct, cached := fs.direct.Load(), fs.cached.Load()
			if isPast := read.isPast && !fs.isBuffered.Load(); isPast && (direct < read.n || cached > 0) || !isPast && direct > 0 {
				t.Errorf("%T, read %d: %d bytes past the cache, %d through it", fs.FS, i, direct, cached)
			}
		}
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// Where a direct read fails, the bytes come through the cache.
func TestABrokenReadPastTheCache(t *testing.T) {
	fs := &readCount{FS: vfs.NewMem("/d")}
	fs.isBroken.Store(true)
	d := open(t, fs, "/d", Options{})
	defer d.Close()
	loc := locate("/a/c/o", modelBits)
	must[State](t)(put(d, loc, "/a/c/o", 1, body(7, pastCacheMin+1234)))
	wantBody(t, d, loc, body(7, pastCacheMin+1234))
	if fs.broken.Load() == 0 || len(d.calls.places) > 0 {
		t.Error(fs.broken.Load(), "direct reads;", len(d.calls.places), "places are taken")
	}
}

// A part counts as read lately for at least ten minutes, and at most twice as long, unless too many others were read.
func TestReadLately(t *testing.T) {
	var r readLately
	later := func(by int64) { r.began -= by }
	part := largePart{1, 0}
	for i, step := range []struct {
		later   int64
		isAgain bool
	}{
		{0, false}, {0, true}, {int64(readLatelyFor) - 1e9, true}, {2e9, true}, {int64(readLatelyFor) + 1e9, true},
		{2*int64(readLatelyFor) + 1e9, false}, {0, true},
	} {
		later(step.later)
		if got := r.again(part); got != step.isAgain {
			t.Errorf("step %d: %v", i, got)
		}
	}
	for i := range uint64(10 * readLatelyMax) {
		r.again(largePart{i + 2, 0})
	}
	if r.again(part) || len(r.now)+len(r.older) > 2*readLatelyMax {
		t.Error(fmt.Sprint(len(r.now), " and ", len(r.older), " parts are remembered"))
	}
}
