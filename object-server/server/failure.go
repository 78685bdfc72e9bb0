package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"

	"martlet/object-server/device"
	"martlet/object-server/server/devices"
	"martlet/object-server/server/message"
	"martlet/object-server/server/versionid"
)

// statusClientClosed means that the client closed the connection, as in Swift. It is logged, and sent if that is still
// possible.
const statusClientClosed = 499

// failure is an answer other than success: a status, one sentence for the client, and headers.
type failure struct {
	status int
	text   string
	header []message.Pair
	cause  error // logged; nil unless the server or a device failed
}

func (f *failure) Error() string { return fmt.Sprintf("%d %s", f.status, f.text) }

func fail(status int, format string, arguments ...any) *failure {
	return &failure{status: status, text: fmt.Sprintf(format, arguments...)}
}

// with adds a header to the answer.
func (f *failure) with(name, value string) *failure {
	f.header = message.Set(f.header, name, value)
	return f
}

const (
	timestampHeader     = "X-Backend-Timestamp"
	dataTimestampHeader = "X-Backend-Data-Timestamp"
)

// doubtHeader says that an answer may be wrong: "stale" if later records than the one shown were lost, "unknown" if the
// server cannot know what is stored. The proxy then asks other replicas.
const (
	doubtHeader  = "X-Backend-Doubt"
	doubtStale   = "stale"
	doubtUnknown = "unknown"
)

// doubtFailure is the answer if the server cannot know whether the object exists, so a 404 would be wrong.
func doubtFailure(err error) *failure {
	f := fail(http.StatusServiceUnavailable, "The stored data are damaged or lost.").with(doubtHeader, doubtUnknown)
	var doubt *device.DoubtError
	if errors.As(err, &doubt) && !doubt.Timestamp.IsZero() {
		f.with(timestampHeader, doubt.Timestamp.String())
	}
	f.cause = err
	return f
}

// failureOf maps the error of a handler to an answer. It is the only place that does.
func failureOf(err error) *failure {
	var known *failure
	var notFound *device.NotFoundError
	var older *device.OlderError
	var unavailable *devices.UnavailableError
	switch {
	case errors.As(err, &known):
		return known
	case errors.As(err, &notFound):
		f := fail(http.StatusNotFound, "The resource could not be found.")
		if !notFound.Tombstone.IsZero() {
			f.with(timestampHeader, notFound.Tombstone.String())
		}
		if notFound.Marker && (notFound.VersionID.IsNull() || versionid.IsClient(notFound.VersionID)) {
			f.with(versionHeader, versionid.Text(notFound.VersionID)).with(markerHeader, "true")
		}
		return f
	case errors.Is(err, device.ErrLocked):
		return lockedFailure()
	case errors.As(err, &older):
		return fail(http.StatusConflict, "There was a conflict when trying to complete your request.").
			with(timestampHeader, older.Existing.String())
	case errors.As(err, &unavailable):
		return fail(http.StatusInsufficientStorage, "The device %s is not available.", unavailable.Device)
	case errors.Is(err, device.ErrUnknown), errors.Is(err, device.ErrQuarantined):
		return doubtFailure(err)
	case errors.Is(err, device.ErrTooLarge):
		return fail(http.StatusRequestEntityTooLarge, "Your request is too large.")
	case errors.Is(err, device.ErrNoSpace), errors.Is(err, device.ErrOut), errors.Is(err, device.ErrClosed):
		f := fail(http.StatusInsufficientStorage, "There is no room on this device, or it failed.")
		f.cause = err
		return f
	case errors.Is(err, device.ErrBusy):
		f := fail(statusTooManyRequests, "Too many requests wait for this device.")
		f.cause = err
		return f
	case errors.Is(err, device.ErrStuck):
		f := fail(http.StatusInsufficientStorage, "This device does not answer.")
		f.cause = err
		return f
	default:
		return &failure{status: http.StatusInternalServerError, text: "Internal error.", cause: err}
	}
}

// bodyFailure maps an error of reading the request body.
func bodyFailure(err error) *failure {
	var known *failure
	switch {
	case errors.As(err, &known):
		return known
	case errors.Is(err, os.ErrDeadlineExceeded):
		return fail(http.StatusRequestTimeout, "The body did not arrive in time.")
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF), errors.Is(err, context.Canceled), isNetwork(err):
		return fail(statusClientClosed, "The client closed the connection before the body was complete.")
	default:
		return fail(http.StatusBadRequest, "The body is malformed: %v.", err)
	}
}
