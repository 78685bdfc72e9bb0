package server

import (
	"cmp"
	"errors"
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"unicode/utf8"

	"martlet/object-server/bundle/format"
	"martlet/object-server/device"
	"martlet/object-server/server/conf"
	"martlet/object-server/server/message"
)

// Headers of a PUT that copies an object of the same device and policy.
const (
	copyFromHeader     = "X-Backend-Copy-From"
	copyMetadataHeader = "X-Backend-Copy-Metadata"
	copyIfHeader       = "X-Backend-Copy-If-Timestamp"
)

// putCopy answers 201, 400, 404, 409, 412, 413, 422 or 507. 404 means that the source is not on this device, 412 or 422
// that it is another one than the request means: the proxy then sends the body.
func (s *Server) putCopy(x *exchange) error {
	timestamp, err := s.checkCreation(x)
	if err != nil {
		return err
	}
	request, err := s.newCopy(x, timestamp)
	if err != nil {
		return err
	}
	mount, done, err := s.beginWrite(x)
	if err != nil {
		return err
	}
	defer done()
	if err := s.checkStored(x, mount.Store, timestamp); err != nil {
		return err
	}
	var m *format.Metadata
	var previous device.State
	err = s.underCondition(x, mount.Store, timestamp, func() (err error) {
		if m, previous, err = mount.Store.Copy(request.from, x.at, request.edit); err != nil {
			return sourceFailure(err)
		}
		return nil
	})
	if err != nil {
		return s.failHalfway(x, mount, err, keptRows(x, previous.Kept))
	}
	hidden := hideLate(x, mount.Store, m, previous)
	// The values that the listing shows instead may come from the source.
	if err := cmp.Or(s.updateAfterPut(x, mount, m, m.System, previous), hidden); err != nil {
		return err
	}
	x.set("Etag", `"`+m.ETag+`"`)
	x.describeReplaced(m, previous)
	x.answerEmpty(http.StatusCreated)
	return nil
}

// copyRequest is a PUT that copies: its source, and the headers of the copy.
type copyRequest struct {
	x         *exchange
	limits    *conf.Limits
	from      device.Location
	fromName  string
	timestamp format.Timestamp
	expected  format.Timestamp // of the source; zero means any
	etag      string
	isFresh   bool            // the copy does not take the source's metadata
	headers   format.Metadata // of the request, as in a PUT
}

func (s *Server) newCopy(x *exchange, timestamp format.Timestamp) (*copyRequest, error) {
	c := &copyRequest{x: x, limits: &s.config.Limits, timestamp: timestamp, etag: unquote(x.header(message.ETag))}
	switch x.header(message.CopyMetadata) {
	case "":
	case "replace":
		c.isFresh = true
	default:
		return nil, fail(http.StatusBadRequest, "Invalid "+copyMetadataHeader+" header.")
	}
	switch {
	case x.in.Length != 0:
		return nil, fail(http.StatusBadRequest, "A copy has no body.")
	case c.etag == "": // a server that does not know copies would store an empty object
		return nil, fail(http.StatusBadRequest, "A copy needs the Etag of its source.")
	case c.isFresh && x.header(message.ContentType) == "":
		return nil, fail(http.StatusBadRequest, "No content type")
	}
	if value := x.header(message.CopyIfTimestamp); value != "" {
		var err error
		if c.expected, err = format.ParseTimestamp(value); err != nil || c.expected.IsZero() {
			return nil, fail(http.StatusBadRequest, "Invalid "+copyIfHeader+" header %q.", value)
		}
	}
	s.allowed.collect(&x.in, &c.headers, false)
	return c, s.parseCopyFrom(x, c)
}

// parseCopyFrom reads the header with /partition/account/container/object.
func (s *Server) parseCopyFrom(x *exchange, c *copyRequest) error {
	path, err := url.PathUnescape(x.header(message.CopyFrom))
	partition, name, hasName := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	parts := strings.SplitN(name, "/", 3)
	number, numberErr := strconv.ParseUint(partition, 10, 32)
	if err != nil || !utf8.ValidString(path) || !strings.HasPrefix(path, "/") || numberErr != nil || !hasName ||
		len(parts) != 3 || parts[0] == "" || parts[1] == "" || parts[2] == "" {
		return fail(http.StatusBadRequest, copyFromHeader+" is not /partition/account/container/object.")
	}
	if err := checkReservedNames(parts[0], parts[1], parts[2]); err != nil {
		return err
	}
	c.fromName = "/" + name
	c.from = device.Location{
		Policy: x.at.Policy, Partition: uint32(number), Hash: s.hasher.Object(parts[0], parts[1], parts[2]),
	}
	return nil
}

// edit turns the source's metadata into those of the copy. It fails if the source is not the one that the request means.
func (c *copyRequest) edit(m *format.Metadata) error {
	switch {
	case m.Name != c.fromName, isExpired(m, c.timestamp) && !c.x.opensExpired():
		return errNoSource()
	case !c.expected.IsZero() && c.expected != m.MetaTimestamp:
		return fail(http.StatusPreconditionFailed, "The source of the copy has another timestamp.").
			with(timestampHeader, m.MetaTimestamp.String())
	case c.etag != m.ETag:
		return fail(http.StatusUnprocessableEntity, "The ETag does not match the source.")
	case m.Size > c.limits.FileSizeMax:
		return fail(http.StatusRequestEntityTooLarge, "Your request is too large.")
	}
	m.VersionID, _ = c.x.newVersion(c.timestamp) // checked before
	m.Lock, _ = c.x.newLock(c.timestamp)         // the same
	m.Name, m.Timestamp, m.MetaTimestamp, m.TypeTimestamp = c.x.name(), c.timestamp, c.timestamp, c.timestamp
	if c.isFresh {
		m.System, m.User, m.DeleteAt = nil, nil, 0
	}
	overlay(&m.System, c.headers.System)
	overlay(&m.User, c.headers.User)
	if c.x.in.Has(message.DeleteAt) {
		m.DeleteAt = c.headers.DeleteAt
	}
	if contentType := c.x.header(message.ContentType); contentType != "" {
		m.ContentType = contentType
	}
	return checkMetadata(headersOf(m.User), c.limits)
}

func overlay(below *format.Headers, above format.Headers) {
	if *below == nil {
		*below = format.Headers{}
	}
	maps.Copy(*below, above)
}

// headersOf returns stored metadata as the headers of a request.
func headersOf(stored format.Headers) []message.Header {
	headers := make([]message.Header, 0, len(stored))
	for name, value := range stored {
		headers = append(headers, message.Header{Name: name, Value: value})
	}
	return headers
}

// errNoSource has no X-Backend-Timestamp: that header describes the object to be written.
func errNoSource() *failure {
	return fail(http.StatusNotFound, "The source of the copy is not on this device.")
}

func sourceFailure(err error) error {
	var gone *device.NotFoundError
	switch {
	case errors.As(err, &gone):
		return errNoSource()
	case errors.Is(err, device.ErrQuarantined):
		f := errNoSource()
		f.cause = err
		return f
	}
	return err
}
