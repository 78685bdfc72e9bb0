//go:build linux

package vfs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Below is the real file system, seen from one directory. Names below that directory stay there while another one takes
// its name, as a mount point does under a device that is unmounted: nothing is written there and taken for durable.
type Below struct {
	OS
	root string
	dir  *os.File
}

var _ FS = (*Below)(nil)

// OpenBelow opens the directory at root. All names that the methods are given lie below it.
func OpenBelow(root string) (*Below, error) {
	root = filepath.Clean(root)
	dir, err := os.Open(root)
	if err != nil {
		return nil, err
	}
	return &Below{root: root, dir: dir}, nil
}

// Close lets the directory be unmounted. No name can be used any more.
func (b *Below) Close() error { return b.dir.Close() }

// at is the way to a name through the open directory.
func (b *Below) at(name string) string {
	rest, ok := strings.CutPrefix(filepath.Clean(name), b.root)
	if !ok {
		return name
	}
	return fmt.Sprintf("/proc/self/fd/%d/.%s", b.dir.Fd(), rest)
}

// under has an error tell the name that was asked for.
func under(name string, err error) error {
	var failed *fs.PathError
	if errors.As(err, &failed) {
		failed.Path = name
	}
	return err
}

// Open implements FS.
func (b *Below) Open(name string) (File, error) {
	file, err := b.OS.Open(b.at(name))
	return file, under(name, err)
}

// Create implements FS.
func (b *Below) Create(name string) (File, error) {
	file, err := b.OS.Create(b.at(name))
	return file, under(name, err)
}

// CreateTemp implements FS.
func (b *Below) CreateTemp(dir string) (File, error) {
	file, err := b.OS.CreateTemp(b.at(dir))
	return file, under(dir, err)
}

// Link implements FS.
func (b *Below) Link(f File, name string) error { return under(name, b.OS.Link(f, b.at(name))) }

// Remove implements FS.
func (b *Below) Remove(name string) error { return under(name, b.OS.Remove(b.at(name))) }

// Mkdir implements FS.
func (b *Below) Mkdir(name string) error { return under(name, b.OS.Mkdir(b.at(name))) }

// ReadDir implements FS.
func (b *Below) ReadDir(name string) ([]fs.DirEntry, error) {
	entries, err := b.OS.ReadDir(b.at(name))
	return entries, under(name, err)
}

// SyncDir implements FS.
func (b *Below) SyncDir(name string) error { return under(name, b.OS.SyncDir(b.at(name))) }

// OpenDir implements FS.
func (b *Below) OpenDir(name string) (Dir, error) {
	dir, err := b.OS.OpenDir(b.at(name))
	return dir, under(name, err)
}
