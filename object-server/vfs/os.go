//go:build linux

package vfs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// OS is the real file system.
type OS struct{}

var _ FS = OS{}

// iovecMax is the number of buffers that one pwritev takes (IOV_MAX).
const iovecMax = 1024

// Open implements FS.
func (OS) Open(name string) (File, error) { return openFile(name, unix.O_RDWR) }

// Create implements FS.
func (OS) Create(name string) (File, error) {
	return openFile(name, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL)
}

// CreateTemp implements FS.
func (OS) CreateTemp(dir string) (File, error) {
	file, err := openFile(dir, unix.O_RDWR|unix.O_TMPFILE)
	// EISDIR is the answer where the flag itself is unknown.
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EISDIR) {
		err = errors.Join(ErrNoTemp, err)
	}
	return file, err
}

// Link implements FS. It goes through /proc, which needs no privilege.
func (OS) Link(f File, name string) error {
	file, ok := f.(*osFile)
	if !ok {
		return &fs.PathError{Op: "link", Path: name, Err: fs.ErrInvalid}
	}
	source := fmt.Sprintf("/proc/self/fd/%d", file.fd)
	err := unix.Linkat(unix.AT_FDCWD, source, unix.AT_FDCWD, name, unix.AT_SYMLINK_FOLLOW)
	return wrap("link", name, err)
}

// Remove implements FS.
func (OS) Remove(name string) error { return os.Remove(name) }

// Mkdir implements FS.
func (OS) Mkdir(name string) error { return wrap("mkdir", name, unix.Mkdir(name, 0o700)) }

// ReadDir implements FS.
func (OS) ReadDir(name string) ([]fs.DirEntry, error) { return os.ReadDir(name) }

// SyncDir implements FS.
func (OS) SyncDir(name string) error {
	fd, err := openRetry(name, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return wrap("open", name, err)
	}
	err = wrap("fsync", name, unix.Fsync(fd))
	return errors.Join(err, wrap("close", name, unix.Close(fd)))
}

// OpenDir implements FS.
func (OS) OpenDir(name string) (Dir, error) {
	fd, err := openRetry(name, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return nil, wrap("open", name, err)
	}
	return &osDir{fd: fd, name: name}, nil
}

type osDir struct {
	fd   int
	name string
}

func (d *osDir) Lock() error {
	return wrap("flock", d.name, unix.Flock(d.fd, unix.LOCK_EX|unix.LOCK_NB))
}

func (d *osDir) SyncFS() error { return wrap("syncfs", d.name, unix.Syncfs(d.fd)) }

// Close releases the lock by itself: a process that was forked a moment ago may
// still hold a copy of the descriptor until it executes its program.
func (d *osDir) Close() error {
	_ = unix.Flock(d.fd, unix.LOCK_UN)
	return wrap("close", d.name, unix.Close(d.fd))
}

func (d *osDir) Usage() (Usage, error) {
	var s unix.Statfs_t
	if err := unix.Fstatfs(d.fd, &s); err != nil {
		return Usage{}, wrap("statfs", d.name, err)
	}
	block := uint64(s.Frsize)
	return Usage{
		Bytes: s.Blocks * block, BytesFree: s.Bavail * block,
		Inodes: s.Files, InodesFree: s.Ffree, Generous: s.Type == unix.XFS_SUPER_MAGIC,
	}, nil
}

// osFile uses the descriptor directly: os.File would register it with the
// poller and take a lock for every call.
type osFile struct {
	fd     int
	direct int // a second descriptor, with O_DIRECT; 0 until needed
	block  int // of direct calls; 0 not yet known, -1 none
	name   string

	anchors anchors // see Anchor
}

func openFile(name string, flags int) (File, error) {
	fd, err := openRetry(name, flags)
	if err != nil {
		return nil, wrap("open", name, err)
	}
	return &osFile{fd: fd, name: name}, nil
}

func openRetry(name string, flags int) (int, error) {
	for {
		fd, err := unix.Open(name, flags|unix.O_CLOEXEC, 0o600)
		if err != unix.EINTR {
			return fd, err
		}
	}
}

func (f *osFile) ReadAt(p []byte, offset int64) (int, error) {
	done := 0
	for done < len(p) {
		n, err := f.pread(f.fd, p[done:], offset+int64(done))
		if err != nil {
			return done, err
		}
		done += n
	}
	return done, nil
}

// pread returns at least one byte, or an error.
func (f *osFile) pread(fd int, p []byte, offset int64) (int, error) {
	for {
		n, err := unix.Pread(fd, p, offset)
		switch {
		case err == unix.EINTR:
		case err != nil:
			return 0, wrap("pread", f.name, err)
		case n == 0:
			return 0, io.EOF
		default:
			return n, nil
		}
	}
}

func (f *osFile) Writev(buffers [][]byte, offset int64) error {
	// Of empty buffers alone pwritev writes nothing, and that would look like a device that takes nothing.
	pending := skip(append(make([][]byte, 0, len(buffers)), buffers...), 0)
	for len(pending) > 0 {
		n, err := unix.Pwritev(f.fd, pending[:min(len(pending), iovecMax)], offset)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return wrap("pwritev", f.name, err)
		}
		if n == 0 {
			return wrap("pwritev", f.name, unix.EIO)
		}
		offset += int64(n)
		pending = skip(pending, n)
	}
	return nil
}

// skip drops the first n bytes of buffers, and buffers that are empty.
func skip(buffers [][]byte, n int) [][]byte {
	for len(buffers) > 0 && n >= len(buffers[0]) {
		n -= len(buffers[0])
		buffers = buffers[1:]
	}
	if len(buffers) > 0 {
		buffers[0] = buffers[0][n:]
	}
	return buffers
}

