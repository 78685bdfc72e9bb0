package device

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"syscall"

	"martlet/object-server/bundle"
	"martlet/object-server/bundle/buffers"
	"martlet/object-server/bundle/format"
	"martlet/object-server/vfs"
)

// Object is one version of an object, open for reading: it stays readable when
// it is replaced or deleted meanwhile. Safe for concurrent use until Close.
type Object struct {
	device   *Device
	bundle   *bundle.Bundle
	hash     format.Hash
	record   *bundle.Record
	buffer   *buffers.Buffer // what record points into
	metadata *format.Metadata
	large    vfs.File // nil if the bytes are in the record
	chained  bool     // the name has, or may have, other versions
}

// Open opens the newest version of an object. A small one has been read whole
// on return. Its metadata say whether it is Doubtful. Errors: *NotFoundError,
// ErrQuarantined, ErrOut, ErrClosed.
func (d *Device) Open(at Location) (*Object, error) {
	if err := d.enter(); err != nil {
		return nil, err
	}
	defer d.leave()
	s, err := d.existing(at)
	if err != nil {
		return nil, err
	}
	defer s.done()
	return d.load(s.bundle, at.Hash, (*Object).newest)
}

// load loads a version of an object, which find reads. It looks again if the
// version was removed meanwhile.
func (d *Device) load(b *bundle.Bundle, hash format.Hash, find func(o *Object) error) (*Object, error) {
	if err := d.calls.enter(); err != nil {
		return nil, err
	}
	defer d.calls.leave()
	var missing uint64 // LSN of a record whose large file was not there
	for {
		o := &Object{device: d, bundle: b, hash: hash}
		err := o.load(find)
		if err == nil {
			d.counters.reads.Add(1)
			return o, nil
		}
		if !errors.Is(err, fs.ErrNotExist) || o.record == nil {
			o.Close()
			return nil, err
		}
		// The large file is gone. If a newer write removed it, look again.
		if o.record.LSN() == missing {
			err = o.damaged(err)
			o.Close()
			return nil, err
		}
		missing = o.record.LSN()
		o.Close()
	}
}

// live tells what a look-up found: nil for an object, else why there is none.
func live(record *bundle.Record, err error) error {
	switch {
	case record != nil && errors.Is(err, ErrQuarantined):
		return &DoubtError{Timestamp: record.Timestamp(), Cause: err}
	case err != nil:
		return err
	case record == nil:
		return &NotFoundError{}
	case record.Type() == format.TypeVersionDirectory: // what is left of a version that counts
		return &DoubtError{Timestamp: record.Timestamp(), Cause: errLostData}
	case !record.Live() && record.Doubtful():
		return doubted(record.Timestamp())
	case !record.Live():
		return &NotFoundError{
			Tombstone: record.Timestamp(), Marker: isMarker(record), VersionID: record.VersionID(),
		}
	}
	return nil
}

var errLostData = errors.New("device: the data of this version were lost")

// newest reads the version that counts when none is named.
func (o *Object) newest() (err error) {
	o.record, o.buffer, err = newest(o.bundle, o.hash, o.bundle.Read, o.bundle.ReadVersion)
	o.chained = o.record != nil && (o.record.Versioned() || !o.record.IsHead())
	return err
}

// load reads the record and opens the large file, if the bytes are in one.
func (o *Object) load(find func(o *Object) error) (err error) {
	err = find(o)
	if err := live(o.record, err); err != nil {
		return err
	}
	if o.metadata, err = o.record.Metadata(); err != nil {
		return o.damaged(err)
	}
	o.metadata.Versioned = o.metadata.Versioned || !o.record.IsHead()
	if o.metadata.Size != o.record.Size() {
		return o.damaged(errors.New("metadata of another size"))
	}
	if o.record.Type() != format.TypeSpill {
		return nil
	}
	if o.large, err = o.bundle.OpenLarge(o.record.LargeID); err != nil {
		return err
	}
	size, err := o.large.Size()
	if err == nil && size != o.record.Size() {
		err = o.damaged(fmt.Errorf("large file of %d bytes, record says %d", size, o.record.Size()))
	}
	return err
}

