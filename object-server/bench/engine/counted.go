package main

import (
	"sync/atomic"

	"martlet/object-server/vfs"
)

// counted is a file system that counts what the engine asks of it.
type counted struct {
	vfs.FS
	reads, readBytes, opens       atomic.Uint64
	writes, writtenBytes, flushes atomic.Uint64
	skipFlushes                   atomic.Bool // for filling only: a flush does nothing
}

// Open implements vfs.FS.
func (c *counted) Open(name string) (vfs.File, error) {
	c.opens.Add(1)
	return c.file(c.FS.Open(name))
}

// Create implements vfs.FS.
func (c *counted) Create(name string) (vfs.File, error) { return c.file(c.FS.Create(name)) }

// CreateTemp implements vfs.FS.
func (c *counted) CreateTemp(dir string) (vfs.File, error) { return c.file(c.FS.CreateTemp(dir)) }

func (c *counted) file(f vfs.File, err error) (vfs.File, error) {
	if err != nil {
		return nil, err
	}
	return &countedFile{f, c}, nil
}

// Link implements vfs.FS.
func (c *counted) Link(f vfs.File, name string) error {
	if wrapped, ok := f.(*countedFile); ok {
		f = wrapped.File
	}
	return c.FS.Link(f, name)
}

// SyncDir implements vfs.FS.
func (c *counted) SyncDir(name string) error {
	return c.flush(func() error { return c.FS.SyncDir(name) })
}

// OpenDir implements vfs.FS.
func (c *counted) OpenDir(name string) (vfs.Dir, error) {
	d, err := c.FS.OpenDir(name)
	if err != nil {
		return nil, err
	}
	return &countedDir{d, c}, nil
}

func (c *counted) flush(do func() error) error {
	if c.skipFlushes.Load() {
		return nil
	}
	c.flushes.Add(1)
	return do()
}

type countedDir struct {
	vfs.Dir
	fs *counted
}

func (d *countedDir) SyncFS() error { return d.fs.flush(d.Dir.SyncFS) }

type countedFile struct {
	vfs.File
	fs *counted
}

func (f *countedFile) ReadAt(p []byte, offset int64) (int, error) {
	f.fs.reads.Add(1)
	n, err := f.File.ReadAt(p, offset)
	f.fs.readBytes.Add(uint64(n))
	return n, err
}

func (f *countedFile) ReadDirect(p []byte, offset int64) (int, error) {
	f.fs.reads.Add(1)
	n, err := f.File.ReadDirect(p, offset)
	f.fs.readBytes.Add(uint64(n))
	return n, err
}

func (f *countedFile) Writev(buffers [][]byte, offset int64) error {
	f.fs.writes.Add(1)
	for _, b := range buffers {
		f.fs.writtenBytes.Add(uint64(len(b)))
	}
	return f.File.Writev(buffers, offset)
}

func (f *countedFile) Datasync() error { return f.fs.flush(f.File.Datasync) }
