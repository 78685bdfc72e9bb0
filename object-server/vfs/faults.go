package vfs

import (
	"io/fs"
	"sync"
)

// Faults wraps a file system and lets a function decide which operations fail.
type Faults struct {
	FS
	mu     sync.Mutex
	decide func(op string, name string) error
}

// NewFaults returns fs with operations failing as decide says. decide gets the
// operation ("open", "create", "temp", "link", "remove", "mkdir", "readdir",
// "syncdir", "syncfs", "write", "read", "datasync", "truncate", "allocate",
// "clone") and the name; an error other than nil is returned instead of doing it. A failing
// write does its first half, as a real one may.
func NewFaults(fs FS, decide func(op, name string) error) *Faults {
	return &Faults{FS: fs, decide: decide}
}

func (f *Faults) check(op, name string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.decide(op, name)
}

// Open implements FS.
func (f *Faults) Open(name string) (File, error) { return f.file("open", name, f.FS.Open) }

// Create implements FS.
func (f *Faults) Create(name string) (File, error) { return f.file("create", name, f.FS.Create) }

// CreateTemp implements FS.
func (f *Faults) CreateTemp(dir string) (File, error) { return f.file("temp", dir, f.FS.CreateTemp) }

func (f *Faults) file(op, name string, do func(string) (File, error)) (File, error) {
	if err := f.check(op, name); err != nil {
		return nil, err
	}
	file, err := do(name)
	if err != nil {
		return nil, err
	}
	return &faultFile{File: file, faults: f, name: name}, nil
}

// Link implements FS.
func (f *Faults) Link(file File, name string) error {
	if err := f.check("link", name); err != nil {
		return err
	}
	return f.FS.Link(unwrap(file), name)
}

// unwrap returns the file that the wrapped file system knows.
func unwrap(file File) File {
	if wrapped, ok := file.(*faultFile); ok {
		return wrapped.File
	}
	return file
}

// Remove implements FS.
func (f *Faults) Remove(name string) error {
	if err := f.check("remove", name); err != nil {
		return err
	}
	return f.FS.Remove(name)
}

// Mkdir implements FS.
func (f *Faults) Mkdir(name string) error {
	if err := f.check("mkdir", name); err != nil {
		return err
	}
	return f.FS.Mkdir(name)
}

// ReadDir implements FS.
func (f *Faults) ReadDir(name string) ([]fs.DirEntry, error) {
	if err := f.check("readdir", name); err != nil {
		return nil, err
	}
	return f.FS.ReadDir(name)
}

// SyncDir implements FS.
func (f *Faults) SyncDir(name string) error {
	if err := f.check("syncdir", name); err != nil {
		return err
	}
	return f.FS.SyncDir(name)
}

// OpenDir implements FS.
func (f *Faults) OpenDir(name string) (Dir, error) {
	dir, err := f.FS.OpenDir(name)
	if err != nil {
		return nil, err
	}
	return &faultDir{Dir: dir, faults: f, name: name}, nil
}

type faultDir struct {
	Dir
	faults *Faults
	name   string
}

func (d *faultDir) SyncFS() error {
	if err := d.faults.check("syncfs", d.name); err != nil {
		return err
	}
	return d.Dir.SyncFS()
}

type faultFile struct {
	File
	faults *Faults
	name   string
}

func (f *faultFile) ReadAt(p []byte, offset int64) (int, error) {
	if err := f.faults.check("read", f.name); err != nil {
		return 0, err
	}
	return f.File.ReadAt(p, offset)
}

func (f *faultFile) ReadDirect(p []byte, offset int64) (int, error) {
	if err := f.faults.check("read", f.name); err != nil {
		return 0, err
	}
	return f.File.ReadDirect(p, offset)
}

func (f *faultFile) Writev(buffers [][]byte, offset int64) error {
	if err := f.faults.check("write", f.name); err != nil {
		half := buffers[:len(buffers)/2]
		if len(buffers) == 1 {
			half = [][]byte{buffers[0][:len(buffers[0])/2]}
		}
		_ = f.File.Writev(half, offset) // the fault is what the caller sees
		return err
	}
	return f.File.Writev(buffers, offset)
}

func (f *faultFile) WriteDirect(p []byte, offset int64) error {
	if err := f.faults.check("write", f.name); err != nil {
		_ = f.File.WriteDirect(p[:len(p)/2/sectorSize*sectorSize], offset) // the fault is what the caller sees
		return err
	}
	return f.File.WriteDirect(p, offset)
}

func (f *faultFile) Datasync() error {
	if err := f.faults.check("datasync", f.name); err != nil {
		return err
	}
	return f.File.Datasync()
}

func (f *faultFile) Anchor() (bool, error) {
	if err := f.faults.check("datasync", f.name); err != nil {
		return false, err
	}
	return f.File.Anchor()
}

func (f *faultFile) Truncate(size int64) error {
	if err := f.faults.check("truncate", f.name); err != nil {
		return err
	}
	return f.File.Truncate(size)
}

func (f *faultFile) Allocate(size int64) error {
	if err := f.faults.check("allocate", f.name); err != nil {
		return err
	}
	return f.File.Allocate(size)
}

func (f *faultFile) Clone(source File) error {
	if err := f.faults.check("clone", f.name); err != nil {
		return err
	}
	return f.File.Clone(unwrap(source))
}
