package device

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"martlet/object-server/vfs"
)

// Segments written past the page cache end in zeros up to the block. A start
// without a clean stop before it takes them for what they are: it goes on in the
// same segments, and finds every record.
func TestDirectSegmentsGoOn(t *testing.T) {
	mem := vfs.NewMem("/d")
	options := Options{SyncMethod: SyncDirect}
	stored := 0
	for range 4 {
		d := open(t, mem, "/d", options)
		for range 12 {
			name := fmt.Sprint(stored)
			must[State](t)(put(d, locate(name, 1), name, 1, body(uint64(stored), 700+37*stored)))
			stored++
		}
		for i := range stored {
			wantBody(t, d, locate(fmt.Sprint(i), 1), body(uint64(i), 700+37*i))
		}
		clone := mem.KillClone()
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
		mem = clone
	}
	segments := 0
	for name, size := range files(t, mem) {
		if strings.HasSuffix(name, ".bundle") {
			segments++
			if size%512 != 0 {
				t.Errorf("%s has %d bytes", name, size)
			}
		}
	}
	if segments != 2 {
		t.Errorf("%d segments for 2 partitions", segments)
	}
}

// The same on a real file system, and with buffered appends in between.
func TestDirectAndBuffered(t *testing.T) {
	root := t.TempDir()
	stored := 0
	for i, method := range []SyncMethod{SyncDirect, SyncAuto, SyncDirect, SyncJournal, SyncDirect} {
		d := open(t, vfs.OS{}, root, Options{SyncMethod: method, JournalBytes: 1 << 20})
		for range 10 {
			name := fmt.Sprint(stored)
			must[State](t)(put(d, locate(name, 1), name, 1, body(uint64(stored), 300+131*stored)))
			stored++
		}
		for n := range stored {
			wantBody(t, d, locate(fmt.Sprint(n), 1), body(uint64(n), 300+131*n))
		}
		if err := d.Close(); err != nil {
			t.Fatal(i, err)
		}
	}
}

// directCount counts the bytes that files without a name get past the page cache, and through it.
type directCount struct {
	vfs.FS
	direct, cached atomic.Int64
	isBuffered     atomic.Bool // the file system has no direct writes
}

func (c *directCount) CreateTemp(dir string) (vfs.File, error) {
	f, err := c.FS.CreateTemp(dir)
	if err != nil {
		return nil, err
	}
	c.isBuffered.Store(f.DirectBlock() == 0)
	return &directCountFile{File: f, count: c}, nil
}

func (c *directCount) Link(f vfs.File, name string) error {
	return c.FS.Link(f.(*directCountFile).File, name)
}

type directCountFile struct {
	vfs.File
	count *directCount
}

func (f *directCountFile) WriteDirect(p []byte, offset int64) error {
	f.count.direct.Add(int64(len(p)))
	return f.File.WriteDirect(p, offset)
}

func (f *directCountFile) Writev(buffers [][]byte, offset int64) error {
	for _, b := range buffers {
		f.count.cached.Add(int64(len(b)))
	}
	return f.File.Writev(buffers, offset)
}

// A large object does not drive small ones out of the page cache.
func TestLargeFilesPastTheCache(t *testing.T) {
	const size, tail = 5*largeBuffer + 1234, 1234
	for _, fs := range []*directCount{{FS: vfs.NewMem("/d")}, {FS: vfs.OS{}}} {
		root := "/d"
		if _, isReal := fs.FS.(vfs.OS); isReal {
			root = t.TempDir()
		}
		d := open(t, fs, root, Options{})
		loc := locate("/a/c/o", modelBits)
		must[State](t)(put(d, loc, "/a/c/o", 1, body(7, size)))
		wantBody(t, d, loc, body(7, size))
		direct, cached := fs.direct.Load(), fs.cached.Load()
		if fs.isBuffered.Load() {
			t.Logf("%T has no direct writes", fs.FS)
			direct, cached = direct+cached-tail, tail
		}
		if direct != size-tail || cached != tail {
			t.Errorf("%T: %d bytes past the cache, %d through it", fs.FS, direct, cached)
		}
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
