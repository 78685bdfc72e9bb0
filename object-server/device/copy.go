package device

import (
	"errors"
	"fmt"

	"martlet/object-server/bundle/format"
	"martlet/object-server/vfs"
)

// Copy stores the newest version of one object under another name, or under its
// own as of a later time. edit gets the metadata of the source and turns them
// into those of the copy: Name and Timestamp have to be set, MetaTimestamp and
// TypeTimestamp too unless the source's are meant, and Size must stay. An error
// of edit ends the copy and is returned as it is. stored is what Upload.Commit
// leaves.
//
// Checksums are carried over, never made anew, so that damage of the source is
// damage of the copy. Where the file system can, a large object shares its bytes
// with the source, and they are not read; else each chunk is verified on its way.
//
// Errors: those of Open for the source (ErrQuarantined if a chunk is found
// damaged), those of NewUpload and Upload.Commit for the copy.
func (d *Device) Copy(from, to Location, edit func(m *format.Metadata) error) (
	stored *format.Metadata, prev State, err error,
) {
	source, err := d.Open(from)
	if err != nil {
		return nil, State{}, err
	}
	defer source.Close()
	m := source.metadata
	m.Lock = nil // it is the source's alone
	if err := edit(m); err != nil {
		return nil, State{}, err
	}
	if m.Size != source.record.Size() {
		return nil, State{}, fmt.Errorf("%w: a copy changes the size", ErrInvalid)
	}
	u, err := d.NewUpload(to, -1)
	if err != nil {
		return nil, State{}, err
	}
	defer u.Abort()
	if err := u.fill(source); err != nil {
		return nil, State{}, err
	}
	m.Doubtful = false // as a write of its own
	prev, err = u.Commit(m)
	return m, prev, err
}

// fill takes the source's bytes and their checksums.
func (u *Upload) fill(source *Object) error {
	if err := u.device.enter(); err != nil {
		return err
	}
	defer u.device.leave()
	u.table = source.record.Table
	if source.large != nil {
		if isDone, err := u.clone(source); isDone || err != nil {
			return err
		}
	}
	return source.WriteRange(u, 0, source.record.Size())
}

// clone begins a large file that shares all bytes with the source's. It is empty
// if the file system cannot, with room for the bytes reserved.
func (u *Upload) clone(source *Object) (isDone bool, err error) {
	if u.large, err = u.device.newLargeWriter(u.at, 0); err != nil {
		return false, err
	}
	u.draft.Free()
	u.draft = nil
	switch err := u.device.largeCalls.during(func() error { return u.large.file.Clone(source.large) }); {
	case errors.Is(err, vfs.ErrNoClone):
		size := source.record.Size()
		if err := u.hold(size); err != nil {
			return false, err
		}
		defer u.letGo(size)
		return false, u.large.allocate(size)
	case err != nil:
		u.device.failed(err)
		return false, fmt.Errorf("device: %w", err)
	}
	u.size = source.record.Size()
	return true, nil
}