// DirectBlock asks the file system, which can answer since Linux 6.1.
func (f *osFile) DirectBlock() int {
	if f.block == 0 {
		f.block = -1
		var s unix.Statx_t
		err := unix.Statx(f.fd, "", unix.AT_EMPTY_PATH, unix.STATX_DIOALIGN, &s)
		if err == nil && s.Mask&unix.STATX_DIOALIGN != 0 && s.Dio_offset_align > 0 && s.Dio_mem_align <= DirectAlignment {
			f.block = int(s.Dio_offset_align)
		}
	}
	return max(f.block, 0)
}

// openDirect makes sure that there is a descriptor for calls past the page cache.
func (f *osFile) openDirect() error {
	if f.direct != 0 {
		return nil
	}
	fd, err := openRetry(fmt.Sprintf("/proc/self/fd/%d", f.fd), unix.O_RDWR|unix.O_DIRECT)
	if err != nil {
		return wrap("open", f.name, err)
	}
	f.direct = fd
	return nil
}

func (f *osFile) ReadDirect(p []byte, offset int64) (int, error) {
	if err := f.openDirect(); err != nil {
		return 0, err
	}
	done := 0
	for done < len(p) {
		n, err := f.pread(f.direct, p[done:], offset+int64(done))
		if err != nil {
			return done, err
		}
		if done += n; n%f.DirectBlock() != 0 { // the end of the file, behind which no block begins
			return done, io.EOF
		}
	}
	return done, nil
}

func (f *osFile) WriteDirect(p []byte, offset int64) error {
	if err := f.openDirect(); err != nil {
		return err
	}
	for len(p) > 0 {
		n, err := unix.Pwrite(f.direct, p, offset)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return wrap("pwrite", f.name, err)
		}
		if n == 0 {
			return wrap("pwrite", f.name, unix.EIO)
		}
		offset += int64(n)
		p = p[n:]
	}
	return nil
}

// Datasync is not repeated on any error: after a failure the kernel may have
// dropped the pages and would report success.
func (f *osFile) Datasync() error { return wrap("fdatasync", f.name, unix.Fdatasync(f.fd)) }

func (f *osFile) Allocate(size int64) error {
	err := unix.Fallocate(f.fd, unix.FALLOC_FL_KEEP_SIZE, 0, size)
	if err == unix.EOPNOTSUPP || err == unix.EINTR {
		return nil // a hint only: the writes themselves find out
	}
	return wrap("fallocate", f.name, err)
}

func (f *osFile) Truncate(size int64) error {
	return wrap("ftruncate", f.name, unix.Ftruncate(f.fd, size))
}

func (f *osFile) Size() (int64, error) {
	var s unix.Stat_t
	err := unix.Fstat(f.fd, &s)
	return s.Size, wrap("fstat", f.name, err)
}

// Clone tries no copy_file_range: on file systems that share bytes FICLONE does
// it, and elsewhere the bytes have to be read for their checksums anyway.
func (f *osFile) Clone(source File) error {
	from, ok := source.(*osFile)
	if !ok {
		return &fs.PathError{Op: "clone", Path: f.name, Err: fs.ErrInvalid}
	}
	for {
		err := unix.IoctlFileClone(f.fd, from.fd)
		switch err {
		case unix.EINTR:
			continue
		case unix.EOPNOTSUPP, unix.ENOTTY, unix.ENOSYS, unix.EXDEV, unix.EINVAL, unix.EPERM:
			return &fs.PathError{Op: "clone", Path: f.name, Err: errors.Join(ErrNoClone, err)}
		}
		return wrap("clone", f.name, err)
	}
}

func (f *osFile) SetXattr(name string, value []byte) error {
	err := unix.Fsetxattr(f.fd, name, value, 0)
	switch err {
	case unix.ENOTSUP, unix.ENOSPC, unix.E2BIG, unix.ERANGE, unix.EPERM:
		return &fs.PathError{Op: "fsetxattr", Path: f.name, Err: ErrNoXattr}
	}
	return wrap("fsetxattr", f.name, err)
}

func (f *osFile) GetXattr(name string) ([]byte, error) {
	value := make([]byte, 64<<10)
	n, err := unix.Fgetxattr(f.fd, name, value)
	switch err {
	case unix.ENODATA:
		return nil, &fs.PathError{Op: "fgetxattr", Path: f.name, Err: ErrNoXattr}
	case unix.ENOTSUP:
		return nil, &fs.PathError{Op: "fgetxattr", Path: f.name, Err: ErrXattrUnsupported}
	}
	if err != nil {
		return nil, wrap("fgetxattr", f.name, err)
	}
	return value[:n], nil
}

func (f *osFile) RemoveXattr(name string) error {
	err := unix.Fremovexattr(f.fd, name)
	switch err {
	case unix.ENODATA, unix.ENOTSUP, unix.EPERM:
		return &fs.PathError{Op: "fremovexattr", Path: f.name, Err: ErrNoXattr}
	}
	return wrap("fremovexattr", f.name, err)
}

func (f *osFile) Close() error {
	err := wrap("close", f.name, unix.Close(f.fd))
	if f.direct != 0 {
		err = errors.Join(err, wrap("close", f.name, unix.Close(f.direct)))
	}
	return err
}

// wrap adds operation and name, and makes the errors that callers tell apart
// those of this package.
func wrap(op, name string, err error) error {
	switch err {
	case nil:
		return nil
	case unix.ENOSPC, unix.EDQUOT:
		err = errors.Join(ErrNoSpace, err)
	case unix.EWOULDBLOCK:
		err = errors.Join(ErrLocked, err)
	}
	return &fs.PathError{Op: op, Path: name, Err: err}
}
