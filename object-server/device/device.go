// Package device stores the objects of one disk.
package device

import (
	"errors"
	"fmt"
	"io"

	"martlet/object-server/bundle"
	"martlet/object-server/vfs"
)

// Errors that callers tell apart with errors.Is.
var (
	// ErrNoSpace: the file system is full, or its reserve is reached. Nothing
	// of the write is visible and the device goes on.
	ErrNoSpace = vfs.ErrNoSpace
	// ErrQuarantined: what is stored under the name is damaged, or may be, and
	// is not served. A newer write makes the name usable again.
	ErrQuarantined = bundle.ErrQuarantined
	// ErrOut: the device has been taken out after repeated write failures.
	ErrOut = errors.New("device: taken out after write failures")
	// ErrClosed: Close was called.
	ErrClosed = errors.New("device: closed")
)

// Location says where an object belongs.
type Location struct {
	Policy    int
	Partition uint32
	Hash      bundle.Hash
}

// State is what was stored under a name before a write replaced it.
type State struct {
	Existed   bool             // a live object was there
	Metadata  *bundle.Metadata // of that object; nil unless Existed
	Tombstone bundle.Timestamp // of the last delete; zero if none
}

// OlderError refuses a write that is not newer than what is stored.
type OlderError struct{ Existing bundle.Timestamp }

func (e *OlderError) Error() string {
	return fmt.Sprintf("device: not newer than the stored version of %s", e.Existing)
}

// NotFoundError says that there is no live object under a name.
type NotFoundError struct{ Tombstone bundle.Timestamp } // zero if never deleted

func (e *NotFoundError) Error() string { return "device: no such object" }

// SyncMethod chooses how a batch is made durable.
type SyncMethod string

// The methods of Options.SyncMethod.
const (
	SyncAuto      SyncMethod = "auto"
	SyncFdatasync SyncMethod = "fdatasync"
	SyncSyncfs    SyncMethod = "syncfs"
)

// Options tunes a Device; the zero value of each field stands for its default.
type Options struct {
	SyncMethod SyncMethod // default SyncAuto
}

// Stats counts since Open.
type Stats struct {
	Puts, Deletes, Posts, Reads, Flushes, Batches, BytesWritten, Quarantined uint64
}

// Device is one disk.
type Device struct{}

func Open(fs vfs.FS, root string, o Options) (*Device, error)                          { panic("todo") }
func (d *Device) Close() error                                                         { panic("todo") }
func (d *Device) Err() error                                                           { panic("todo") }
func (d *Device) Stats() Stats                                                         { panic("todo") }
func (d *Device) NewUpload(loc Location, sizeHint int64) (*Upload, error)              { panic("todo") }
func (d *Device) Open(loc Location) (*Object, error)                                   { panic("todo") }
func (d *Device) Head(loc Location) (*bundle.Metadata, error)                          { panic("todo") }
func (d *Device) Delete(loc Location, ts bundle.Timestamp, name string) (State, error) { panic("todo") }
func (d *Device) Post(loc Location, edit func(m *bundle.Metadata) error) error         { panic("todo") }
func (d *Device) Partitions(policy int) ([]uint32, error)                              { panic("todo") }

// Upload is one PUT.
type Upload struct{}

func (u *Upload) Write(p []byte) (int, error)             { panic("todo") }
func (u *Upload) Commit(m bundle.Metadata) (State, error) { panic("todo") }
func (u *Upload) Abort()                                  { panic("todo") }

// Object is one open object.
type Object struct{}

func (o *Object) Metadata() *bundle.Metadata                 { panic("todo") }
func (o *Object) WriteRange(w io.Writer, off, n int64) error { panic("todo") }
func (o *Object) Close()                                     { panic("todo") }
