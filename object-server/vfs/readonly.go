//go:build linux

package vfs

import (
	"io/fs"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// ReadOnly is the real file system, of which nothing can be changed: files are
// opened for reading alone, and all that would make or remove a name fails with
// fs.ErrPermission.
type ReadOnly struct {
	OS
	// Ahead tells the kernel that files are read from start to end, so that it
	// reads on while the bytes are looked at.
	Ahead bool
}

var _ FS = ReadOnly{}

// aheadBytes are asked of the kernel before they are read.
const aheadBytes = 4 << 20

// Open implements FS.
func (r ReadOnly) Open(name string) (File, error) {
	file, err := openFile(name, unix.O_RDONLY)
	if err != nil || !r.Ahead {
		return file, err
	}
	f := &aheadFile{osFile: file.(*osFile)}
	f.ask(0)
	return f, nil
}

// prefetching holds a place for each file whose start is asked for. The kernel allocates the pages and submits the reads
// within the call, which costs the processor about as much as all checks of the bytes.
var prefetching = make(chan struct{}, 1)

// Prefetch makes the kernel read the start of a file that is opened next, while the caller goes on. It is only a hint:
// it is dropped where another one is under way.
func (r ReadOnly) Prefetch(name string) {
	if !r.Ahead {
		return
	}
	select {
	case prefetching <- struct{}{}:
	default:
		return
	}
	go func() {
		defer func() { <-prefetching }()
		if file, err := r.Open(name); err == nil {
			_ = file.Close()
		}
	}()
}

// aheadFile is read from start to end.
type aheadFile struct {
	*osFile
	asked atomic.Int64 // up to where the kernel reads
}

// ReadAt implements File.
func (f *aheadFile) ReadAt(p []byte, offset int64) (int, error) {
	f.ask(offset)
	return f.osFile.ReadAt(p, offset)
}

// ask makes the kernel read on behind an offset, in large pieces. It is only a
// hint.
func (f *aheadFile) ask(offset int64) {
	asked, from := f.asked.Load(), offset
	if offset <= asked && asked <= offset+aheadBytes {
		if asked > offset+aheadBytes/2 { // enough is under way
			return
		}
		from = asked
	}
	if f.asked.CompareAndSwap(asked, offset+aheadBytes) {
		_ = unix.Fadvise(f.fd, from, offset+aheadBytes-from, unix.FADV_WILLNEED)
	}
}

// Create implements FS.
func (ReadOnly) Create(name string) (File, error) { return nil, refuse("create", name) }

// CreateTemp implements FS.
func (ReadOnly) CreateTemp(dir string) (File, error) { return nil, refuse("create", dir) }

// Link implements FS.
func (ReadOnly) Link(_ File, name string) error { return refuse("link", name) }

// Remove implements FS.
func (ReadOnly) Remove(name string) error { return refuse("remove", name) }

// Mkdir implements FS.
func (ReadOnly) Mkdir(name string) error { return refuse("mkdir", name) }

func refuse(op, name string) error { return &fs.PathError{Op: op, Path: name, Err: fs.ErrPermission} }
