package vfs

import (
	"io/fs"
	"syscall"
)

// BadSectors wraps a file system whose disk cannot read some bytes, as after a
// latent sector error: a read that touches them fails as a whole, and fails again.
type BadSectors struct {
	FS
	isBad func(name string, from, to int64) bool
}

// NewBadSectors returns fs. Reads of bytes from..to of a file fail with EIO where
// isBad says so; it must be safe for concurrent use.
func NewBadSectors(fs FS, isBad func(name string, from, to int64) bool) *BadSectors {
	return &BadSectors{FS: fs, isBad: isBad}
}

// Open implements FS.
func (b *BadSectors) Open(name string) (File, error) { return b.file(name, b.FS.Open) }

// Create implements FS.
func (b *BadSectors) Create(name string) (File, error) { return b.file(name, b.FS.Create) }

func (b *BadSectors) file(name string, do func(string) (File, error)) (File, error) {
	file, err := do(name)
	if err != nil {
		return nil, err
	}
	return &badFile{File: file, disk: b, name: name}, nil
}

// Link implements FS.
func (b *BadSectors) Link(file File, name string) error {
	if bad, ok := file.(*badFile); ok {
		file = bad.File
	}
	return b.FS.Link(file, name)
}

// badFile is a file on bad sectors.
type badFile struct {
	File
	disk *BadSectors
	name string
}

// ReadAt implements File.
func (f *badFile) ReadAt(p []byte, offset int64) (int, error) {
	if f.disk.isBad(f.name, offset, offset+int64(len(p))) {
		return 0, &fs.PathError{Op: "pread", Path: f.name, Err: syscall.EIO}
	}
	return f.File.ReadAt(p, offset)
}

// ReadDirect implements File.
func (f *badFile) ReadDirect(p []byte, offset int64) (int, error) {
	if f.disk.isBad(f.name, offset, offset+int64(len(p))) {
		return 0, &fs.PathError{Op: "pread", Path: f.name, Err: syscall.EIO}
	}
	return f.File.ReadDirect(p, offset)
}

// Clone implements File.
func (f *badFile) Clone(source File) error {
	if bad, ok := source.(*badFile); ok {
		source = bad.File
	}
	return f.File.Clone(source)
}
