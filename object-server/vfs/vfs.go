package vfs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
)

// Errors that callers tell apart, whatever the implementation; test with
// errors.Is. Missing and existing names are fs.ErrNotExist and fs.ErrExist.
var (
	// ErrNoSpace says that bytes, inodes or quota have run out.
	ErrNoSpace = errors.New("no space left on device")
	// ErrLocked says that another process holds the lock.
	ErrLocked = errors.New("locked by another process")
	// ErrNoXattr says that an extended attribute cannot be stored or is missing.
	ErrNoXattr = errors.New("extended attribute unavailable")
	// ErrXattrUnsupported is the ErrNoXattr of GetXattr on a file system without any.
	ErrXattrUnsupported = fmt.Errorf("%w: the file system has none", ErrNoXattr)
	// ErrNoTemp says that the file system has no files without a name.
	ErrNoTemp = errors.New("files without a name are not supported")
	// ErrNoClone says that the file system cannot let two files share bytes.
	ErrNoClone = errors.New("files cannot share their bytes")
)

// FS is a file system. All methods are safe for concurrent use.
type FS interface {
	// Open opens an existing file for reading and writing.
	Open(name string) (File, error)
	// Create makes a file that must not exist. Its name is durable only after
	// SyncDir of the directory, or SyncFS.
	Create(name string) (File, error)
	// CreateTemp makes a file without a name in the file system of dir. It
	// vanishes when closed, unless Link gave it a name. ErrNoTemp where that
	// cannot be done.
	CreateTemp(dir string) (File, error)
	// Link names a file made by CreateTemp, or gives another one a further name.
	// The name must not exist, and is durable after SyncDir.
	Link(f File, name string) error
	Remove(name string) error
	Mkdir(name string) error
	ReadDir(name string) ([]fs.DirEntry, error)
	// SyncDir makes the names in a directory durable.
	SyncDir(name string) error
	// OpenDir opens a directory for locking, and for flushing the file system.
	OpenDir(name string) (Dir, error)
}

// Dir is an open directory.
type Dir interface {
	// Lock takes an exclusive lock without waiting; ErrLocked if another
	// process has it. Close and the end of the process release it.
	Lock() error
	// SyncFS flushes the whole file system: all data and all names. It reports
	// every write-back error since OpenDir or the last SyncFS.
	SyncFS() error
	// Usage tells the size of the file system and the room left in it.
	Usage() (Usage, error)
	io.Closer
}

// File is an open file. ReadAt follows io.ReaderAt.
type File interface {
	io.ReaderAt
	io.Closer
	// Writev writes all buffers one after the other from offset on, or fails;
	// a failure may leave any part of them written.
	Writev(buffers [][]byte, offset int64) error
	// DirectBlock is the unit in bytes of ReadDirect and WriteDirect; 0 where they cannot be used.
	DirectBlock() int
	// ReadDirect reads past the page cache: whole blocks at a multiple of DirectBlock, into
	// memory that is aligned to DirectAlignment. At the end of the file it returns fewer bytes
	// and io.EOF. Neither it nor WriteDirect may run twice at a time on a file.
	ReadDirect(p []byte, offset int64) (int, error)
	// WriteDirect writes past the page cache: whole blocks at a multiple of
	// DirectBlock, from memory that is aligned to DirectAlignment. It makes nothing durable.
	WriteDirect(p []byte, offset int64) error
	// Datasync makes the bytes and the length durable, but not the name. After
	// a failure, what was not durable may be lost for good. It also makes durable
	// what was written to other files of the file system for which InPlace is true.
	Datasync() error
	// Anchor makes the file durable and remembers where its bytes lie on the disk.
	// False where the file system gives no such promise. It and InPlace are for the
	// one that calls WriteDirect.
	Anchor() (bool, error)
	// InPlace tells, after WriteDirect, whether these bytes still lie where Anchor
	// found them, so that they alone have changed, and no length and no place.
	// Datasync of any file of the file system makes them durable then.
	InPlace(from, to int64) bool
	// Sole tells whether the file has one name, and no other has it open, in any
	// process. False where that cannot be known.
	Sole() (bool, error)
	// Allocate reserves room for size bytes without changing the length.
	Allocate(size int64) error
	// Truncate sets the length, and gives back the room that is reserved behind it.
	Truncate(size int64) error
	Size() (int64, error)
	// Clone makes an empty file share all bytes of source, which must be of the
	// same file system and must not change meanwhile; durable after Datasync.
	// ErrNoClone where that cannot be done: nothing has changed then.
	Clone(source File) error
	SetXattr(name string, value []byte) error
	// GetXattr and RemoveXattr return ErrNoXattr if there is none.
	GetXattr(name string) ([]byte, error)
	RemoveXattr(name string) error
}

// Usage is the room in a file system, in bytes and in inodes.
type Usage struct {
	Bytes, BytesFree   uint64 // BytesFree is what an ordinary user may still write
	Inodes, InodesFree uint64 // both 0 where inodes are made as needed
	Generous           bool   // a growing file gets room ahead, up to its own size (XFS), unless Allocate has given it some
}

// MakeDirectories makes a directory and those between it and the root, durably. Those
// that are there already are left as they are.
func MakeDirectories(files FS, root, directory string) error {
	if directory == root {
		return nil
	}
	parent := filepath.Dir(directory)
	if err := MakeDirectories(files, root, parent); err != nil {
		return err
	}
	if err := files.Mkdir(directory); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return files.SyncDir(parent)
}
