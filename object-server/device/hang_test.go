package device

import (
	"strings"
	"sync"
	"testing"
	"time"

	"martlet/object-server/vfs"
)

// hanging is a file system of which chosen operations wait until they are let go, as
// on a disk that does not answer. The operations are named as vfs.NewFaults does.
type hanging struct {
	vfs.FS
	hangs func(op, name string) bool

	mu      sync.Mutex
	entered chan struct{} // gets a token for each operation that begins to wait
	release chan struct{} // closed by letGo
}

func newHanging(fs vfs.FS, hangs func(op, name string) bool) *hanging {
	return &hanging{FS: fs, hangs: hangs, entered: make(chan struct{}, 1<<16), release: make(chan struct{})}
}

func (h *hanging) pass(op, name string) {
	h.mu.Lock()
	waits := h.hangs(op, name)
	h.mu.Unlock()
	if waits {
		h.entered <- struct{}{}
		<-h.release
	}
}

// set changes which operations hang from now on.
func (h *hanging) set(hangs func(op, name string) bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.hangs = hangs
}

// letGo ends all waits, and the hanging.
func (h *hanging) letGo() {
	h.set(never)
	close(h.release)
}

func never(string, string) bool { return false }

func (h *hanging) Open(name string) (vfs.File, error) {
	h.pass("open", name)
	return h.file(name)(h.FS.Open(name))
}

func (h *hanging) Create(name string) (vfs.File, error) {
	h.pass("create", name)
	return h.file(name)(h.FS.Create(name))
}

func (h *hanging) CreateTemp(dir string) (vfs.File, error) {
	h.pass("temp", dir)
	return h.file(dir)(h.FS.CreateTemp(dir))
}

func (h *hanging) Link(f vfs.File, name string) error {
	if wrapped, ok := f.(*hangingFile); ok {
		f = wrapped.File
	}
	return h.FS.Link(f, name)
}

func (h *hanging) SyncDir(name string) error {
	h.pass("syncdir", name)
	return h.FS.SyncDir(name)
}

func (h *hanging) OpenDir(name string) (vfs.Dir, error) {
	dir, err := h.FS.OpenDir(name)
	return &hangingDir{dir, h, name}, err
}

func (h *hanging) file(name string) func(f vfs.File, err error) (vfs.File, error) {
	return func(f vfs.File, err error) (vfs.File, error) {
		if err != nil {
			return nil, err
		}
		return &hangingFile{f, h, name}, nil
	}
}

type hangingDir struct {
	vfs.Dir
	fs   *hanging
	name string
}

func (d *hangingDir) SyncFS() error {
	d.fs.pass("syncfs", d.name)
	return d.Dir.SyncFS()
}

func (d *hangingDir) Usage() (vfs.Usage, error) {
	d.fs.pass("usage", d.name)
	return d.Dir.Usage()
}

type hangingFile struct {
	vfs.File
	fs   *hanging
	name string
}

func (f *hangingFile) ReadAt(p []byte, offset int64) (int, error) {
	f.fs.pass("read", f.name)
	return f.File.ReadAt(p, offset)
}

func (f *hangingFile) ReadDirect(p []byte, offset int64) (int, error) {
	f.fs.pass("read", f.name)
	return f.File.ReadDirect(p, offset)
}

func (f *hangingFile) Writev(buffers [][]byte, offset int64) error {
	f.fs.pass("write", f.name)
	return f.File.Writev(buffers, offset)
}

func (f *hangingFile) WriteDirect(p []byte, offset int64) error {
	f.fs.pass("direct", f.name)
	return f.File.WriteDirect(p, offset)
}

func (f *hangingFile) Datasync() error {
	f.fs.pass("datasync", f.name)
	return f.File.Datasync()
}

// patience is how long something may take that should not wait for a hanging disk.
const patience = time.Minute

// within runs f and fails if that takes longer than patience.
func within(t testing.TB, what string, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	select {
	case <-done:
	case <-time.After(patience):
		t.Errorf("%s waits for what hangs", what)
	}
}

// inPartition places a name in a partition of the test's choice.
func inPartition(name string, partition uint32) Location {
	at := locate(name, 8)
	at.Partition = partition
	return at
}

// While a partition is opened, which may take seconds, everything in open partitions
// goes on, and so do the figures; also when yet another partition is used for the
// first time.
func TestOpeningAPartitionStallsNoOther(t *testing.T) {
	mem := vfs.NewMem("/d")
	d := open(t, mem, "/d", Options{})
	for p, name := range []string{"0", "1", "2"} {
		must[State](t)(put(d, inPartition(name, uint32(p)), name, 1, body(uint64(p), 300)))
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	fs := newHanging(mem, func(op, name string) bool { return op == "open" && strings.HasPrefix(name, "/d/bundles/0/") })
	d = open(t, fs, "/d", Options{})
	defer d.Close()
	wantBody(t, d, inPartition("2", 2), body(2, 300))
	opened := make(chan error, 1)
	go func() {
		_, _, err := get(d, inPartition("0", 0))
		opened <- err
	}()
	<-fs.entered
	within(t, "Stats", func() { d.Stats() })
	within(t, "the first GET of another partition", func() { wantBody(t, d, inPartition("1", 1), body(1, 300)) })
	within(t, "a GET in an open partition", func() { wantBody(t, d, inPartition("2", 2), body(2, 300)) })
	within(t, "a PUT in an open partition", func() {
		_, _ = put(d, inPartition("2", 2), "2", 2, body(9, 300))
	})
	fs.letGo()
	if err := <-opened; err != nil {
		t.Error(err)
	}
}

// The committer does not wait for the directory of a large object to be flushed.
func TestLinkingALargeObjectStallsNoOther(t *testing.T) {
	fs := newHanging(vfs.NewMem("/d"), func(op, name string) bool { return op == "syncdir" && strings.HasSuffix(name, "/large") })
	d := open(t, fs, "/d", Options{SpillBytes: 1000, SegmentBytes: 8 << 10, noFloor: true})
	defer d.Close()
	must[State](t)(put(d, inPartition("other", 2), "other", 1, body(1, 300)))
	linked := make(chan error, 1)
	go func() {
		_, err := put(d, inPartition("big", 1), "big", 1, body(2, 5000))
		linked <- err
	}()
	<-fs.entered
	// The first record of that partition needs a new segment, and its directories.
	within(t, "a PUT to the same partition", func() {
		_, _ = put(d, inPartition("small", 1), "small", 1, body(3, 300))
	})
	within(t, "a PUT to another partition", func() {
		_, _ = put(d, inPartition("other", 2), "other", 2, body(4, 300))
	})
	fs.letGo()
	if err := <-linked; err != nil {
		t.Error(err)
	}
	wantBody(t, d, inPartition("big", 1), body(2, 5000))
}
