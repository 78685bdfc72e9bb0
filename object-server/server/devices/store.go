package devices

import (
	"errors"
	"io"

	"martlet/object-server/bundle/format"
	"martlet/object-server/bundle/versions"
	"martlet/object-server/device"
)

// Store is an open device as requests use it; device.Device has the contract of each method.
type Store interface {
	NewUpload(at device.Location, sizeHint int64) (Upload, error)
	Open(at device.Location) (Object, error)
	Head(at device.Location) (*format.Metadata, error)
	Hide(at device.Location, timestamp format.Timestamp, name string) (device.State, error)
	Copy(from, to device.Location, edit func(*format.Metadata) error) (*format.Metadata, device.State, error)
	Post(at device.Location, edit func(*format.Metadata) error) error
	VersionStore
	Stats() device.Stats
	Err() error
	Close() error
}

// VersionStore is the part of a Store for the versions of a name.
type VersionStore interface {
	OpenVersion(at device.Location, id format.VersionID) (Object, error)
	HeadVersion(at device.Location, id format.VersionID) (*format.Metadata, error)
	ListVersions(at device.Location, after versions.Marker, limit int) (device.VersionPage, error)
	PostVersion(at device.Location, id format.VersionID, edit func(*format.Metadata) error) error
	KeepNull(at device.Location, timestamp format.Timestamp, name string) (*format.Metadata, error)
	MarkNull(at device.Location, timestamp format.Timestamp, name string) (device.State, error)
	DeleteMarker(at device.Location, timestamp format.Timestamp, id format.VersionID, name string) error
	DeleteVersion(
		at device.Location, id format.VersionID, timestamp format.Timestamp, name string,
	) (device.State, error)
	DeleteVersions(
		at device.Location, ids []format.VersionID, timestamp format.Timestamp, name string,
	) ([]device.Removal, error)
	BypassHide(at device.Location, timestamp format.Timestamp, name string) (device.State, error)
	BypassVersion(
		at device.Location, id format.VersionID, timestamp format.Timestamp, name string,
	) (device.State, error)
}

// Upload receives the body of an object.
type Upload interface {
	io.Writer
	Commit(*format.Metadata) (device.State, error)
	Abort()
}

// Object is a stored object that is open for reading.
type Object interface {
	Metadata() *format.Metadata
	WriteRange(w io.Writer, offset, length int64) error
	Close()
}

// deviceStore makes a device.Device a Store: it returns interfaces in place of concrete types.
type deviceStore struct{ *device.Device }

// NewStore makes a device a Store. Its Close closes files, too: the file system that the device alone uses.
func NewStore(d *device.Device, files io.Closer) Store { return rootedStore{deviceStore{d}, files} }

// rootedStore is a device with the file system that it alone uses.
type rootedStore struct {
	deviceStore
	files io.Closer
}

// Close closes both.
func (s rootedStore) Close() error { return errors.Join(s.deviceStore.Close(), s.files.Close()) }

func (s deviceStore) NewUpload(at device.Location, sizeHint int64) (Upload, error) {
	u, err := s.Device.NewUpload(at, sizeHint)
	if err != nil {
		return nil, err
	}
	return u, nil
}

func (s deviceStore) Open(at device.Location) (Object, error) {
	o, err := s.Device.Open(at)
	if err != nil {
		return nil, err
	}
	return o, nil
}

func (s deviceStore) OpenVersion(at device.Location, id format.VersionID) (Object, error) {
	o, err := s.Device.OpenVersion(at, id)
	if err != nil {
		return nil, err
	}
	return o, nil
}
