package server

import (
	"errors"
	"net/http"

	"martlet/object-server/bundle/format"
	"martlet/object-server/device"
	"martlet/object-server/server/devices"
	"martlet/object-server/server/message"
	"martlet/object-server/server/versionid"
	"martlet/object-server/updates"
)

// remove answers a DELETE: 204 if there was an object, 404 if there was none (a tombstone is written in both cases), 400,
// 409, 412, 503 or 507.
func (s *Server) remove(x *exchange) error {
	if x.flag(message.VersionList) {
		return s.removeListed(x)
	}
	id, ok, err := x.version()
	marksNull := ok && id.IsNull() && x.flag(message.VersionMarker)
	switch {
	case err != nil:
		return err
	case ok && !marksNull:
		return s.removeVersion(x, id)
	}
	timestamp, err := x.timestamp()
	if err != nil {
		return err
	}
	mount, done, err := s.beginWrite(x)
	if err != nil {
		return err
	}
	defer done()
	expired, err := s.checkIfDeleteAt(x, mount.Store, timestamp)
	if err != nil {
		return err
	}
	if expired != nil && !expired.VersionID.IsNull() {
		return s.expireVersion(x, mount, expired, timestamp)
	}
	hide, row := mount.Store.Hide, updates.DeletedRow(x.in.Object, timestamp.String(), x.at.Policy)
	switch {
	case marksNull:
		hide, row = mount.Store.MarkNull, x.listed().markerRow(id, timestamp)
	case x.flag(message.LockBypass):
		hide = mount.Store.BypassHide
	}
	var previous device.State
	err = s.underCondition(x, mount.Store, timestamp, func() (err error) {
		previous, err = hide(x.at, timestamp, x.name())
		return err
	})
	var older *device.OlderError
	isAgain := marksNull && isMarked(mount.Store, x.at, id, timestamp, err)
	switch {
	case isAgain: // a peer may have sent it
	case errors.As(err, &older):
		return s.failHalfway(x, mount, refuseDelete(x, mount.Store, older), keptRows(x, previous.Kept))
	case err != nil:
		return s.failHalfway(x, mount, err, keptRows(x, previous.Kept))
	}
	if err := s.updateAfterDelete(x, mount, timestamp, row, previous); err != nil {
		return err
	}
	if previous.Marker {
		x.set(markerHeader, "true")
	}
	if marksNull {
		x.set(versionHeader, versionid.Null)
	}
	x.describeRemoved(previous)
	x.set(timestampHeader, timestamp.String())
	if m := previous.Metadata; m != nil {
		x.set("X-Backend-Content-Type", m.ContentType)
		if !isExpired(m, timestamp) || x.header(message.IfDeleteAt) != "" {
			x.answerEmpty(http.StatusNoContent)
			return nil
		}
	}
	x.answerEmpty(http.StatusNotFound)
	return nil
}

// refuseDelete answers a DELETE that is older than the stored record: 409 for an object, 404 for a tombstone.
func refuseDelete(x *exchange, from devices.Store, older *device.OlderError) error {
	_, err := from.Head(x.at)
	var gone *device.NotFoundError
	if errors.As(err, &gone) {
		return fail(http.StatusNotFound, "The resource could not be found.").
			with(timestampHeader, older.Existing.String())
	}
	return older
}

// checkIfDeleteAt returns the object that has expired, nil if the DELETE has no condition. With X-If-Delete-At a DELETE of
// the expirer is conditional on the X-Delete-At for which it was queued.
func (s *Server) checkIfDeleteAt(x *exchange, from devices.Store, timestamp format.Timestamp) (*format.Metadata, error) {
	value := x.header(message.IfDeleteAt)
	if value == "" {
		return nil, nil
	}
	expected, err := format.ParseTimestamp(value)
	if err != nil {
		return nil, fail(http.StatusBadRequest, "Bad X-If-Delete-At header value")
	}
	m, _, err := headCurrent(from, x.at)
	var gone *device.NotFoundError
	if errors.As(err, &gone) && !gone.Tombstone.IsZero() {
		if gone.Tombstone.Compare(timestamp) >= 0 {
			return nil, &device.OlderError{Existing: gone.Tombstone}
		}
		return nil, fail(http.StatusPreconditionFailed, "X-If-Delete-At and X-Delete-At do not match")
	}
	if err != nil {
		return nil, err
	}
	if m.Timestamp.Compare(timestamp) >= 0 {
		return nil, &device.OlderError{Existing: m.Timestamp}
	}
	if m.Doubtful { // a newer write may have another time, or none
		return nil, &device.DoubtError{Timestamp: m.Timestamp, Cause: errExpired}
	}
	stored := format.Timestamp{Ticks: uint64(m.DeleteAt) * format.TicksPerSecond}
	if stored != expected {
		return nil, fail(http.StatusPreconditionFailed, "X-If-Delete-At and X-Delete-At do not match")
	}
	return m, checkUnlocked(m, timestamp, false)
}
