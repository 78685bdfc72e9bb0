package main

import "github.com/hanwen/go-fuse/v2/fuse"

// disk lets every call that a real disk answers wait while it hangs.
type disk struct {
	fuse.RawFileSystem
	illness *illness
}

// The methods implement fuse.RawFileSystem.

func (d *disk) Lookup(cancel <-chan struct{}, header *fuse.InHeader, name string, out *fuse.EntryOut) fuse.Status {
	d.illness.wait()
	return d.RawFileSystem.Lookup(cancel, header, name, out)
}

func (d *disk) GetAttr(cancel <-chan struct{}, in *fuse.GetAttrIn, out *fuse.AttrOut) fuse.Status {
	d.illness.wait()
	return d.RawFileSystem.GetAttr(cancel, in, out)
}

func (d *disk) SetAttr(cancel <-chan struct{}, in *fuse.SetAttrIn, out *fuse.AttrOut) fuse.Status {
	d.illness.wait()
	return d.RawFileSystem.SetAttr(cancel, in, out)
}

func (d *disk) Mkdir(cancel <-chan struct{}, in *fuse.MkdirIn, name string, out *fuse.EntryOut) fuse.Status {
	if status := d.illness.waitForSpace(); !status.Ok() {
		return status
	}
	return d.RawFileSystem.Mkdir(cancel, in, name, out)
}

func (d *disk) Unlink(cancel <-chan struct{}, header *fuse.InHeader, name string) fuse.Status {
	d.illness.wait()
	return d.RawFileSystem.Unlink(cancel, header, name)
}

func (d *disk) Link(cancel <-chan struct{}, in *fuse.LinkIn, name string, out *fuse.EntryOut) fuse.Status {
	if status := d.illness.waitForSpace(); !status.Ok() {
		return status
	}
	return d.RawFileSystem.Link(cancel, in, name, out)
}

func (d *disk) Create(cancel <-chan struct{}, in *fuse.CreateIn, name string, out *fuse.CreateOut) fuse.Status {
	if status := d.illness.waitForSpace(); !status.Ok() {
		return status
	}
	return d.RawFileSystem.Create(cancel, in, name, out)
}

// Tmpfile is refused, as by file systems that have no files without a name.
func (d *disk) Tmpfile(<-chan struct{}, *fuse.CreateIn, *fuse.CreateOut) fuse.Status {
	d.illness.wait()
	return fuse.Status(95) // EOPNOTSUPP
}

func (d *disk) Open(cancel <-chan struct{}, in *fuse.OpenIn, out *fuse.OpenOut) fuse.Status {
	d.illness.wait()
	return d.RawFileSystem.Open(cancel, in, out)
}

func (d *disk) Read(cancel <-chan struct{}, in *fuse.ReadIn, p []byte) (fuse.ReadResult, fuse.Status) {
	d.illness.wait()
	return d.RawFileSystem.Read(cancel, in, p)
}

func (d *disk) Write(cancel <-chan struct{}, in *fuse.WriteIn, p []byte) (uint32, fuse.Status) {
	if status := d.illness.waitForSpace(); !status.Ok() {
		return 0, status
	}
	return d.RawFileSystem.Write(cancel, in, p)
}

func (d *disk) Fsync(cancel <-chan struct{}, in *fuse.FsyncIn) fuse.Status {
	d.illness.wait()
	return d.RawFileSystem.Fsync(cancel, in)
}

func (d *disk) FsyncDir(cancel <-chan struct{}, in *fuse.FsyncIn) fuse.Status {
	d.illness.wait()
	return d.RawFileSystem.FsyncDir(cancel, in)
}

func (d *disk) OpenDir(cancel <-chan struct{}, in *fuse.OpenIn, out *fuse.OpenOut) fuse.Status {
	d.illness.wait()
	return d.RawFileSystem.OpenDir(cancel, in, out)
}

func (d *disk) ReadDir(cancel <-chan struct{}, in *fuse.ReadIn, out *fuse.DirEntryList) fuse.Status {
	d.illness.wait()
	return d.RawFileSystem.ReadDir(cancel, in, out)
}

func (d *disk) ReadDirPlus(cancel <-chan struct{}, in *fuse.ReadIn, out *fuse.DirEntryList) fuse.Status {
	d.illness.wait()
	return d.RawFileSystem.ReadDirPlus(cancel, in, out)
}

func (d *disk) StatFs(cancel <-chan struct{}, header *fuse.InHeader, out *fuse.StatfsOut) fuse.Status {
	d.illness.wait()
	return d.RawFileSystem.StatFs(cancel, header, out)
}

func (d *disk) Fallocate(cancel <-chan struct{}, in *fuse.FallocateIn) fuse.Status {
	if status := d.illness.waitForSpace(); !status.Ok() {
		return status
	}
	return d.RawFileSystem.Fallocate(cancel, in)
}
