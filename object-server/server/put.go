package server

import (
	"cmp"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"unicode/utf8"

	"martlet/object-server/bundle/format"
	"martlet/object-server/device"
	"martlet/object-server/server/devices"
	"martlet/object-server/server/message"
)

// put answers 201, 400, 408, 409, 411, 412, 413, 422, 499, 503 or 507. With 201 the object and the update of the listing
// are durable; the update is at the container server or on this device.
func (s *Server) put(x *exchange) error {
	if x.header(message.CopyFrom) != "" {
		return s.putCopy(x)
	}
	if x.header(message.VersionRestore) != "" {
		return s.restore(x)
	}
	timestamp, err := s.checkCreation(x)
	if err != nil {
		return err
	}
	mount, err := s.acquireToWrite(x)
	if err != nil {
		return err
	}
	defer mount.Release()
	if err := s.checkBeforeBody(x, mount.Store, timestamp); err != nil {
		return err
	}
	upload, err := mount.Store.NewUpload(x.at, x.sizeHint())
	if err != nil {
		return err
	}
	defer upload.Abort()
	received, err := s.receive(x, upload)
	if err != nil {
		return err
	}
	m, err := s.newMetadata(x, timestamp, received)
	if err != nil {
		return err
	}
	if m.VersionID, err = x.newVersion(timestamp); err != nil {
		return err
	}
	defer mount.Pending.Begin()()
	var previous device.State
	err = s.underCondition(x, mount.Store, timestamp, func() (err error) {
		previous, err = upload.Commit(&m)
		return err
	})
	if err != nil && !isWritten(mount.Store, x.at, &m, err) {
		return s.failHalfway(x, mount, err, keptRows(x, previous.Kept))
	}
	hidden := hideLate(x, mount.Store, &m, previous)
	if err := cmp.Or(s.updateAfterPut(x, mount, &m, received.footers, previous), hidden); err != nil {
		return err
	}
	x.set("Etag", `"`+m.ETag+`"`)
	x.describeVersion(&m, format.Timestamp{})
	x.describeReplaced(&m, previous)
	x.answerEmpty(http.StatusCreated)
	return nil
}

// checkCreation makes the checks that need no device.
func (s *Server) checkCreation(x *exchange) (format.Timestamp, error) {
	timestamp, err := x.timestamp()
	if err != nil {
		return timestamp, err
	}
	limits := &s.config.Limits
	switch {
	case x.in.Length > limits.FileSizeMax, x.sizeHint() > limits.FileSizeMax:
		return timestamp, fail(http.StatusRequestEntityTooLarge, "Your request is too large.")
	case !x.in.HasLength:
		return timestamp, fail(http.StatusLengthRequired, "Missing Content-Length header.")
	case !x.in.Has(message.ContentType) && x.header(message.CopyFrom) == "":
		return timestamp, fail(http.StatusBadRequest, "No content type")
	case !utf8.ValidString(x.header(message.ContentType)):
		return timestamp, fail(http.StatusBadRequest, "Invalid Content-Type")
	case x.flag(message.MultiphaseCommit), x.flag(message.NoCommit):
		return timestamp, fail(http.StatusNotImplemented, "Erasure-coded policies are not supported.")
	}
	if err := checkNames(x, limits); err != nil {
		return timestamp, err
	}
	if _, err := x.newVersion(timestamp); err != nil {
		return timestamp, err
	}
	if _, err := x.newLock(timestamp); err != nil {
		return timestamp, err
	}
	if err := checkDeleteAt(x, timestamp); err != nil {
		return timestamp, err
	}
	return timestamp, checkHeaders(&x.in, limits)
}

// checkBeforeBody refuses a request that must fail before the client sends the body. For a small body that is already
// on its way the look-up would cost more; Commit makes the same check.
func (s *Server) checkBeforeBody(x *exchange, from devices.Store, timestamp format.Timestamp) error {
	isSmall := x.in.Length >= 0 && x.in.Length <= bufferBytes
	if !x.isConditionalWrite() && isSmall && x.header(message.Expect) == "" {
		return nil
	}
	return s.checkStored(x, from, timestamp)
}

// checkStored compares the stored object of that name with the request.
func (s *Server) checkStored(x *exchange, from devices.Store, timestamp format.Timestamp) error {
	m, since, err := headCurrent(from, x.at)
	// A version may come late. Below a later one it would not be current: then the condition of another write held, too.
	mayBeLate := x.header(message.VersionID) != "" && !x.isConditionalWrite()
	if err != nil {
		if mayBeLate {
			timestamp = format.Timestamp{Ticks: format.TicksMax}
		}
		if err := checkAbsent(err, timestamp); err != nil {
			return err
		}
		return checkIfTimestamp(x, nil, since)
	}
	ifNoneMatch := x.header(message.IfNoneMatch)
	if ifNoneMatch != "" && !isExpired(m, timestamp) && parseETags(ifNoneMatch).matches(m.ETag) {
		return unmet()
	}
	if err := checkIfTimestamp(x, unlessExpired(m, timestamp), since); err != nil {
		return err
	}
	if m.Timestamp.Compare(timestamp) > 0 && !mayBeLate { // with equal timestamps the content decides, after the body
		return &device.OlderError{Existing: m.Timestamp}
	}
	return nil
}

// checkAbsent handles the error of a look-up before a write: a newer tombstone refuses the write, a damaged object is
// replaced by it.
func checkAbsent(err error, timestamp format.Timestamp) error {
	var gone *device.NotFoundError
	switch {
	case errors.As(err, &gone):
		if gone.Tombstone.Compare(timestamp) >= 0 {
			return &device.OlderError{Existing: gone.Tombstone}
		}
		return nil
	case errors.Is(err, device.ErrQuarantined):
		return nil
	default:
		return err
	}
}

// sizeHint is the size of the object as far as known, -1 if not.
func (x *exchange) sizeHint() int64 {
	if x.in.Length >= 0 && !x.flag(message.MetadataFooter) {
		return x.in.Length
	}
	size, err := strconv.ParseInt(x.header(message.ObjectContentLength), 10, 64)
	if err != nil || size < 0 {
		return -1
	}
	return size
}

// newMetadata describes the object that was received.
func (s *Server) newMetadata(x *exchange, timestamp format.Timestamp, received *receivedBody) (m format.Metadata, err error) {
	expected := x.header(message.ETag)
	if etag := received.footers["Etag"]; etag != "" {
		expected = etag
	}
	expected = unquote(strings.ToLower(expected))
	if expected != "" && expected != received.etag {
		return format.Metadata{}, fail(http.StatusUnprocessableEntity, "The ETag does not match the body.")
	}
	m = format.Metadata{
		Name: x.name(), ContentType: x.header(message.ContentType), ETag: received.etag, Size: received.size,
		Timestamp: timestamp, MetaTimestamp: timestamp, TypeTimestamp: timestamp,
	}
	s.allowed.collect(&x.in, &m, false)
	s.allowed.collectFooters(received.footers, &m)
	m.Lock, err = x.newLock(timestamp)
	return m, err
}
