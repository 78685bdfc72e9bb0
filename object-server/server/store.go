package server

import (
	"io"

	"martlet/object-server/bundle"
	"martlet/object-server/device"
)

// store is what the handlers need of a device; device.Device has the contract of each method.
type store interface {
	NewUpload(at device.Location, sizeHint int64) (upload, error)
	Open(at device.Location) (object, error)
	Head(at device.Location) (*bundle.Metadata, error)
	Hide(at device.Location, timestamp bundle.Timestamp, name string) (device.State, error)
	Copy(from, to device.Location, edit func(*bundle.Metadata) error) (*bundle.Metadata, device.State, error)
	Post(at device.Location, edit func(*bundle.Metadata) error) error
	versionStore
	Stats() device.Stats
	Err() error
	Close() error
}

// versionStore is what they need of the versions of a name.
type versionStore interface {
	OpenVersion(at device.Location, id bundle.VersionID) (object, error)
	HeadVersion(at device.Location, id bundle.VersionID) (*bundle.Metadata, error)
	PostVersion(at device.Location, id bundle.VersionID, edit func(*bundle.Metadata) error) error
	KeepNull(at device.Location, timestamp bundle.Timestamp, name string) (*bundle.Metadata, error)
	DeleteMarker(at device.Location, timestamp bundle.Timestamp, id bundle.VersionID, name string) error
	DeleteVersion(
		at device.Location, id bundle.VersionID, timestamp bundle.Timestamp, name string,
	) (device.State, error)
}

type upload interface {
	io.Writer
	Commit(*bundle.Metadata) (device.State, error)
	Abort()
}

type object interface {
	Metadata() *bundle.Metadata
	WriteRange(w io.Writer, offset, length int64) error
	Close()
}

// deviceStore makes a device.Device a store: its concrete results become interfaces.
type deviceStore struct{ *device.Device }

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

func (s deviceStore) OpenVersion(at device.Location, id bundle.VersionID) (object, error) {
	o, err := s.Device.OpenVersion(at, id)
	if err != nil {
		return nil, err
	}
	return o, nil
}