// damaged quarantines the object and returns the error that says so. An object may
// outlive its device, whose index is gone then.
func (o *Object) damaged(cause error) error {
	doubt := &DoubtError{Timestamp: o.record.Timestamp(), Cause: cause}
	if d := o.device; d.gate.TryRLock() { // the caller may hold it, and Close wait for it
		defer d.gate.RUnlock()
		if !d.closed {
			doubt.Cause = o.bundle.Quarantine(o.record, cause)
		}
	}
	return doubt
}

// unreadable makes of an error of reading the large file a DoubtError, if the disk
// cannot read it, and tells of it. The next read may succeed.
func (o *Object) unreadable(err error) error {
	err = fmt.Errorf("device: large file: %w", err)
	if errors.Is(err, syscall.EIO) {
		o.bundle.Unreadable(o.record, err)
		return &DoubtError{Timestamp: o.record.Timestamp(), Cause: err}
	}
	return err
}

// Metadata is shared and must not be changed.
func (o *Object) Metadata() *format.Metadata { return o.metadata }

// WriteRange writes n bytes from offset off on to w. No byte leaves before the
// checksum of its chunk has been compared. An error of w is returned as it is;
// ErrQuarantined says that the rest is damaged.
func (o *Object) WriteRange(w io.Writer, off, n int64) error {
	size := o.record.Size()
	if off < 0 || n < 0 || off > size || n > size-off {
		return fmt.Errorf("%w: bytes %d+%d of an object of %d", ErrInvalid, off, n, size)
	}
	if n == 0 {
		return nil
	}
	if o.large != nil {
		return o.writeLarge(w, off, n)
	}
	first := off / format.ChunkSize * format.ChunkSize
	last := min((off+n+format.ChunkSize-1)/format.ChunkSize*format.ChunkSize, size)
	if err := o.check(first, o.record.Data[first:last]); err != nil {
		return err
	}
	_, err := w.Write(o.record.Data[off : off+n])
	return err
}

// check compares bytes that start and end with chunks.
func (o *Object) check(offset int64, p []byte) error {
	index := int(offset / format.ChunkSize)
	for len(p) > 0 {
		n := min(len(p), format.ChunkSize)
		if err := o.record.CheckChunk(index, p[:n]); err != nil {
			return o.damaged(err)
		}
		p, index = p[n:], index+1
	}
	return nil
}

// Close releases what the object holds. The metadata stay valid.
func (o *Object) Close() {
	if o.large != nil {
		_ = o.large.Close() // only read from
		o.large = nil
	}
	o.buffer.Free()
	o.buffer, o.record = nil, nil
}

// Head returns the metadata of the newest version of an object, which belong to
// the caller. Errors as of Open.
func (d *Device) Head(at Location) (*format.Metadata, error) {
	return d.head(at, func(b *bundle.Bundle) (*bundle.Record, *buffers.Buffer, error) {
		return newest(b, at.Hash, b.ReadHead, b.ReadVersionHead)
	})
}

func (d *Device) head(at Location, read func(b *bundle.Bundle) (*bundle.Record, *buffers.Buffer, error)) (*format.Metadata, error) {
	if err := d.enter(); err != nil {
		return nil, err
	}
	defer d.leave()
	s, err := d.existing(at)
	if err != nil {
		return nil, err
	}
	defer s.done()
	if err := d.calls.enter(); err != nil {
		return nil, err
	}
	defer d.calls.leave()
	record, buffer, err := read(s.bundle)
	defer buffer.Free()
	if err := live(record, err); err != nil {
		return nil, err
	}
	m, err := metadata(s.bundle, record)
	if err != nil {
		return nil, err
	}
	m.Versioned = m.Versioned || !record.IsHead()
	d.counters.reads.Add(1)
	return m, nil
}

// metadata decodes the metadata of a record; what cannot be decoded, though its
// checksum is right, is damaged.
func metadata(b *bundle.Bundle, record *bundle.Record) (*format.Metadata, error) {
	m, err := record.Metadata()
	if err != nil {
		err = b.Quarantine(record, err)
	}
	return m, err
}
