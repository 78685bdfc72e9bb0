//go:build linux

package vfs

import (
	"io/fs"

	"golang.org/x/sys/unix"
)

// ReadOnly is the real file system, of which nothing can be changed: files are
// opened for reading alone, and all that would make or remove a name fails with
// fs.ErrPermission.
type ReadOnly struct{ OS }

var _ FS = ReadOnly{}

// Open implements FS.
func (ReadOnly) Open(name string) (File, error) { return openFile(name, unix.O_RDONLY) }

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
