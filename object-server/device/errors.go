package device

import (
	"errors"

	"martlet/object-server/bundle/format"
	"martlet/object-server/bundle/versions"
	"martlet/object-server/vfs"
)

// Errors that callers tell apart with errors.Is.
var (
	// ErrNoSpace: the file system is full, or its reserve is reached. Nothing
	// of the write is visible and the device goes on.
	ErrNoSpace = vfs.ErrNoSpace
	// ErrQuarantined: what is stored under the name is damaged, or it is not known
	// whether anything is. A newer write makes the name usable again.
	ErrQuarantined = format.ErrQuarantined
	// ErrUnknown: what is stored under the name cannot be read, and may be newer
	// than the write, which is refused. Nothing of it was stored.
	ErrUnknown = errors.New("device: what is stored cannot be read")
	// ErrTooLarge: metadata or object exceed what the format can hold.
	ErrTooLarge = format.ErrTooLarge
	// ErrOut: the device has been taken out after repeated write failures.
	ErrOut = errors.New("device: taken out after write failures")
	// ErrBusy: too many operations wait for the device, which goes on working.
	ErrBusy = errors.New("device: busy")
	// ErrStuck: the device has answered nothing for some time. It is asked again as
	// soon as it answers what it was asked before.
	ErrStuck = errors.New("device: no answer")
	// ErrClosed: Close was called.
	ErrClosed = errors.New("device: closed")
	// ErrChanged: something was written since the position that the caller knows.
	ErrChanged = errors.New("device: the partition has changed")
	// ErrUnfinished: the split of a partition has failed at its end, and is tried again.
	ErrUnfinished = errors.New("device: a partition is not split to its end")
	// ErrLocked: the version is locked, so it is neither removed nor replaced.
	ErrLocked = errors.New("device: the version is locked")
	// ErrPosted: the version has got a POST that the policy which it was moved to does not have.
	ErrPosted = errors.New("device: the version has got a later POST")
	// ErrInvalid: the caller broke the contract of a method.
	ErrInvalid = errors.New("device: invalid argument")
)

// OlderError refuses a write that is not newer than what is stored.
type OlderError = versions.OlderError

// DoubtError says that what is stored under a name, if anything is, cannot be told.
// It is an ErrQuarantined.
type DoubtError struct {
	Timestamp format.Timestamp // of the record that is damaged, or no longer sure to be the newest; zero if not known
	Cause     error
}

func (e *DoubtError) Error() string { return e.Cause.Error() }

// Unwrap makes it an ErrQuarantined.
func (e *DoubtError) Unwrap() []error { return []error{ErrQuarantined, e.Cause} }

// errLostLater is why a record is not sure to be the newest.
var errLostLater = errors.New("device: records that were written later are lost")

// doubted is the error for a name or version whose last known record is of a time.
func doubted(last format.Timestamp) error { return &DoubtError{Timestamp: last, Cause: errLostLater} }

// NotFoundError says that there is no live object under a name, or no such
// version of it.
type NotFoundError struct {
	Tombstone format.Timestamp // of the last delete; zero if never deleted
	Marker    bool             // the version asked for is a delete marker, see MarkNull, made at Tombstone
	VersionID format.VersionID // of the delete marker
}

func (e *NotFoundError) Error() string { return "device: no such object" }
