package server

import (
	"errors"
	"net/http"
	"slices"

	"martlet/object-server/bundle/format"
	"martlet/object-server/device"
	"martlet/object-server/server/devices"
	"martlet/object-server/server/message"
	"martlet/object-server/server/versionid"
	"martlet/object-server/updates"
)

// The row of a delete marker in a container's listing of versions.
const (
	markerContentType = "application/x-deleted;swift_versions_deleted=1"
	markerETag        = "d41d8cd98f00b204e9800998ecf8427e" // of an empty body
	// A null version has data at one time and is a marker at another, so the ETag says what it is.
	nullMarkerETag = "~marker"
)

// removeVersion answers a DELETE that names a version: 204 if it existed, 404 if not, 400, 409 or 507.
func (s *Server) removeVersion(x *exchange, id format.VersionID) error {
	timestamp, err := x.timestamp()
	if err != nil {
		return err
	}
	if id.IsNull() {
		return fail(http.StatusBadRequest, "The null version is removed by a DELETE without a version.")
	}
	mount, done, err := s.beginWrite(x)
	if err != nil {
		return err
	}
	defer done()
	if x.flag(message.VersionMarker) {
		return s.putMarker(x, mount, id, timestamp)
	}
	id = withoutOffset(x, mount.Store, id)
	if err := x.refuseLocked(mount.Store, id, timestamp); err != nil {
		return err
	}
	var rows []updates.Row
	if x.flag(message.VersionHide) {
		row, err := s.hideOlder(x, mount.Store, id)
		if err != nil {
			return err
		}
		rows = append(rows, row)
	}
	written := rows
	rows = append(rows, x.listed().versionRow(versionid.Text(id), timestamp))
	var gone *device.NotFoundError
	_, err = mount.Store.HeadVersion(x.at, id)
	wasMarker := errors.As(err, &gone) && gone.Marker
	null, err := s.removeNull(x, mount.Store, id, timestamp)
	if err != nil {
		return s.failHalfway(x, mount, err, written)
	}
	if null.Existed || null.Marker {
		row := x.listed().versionRow(versionid.Null, versionid.NullRemoved(versionid.Time(id)))
		rows, written = append(rows, row), append(slices.Clone(written), row)
		x.tellRows(rows[len(rows)-1:])
	}
	// This is done for a null version too: a replica that misses this request may keep it under its id.
	previous, err := x.removeAs(mount.Store, id, timestamp)
	if err != nil {
		return s.failHalfway(x, mount, err, written)
	}
	if null.Existed {
		previous = null
	}
	wasMarker = wasMarker || null.Marker
	all := s.containerUpdates(x, rows...)
	if m := previous.Metadata; m != nil {
		all = append(all, s.expirerUpdates(x, &format.Metadata{}, timestamp, m.DeleteAt)...)
	}
	if err := s.deliver(x, mount, all); err != nil {
		return err
	}
	x.set(timestampHeader, timestamp.String())
	x.set(versionHeader, versionid.Text(id))
	if wasMarker {
		x.set(markerHeader, "true")
	}
	if previous.Existed || wasMarker {
		x.answerEmpty(http.StatusNoContent)
	} else {
		x.answerEmpty(http.StatusNotFound)
	}
	return nil
}

// withoutOffset is the id under which replicas keep the null version, if id names that: the request may name an offset that one
// of them has.
func withoutOffset(x *exchange, at devices.Store, id format.VersionID) format.VersionID {
	if m, err := at.HeadVersion(x.at, format.VersionID{}); isNullOf(m, err, versionid.Time(id)) {
		return versionid.OfNull(versionid.Time(id))
	}
	return id
}

// removeNull removes the null version, or its delete marker, if id is its timestamp, and returns its state before. The
// removal has the ticks of the null version, so one that is written later stays, whether it has arrived here or not.
func (s *Server) removeNull(x *exchange, at devices.Store, id format.VersionID, timestamp format.Timestamp) (device.State, error) {
	since := versionid.Time(id)
	m, err := at.HeadVersion(x.at, format.VersionID{})
	if !isNullOf(m, err, since) { // a version that cannot be read is not removed
		return device.State{}, nil
	}
	if timestamp.Compare(since) <= 0 {
		return device.State{}, &device.OlderError{Existing: since}
	}
	if _, err := s.hideOlder(x, at, id); err != nil { // as the row says
		return device.State{}, err
	}
	removed := versionid.NullRemoved(since)
	if m != nil && m.Lock != nil { // which is compared with the time of the removal
		removed = timestamp
	}
	previous, err := x.removeAs(at, format.VersionID{}, removed)
	var replaced *device.OlderError
	if errors.As(err, &replaced) {
		return device.State{}, nil
	}
	return previous, err
}

