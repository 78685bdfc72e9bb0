package server

import (
	"errors"
	"net/http"
	"regexp"

	"martlet/object-server/bundle/format"
	"martlet/object-server/server/devices"
	"martlet/object-server/server/message"
	"martlet/object-server/server/versionid"
)

// post answers 202, 400, 404, 409, 503 or 507. It replaces the user metadata as a whole, keeps system metadata, and changes
// the content type if its own timestamp is newer than that of the stored one.
func (s *Server) post(x *exchange) error {
	if x.in.Has(message.LockMode) || x.in.Has(message.LockHold) {
		return s.postLock(x)
	}
	edit, err := s.newEdit(x)
	if err != nil {
		return err
	}
	mount, done, err := s.beginWrite(x)
	if err != nil {
		return err
	}
	defer done()
	written, err := postRequested(x, mount.Store, edit.apply)
	if err != nil && !errors.Is(err, errPosted) {
		return err
	}
	if err := s.updateAfterPost(x, mount, edit); err != nil {
		return err
	}
	for name, value := range systemHeaders(&edit.after) {
		x.set(name, value)
	}
	x.set("X-Backend-Content-Type", edit.after.ContentType)
	x.set(dataTimestampHeader, written.String())
	x.answerEmpty(http.StatusAccepted)
	return nil
}

// postRequested edits the version that the request names, else the current one. It returns the time at which that was
// written, or was made current again.
func postRequested(x *exchange, at devices.Store, edit func(*format.Metadata) error) (written format.Timestamp, err error) {
	id, ok, err := x.version()
	if err != nil {
		return written, err
	}
	noting := func(m *format.Metadata) error {
		written = m.Timestamp
		return edit(m)
	}
	if ok && !id.IsNull() {
		err = at.PostVersion(x.at, id, noting) // a version never changes, so a condition holds
		return written, err
	}
	var elsewhere *format.VersionID
	var since format.Timestamp
	err = at.Post(x.at, func(m *format.Metadata) error {
		current := m.VersionID
		if versionid.IsRestored(current) {
			current = restoredTarget(m)
			elsewhere, since = &current, m.Timestamp
		}
		switch {
		case ok && !current.IsNull():
			elsewhere = nil
			return otherIsCurrent(m)
		case elsewhere != nil:
			return errElsewhere
		}
		if err := checkIfTimestamp(x, m, format.Timestamp{}); err != nil {
			return err
		}
		return noting(m)
	})
	if elsewhere != nil {
		return since, at.PostVersion(x.at, *elsewhere, func(m *format.Metadata) error {
			keepRestored(m, since)
			if err := checkIfTimestamp(x, m, since); err != nil {
				return err
			}
			return edit(m)
		})
	}
	return written, err
}

var errElsewhere = errors.New("another version is current")

// metadataEdit is what a POST does to the metadata of an object.
type metadataEdit struct {
	x             *exchange
	allowed       allowedHeaders
	timestamp     format.Timestamp
	contentType   string // empty if the request has none
	typeTimestamp format.Timestamp

	// Set by apply.
	deleteAtBefore int64
	after          format.Metadata
	isMetaChanged  bool
}

func (s *Server) newEdit(x *exchange) (*metadataEdit, error) {
	timestamp, err := x.timestamp()
	if err != nil {
		return nil, err
	}
	if err := checkDeleteAt(x, timestamp); err != nil {
		return nil, err
	}
	if err := checkHeaders(&x.in, &s.config.Limits); err != nil {
		return nil, err
	}
	edit := &metadataEdit{x: x, allowed: s.allowed, timestamp: timestamp, contentType: x.header(message.ContentType)}
	if edit.contentType == "" {
		return edit, nil
	}
	edit.typeTimestamp = timestamp
	if value := x.header(message.ContentTypeTimestamp); value != "" {
		if edit.typeTimestamp, err = format.ParseTimestamp(value); err != nil {
			return nil, fail(http.StatusBadRequest, "Invalid Content-Type-Timestamp header %q.", value)
		}
	}
	return edit, nil
}

// listedSize is the parameter of a content type with the size for the listing: the manifest of a large object stands for
// more bytes than it has.
var listedSize = regexp.MustCompile(`(?i)\s*;\s*swift_bytes=[^;]*`)

// keepListedSize returns the new content type with the listed size of the old one: clients do not know that parameter.
func keepListedSize(old, changed string) string {
	size := listedSize.FindString(old)
	if size == "" {
		return changed
	}
	return listedSize.ReplaceAllString(changed, "") + size
}

var errExpired = errors.New("the object has expired")

// errPosted ends an edit without a change: a peer that has answered the same POST has sent its result.
var errPosted = errors.New("the metadata are those of this POST")

// apply changes m under the object's lock; an error leaves the object as it is.
func (e *metadataEdit) apply(m *format.Metadata) error {
	if m.Name != e.x.name() {
		return fail(http.StatusForbidden, "Another object has the same hash.")
	}
	// A version that has expired stays, but is not current any more.
	if isExpired(m, e.timestamp) && !e.x.opensExpired() && e.x.header(message.VersionID) == "" {
		return &failure{status: http.StatusNotFound, text: errExpired.Error()}
	}
	posted := *m
	posted.User, posted.DeleteAt, posted.MetaTimestamp = nil, 0, e.timestamp
	e.allowed.collect(&e.x.in, &posted, true)
	posted.ContentType, posted.TypeTimestamp = keepListedSize(m.ContentType, e.contentType), e.typeTimestamp
	isTypeNewer := m.TypeYields(&posted)
	e.isMetaChanged = m.MetaYields(&posted)
	if !e.isMetaChanged && !isTypeNewer && e.isPosted(m, &posted) {
		e.after, e.deleteAtBefore, e.isMetaChanged = *m, m.DeleteAt, true
		return errPosted
	}
	if !e.isMetaChanged && !isTypeNewer {
		return fail(http.StatusConflict, "There was a conflict when trying to complete your request.").
			with(timestampHeader, m.MetaTimestamp.String())
	}
	e.deleteAtBefore = m.DeleteAt
	if e.isMetaChanged {
		m.User, m.DeleteAt, m.MetaTimestamp = posted.User, posted.DeleteAt, posted.MetaTimestamp
	}
	if isTypeNewer {
		m.ContentType, m.TypeTimestamp = posted.ContentType, posted.TypeTimestamp
	}
	e.after = *m
	return nil
}

// isPosted tells whether m has the metadata of this POST, and its content type if it has one.
func (e *metadataEdit) isPosted(m, posted *format.Metadata) bool {
	isMeta := m.MetaTimestamp == e.timestamp && m.MetaTimestamp != m.Timestamp && posted.CompareMeta(m) == 0
	return isMeta && (e.contentType == "" || m.TypeTimestamp == e.typeTimestamp && posted.CompareType(m) == 0)
}
