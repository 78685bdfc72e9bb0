//go:build linux

package vfs

import (
	"errors"
	"unsafe"

	"golang.org/x/sys/unix"
)

// extent says where bytes of a file lie on the disk.
type extent struct {
	offset, disk, length uint64
}

// anchors is what is known of where a file lies.
type anchors struct {
	extents []extent // nil: nothing is known
	tries   int
}

const (
	// anchorsMax bounds the extents of a file that can be anchored.
	anchorsMax = 1024
	// anchorTries bounds how often a file is anchored again whose bytes were moved.
	anchorTries = 3
)

// Anchor implements File. The file system must be one whose fdatasync is known to
// flush the write cache of the whole disk, whatever file it is of (ext4, XFS), and
// every block must have been written, and be the file's alone: then a write changes
// nothing that is logged but times.
func (f *osFile) Anchor() (bool, error) {
	if f.anchors.extents != nil {
		return true, nil
	}
	if f.anchors.tries >= anchorTries || !f.flushesAll() {
		return false, nil
	}
	f.anchors.tries++
	if err := f.Datasync(); err != nil {
		return false, err
	}
	size, err := f.Size()
	if err != nil {
		return false, err
	}
	all, err := f.extents(0, size)
	if errors.Is(err, errUnanchored) {
		return false, nil
	}
	f.anchors.extents = all
	return err == nil, err
}

// flushesAll tells whether fdatasync of this file is as good as that of any other
// for bytes that are on the disk.
func (f *osFile) flushesAll() bool {
	var s unix.Statfs_t
	if err := unix.Fstatfs(f.fd, &s); err != nil {
		return false
	}
	switch s.Type {
	case unix.EXT4_SUPER_MAGIC:
		return true
	case unix.XFS_SUPER_MAGIC: // but for files on a real-time volume, which is another disk
		flags, err := f.xflags()
		return err == nil && flags&xflagRealtime == 0
	}
	return false
}

// InPlace implements File. The kernel says where the bytes lie now; what it could
// not write past the page cache it writes first (FIEMAP_FLAG_SYNC).
func (f *osFile) InPlace(from, to int64) bool {
	if f.anchors.extents == nil {
		return false
	}
	now, err := f.extents(from, to)
	for at := uint64(from); err == nil && at < uint64(to); {
		was, is := find(f.anchors.extents, at), find(now, at)
		if was == nil || is == nil || was.disk-was.offset != is.disk-is.offset {
			err = errUnanchored
			break
		}
		at = min(was.offset+was.length, is.offset+is.length)
	}
	if err != nil {
		f.anchors.extents = nil
	}
	return err == nil
}

// find returns the extent that has the offset; nil if none.
func find(all []extent, offset uint64) *extent {
	for i := range all {
		if all[i].offset <= offset && offset < all[i].offset+all[i].length {
			return &all[i]
		}
	}
	return nil
}

// errUnanchored says that a write to the file may change more than bytes.
var errUnanchored = errors.New("vfs: blocks are not all written, or shared")

// From linux/fiemap.h and linux/fs.h.
const (
	fiemapRequest   = 0xC020660B // FS_IOC_FIEMAP
	fiemapSync      = 1
	fiemapLast      = 0x1
	fiemapMerged    = 0x1000
	fiemapBatch     = 16
	xflagsRequest   = 0x801c581f // FS_IOC_FSGETXATTR
	xflagRealtime   = 0x1
	xflagsStructure = 28
)

type fiemap struct {
	start, length                 uint64
	flags, mapped, count, ignored uint32
	extents                       [fiemapBatch]fiemapExtent
}

type fiemapExtent struct {
	logical, physical, length uint64
	_                         [2]uint64
	flags                     uint32
	_                         [3]uint32
}

// extents lists where the bytes of a range lie; errUnanchored where one of them
// has no place of its own that was written.
func (f *osFile) extents(from, to int64) ([]extent, error) {
	var all []extent
	for at := uint64(from); at < uint64(to); {
		m := fiemap{start: at, length: uint64(to) - at, flags: fiemapSync, count: fiemapBatch}
		if err := f.ioctl(fiemapRequest, unsafe.Pointer(&m)); err != nil {
			if err == unix.EOPNOTSUPP || err == unix.ENOTTY {
				return nil, errUnanchored
			}
			return nil, wrap("fiemap", f.name, err)
		}
		if m.mapped == 0 || len(all) > anchorsMax {
			return nil, errUnanchored
		}
		for _, e := range m.extents[:m.mapped] {
			if e.flags&^(fiemapLast|fiemapMerged) != 0 || e.logical > at || e.logical+e.length <= at {
				return nil, errUnanchored
			}
			all = append(all, extent{e.logical, e.physical, e.length})
			at = e.logical + e.length
		}
	}
	return all, nil
}

func (f *osFile) xflags() (uint32, error) {
	var b [xflagsStructure]byte
	err := f.ioctl(xflagsRequest, unsafe.Pointer(&b))
	return *(*uint32)(unsafe.Pointer(&b)), err
}

func (f *osFile) ioctl(request uintptr, argument unsafe.Pointer) error {
	for {
		_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(f.fd), request, uintptr(argument))
		if errno == 0 {
			return nil
		}
		if errno != unix.EINTR {
			return errno
		}
	}
}

// Sole implements File: a write lease is given only where no other has the file
// open.
func (f *osFile) Sole() (bool, error) {
	var s unix.Stat_t
	if err := unix.Fstat(f.fd, &s); err != nil {
		return false, wrap("fstat", f.name, err)
	}
	if s.Nlink != 1 {
		return false, nil
	}
	if _, err := unix.FcntlInt(uintptr(f.fd), unix.F_SETLEASE, unix.F_WRLCK); err != nil {
		return false, nil // held by others, or there are no leases here
	}
	_, err := unix.FcntlInt(uintptr(f.fd), unix.F_SETLEASE, unix.F_UNLCK)
	return err == nil, wrap("fcntl", f.name, err)
}
