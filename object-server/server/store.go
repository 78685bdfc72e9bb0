package server

import (
	"errors"
	"io"

	"martlet/object-server/bundle/format"
	"martlet/object-server/device"
)

// store is what the handlers need of a device; device.Device has the contract of each method.
type store interface {
	NewUpload(at device.Location, sizeHint int64) (upload, error)
	Open(at device.Location) (object, error)
	Head(at device.Location) (*format.Metadata, error)
	Hide(at device.Location, timestamp format.Timestamp, name string) (device.State, error)
	Copy(from, to device.Location, edit func(*format.Metadata) error) (*format.Metadata, device.State, error)
	Post(at device.Location, edit func(*format.Metadata) error) error
	versionStore
	Stats() device.Stats
	Err() error
	Close() error
}

// versionStore is what they need of the versions of a name.
type versionStore interface {
	OpenVersion(at device.Location, id format.VersionID) (object, error)
	HeadVersion(at device.Location, id format.VersionID) (*format.Metadata, error)
	PostVersion(at device.Location, id format.VersionID, edit func(*format.Metadata) error) error
	KeepNull(at device.Location, timestamp format.Timestamp, name string) (*format.Metadata, error)
	DeleteMarker(at device.Location, timestamp format.Timestamp, id format.VersionID, name string) error
	DeleteVersion(
		at device.Location, id format.VersionID, timestamp format.Timestamp, name string,
	) (device.State, error)
}

type upload interface {
	io.Writer
	Commit(*format.Metadata) (device.State, error)
	Abort()
}

type object interface {
	Metadata() *format.Metadata
	WriteRange(w io.Writer, offset, length int64) error
	Close()
}

// deviceStore makes a device.Device a store: its concrete results become interfaces.
type deviceStore struct{ *device.Device }

// rootedStore is a device with the file system that it alone uses.
type rootedStore struct {
	deviceStore
	files io.Closer
}

// Close closes both.
func (s rootedStore) Close() error { return errors.Join(s.deviceStore.Close(), s.files.Close()) }

func (s deviceStore) NewUpload(at device.Location, sizeHint int64) (upload, error) {
	u, err := s.Device.NewUpload(at, sizeHint)
	if err != nil {
		return nil, err
	}
	return u, nil
}

func (s deviceStore) Open(at device.Location) (object, error) {
	o, err := s.Device.Open(at)
	if err != nil {
		return nil, err
	}
	return o, nil
}

func (s deviceStore) OpenVersion(at device.Location, id format.VersionID) (object, error) {
	o, err := s.Device.OpenVersion(at, id)
	if err != nil {
		return nil, err
	}
	return o, nil
}