// putMarker adds a delete marker: 204 if there was a current version, 404 if not.
func (s *Server) putMarker(x *exchange, mount *devices.Mount, id format.VersionID, timestamp format.Timestamp) error {
	if id != versionid.Of(timestamp) {
		return fail(http.StatusBadRequest, versionHeader+" of a write is its X-Timestamp.")
	}
	was, _, err := headCurrent(mount.Store, x.at)
	var gone *device.NotFoundError
	if err != nil && !errors.As(err, &gone) && !errors.Is(err, device.ErrQuarantined) {
		return err
	}
	err = s.underCondition(x, mount.Store, timestamp, func() error {
		return mount.Store.DeleteMarker(x.at, timestamp, id, x.name())
	})
	if err != nil && !isMarked(mount.Store, x.at, id, timestamp, err) {
		return err
	}
	if err := s.deliver(x, mount, s.containerUpdates(x, x.listed().markerRow(id, timestamp))); err != nil {
		return err
	}
	x.set(timestampHeader, timestamp.String())
	x.set(versionHeader, versionid.Text(id))
	if was != nil && !isExpired(was, timestamp) {
		x.answerEmpty(http.StatusNoContent)
	} else {
		x.answerEmpty(http.StatusNotFound)
	}
	return nil
}

// hideOlder keeps the versions older than id from becoming current when id, the current version, is removed. It returns
// the row for the container. Versions newer than id are not affected.
func (s *Server) hideOlder(x *exchange, at devices.Store, id format.VersionID) (updates.Row, error) {
	since := versionid.Time(id)
	if m, err := at.Head(x.at); err == nil && versionid.IsRestored(m.VersionID) && restoredTarget(m) == id {
		since = m.Timestamp
	}
	err := at.DeleteMarker(x.at, since, versionid.Hidden(since), x.name())
	var again *device.OlderError
	if err != nil && !errors.As(err, &again) {
		return updates.Row{}, err
	}
	return x.listed().versionRow(updates.CurrentVersion, since), nil
}

// hideLate keeps a version that arrives late from being current: the name had no versions yet and was deleted after the
// version's time. On replicas that had the version first, the DELETE has hidden it.
func hideLate(x *exchange, at devices.Store, m *format.Metadata, previous device.State) error {
	deleted := previous.Tombstone
	if m.VersionID.IsNull() || deleted.Compare(m.Timestamp) <= 0 {
		return nil
	}
	return at.DeleteMarker(x.at, deleted, versionid.Hidden(deleted), x.name())
}

// expireVersion ends a version being current when it has expired: 204. The version itself stays.
func (s *Server) expireVersion(x *exchange, mount *devices.Mount, m *format.Metadata, timestamp format.Timestamp) error {
	row, err := s.hideOlder(x, mount.Store, m.VersionID)
	if err != nil {
		return err
	}
	all := append(s.containerUpdates(x, row), s.expirerUpdates(x, &format.Metadata{}, timestamp, m.DeleteAt)...)
	if err := s.deliver(x, mount, all); err != nil {
		return err
	}
	x.set(timestampHeader, timestamp.String())
	x.answerEmpty(http.StatusNoContent)
	return nil
}

// markerRow is the row that enters a delete marker into the listing of versions.
func (l listed) markerRow(id format.VersionID, timestamp format.Timestamp) updates.Row {
	row := l.versionRow(versionid.Text(id), timestamp)
	row.Deleted, row.ContentType, row.ETag = 0, markerContentType, markerETag
	if id.IsNull() {
		row.ETag = nullMarkerETag
	}
	return row
}

// versionRow is the row that takes a version out of the listing of versions.
func (l listed) versionRow(version string, timestamp format.Timestamp) updates.Row {
	row := updates.DeletedRow(l.object, timestamp.String(), l.policy)
	row.VersionID = version
	return row
}
