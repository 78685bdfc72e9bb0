package server

import (
	"net/http"

	"martlet/object-server/bundle/format"
	"martlet/object-server/device"
	"martlet/object-server/server/message"
	"martlet/object-server/server/versionid"
	"martlet/object-server/updates"
)

// restore answers a PUT that makes a version current again: 201, 400, 404, 409 or 507. It copies no data: it writes an
// entry with the timestamp of the request that names the version.
func (s *Server) restore(x *exchange) error {
	timestamp, err := x.timestamp()
	if err != nil {
		return err
	}
	target, err := x.versionIn(message.VersionRestore)
	switch {
	case err != nil:
		return err
	case x.in.Length != 0:
		return fail(http.StatusBadRequest, "A PUT that restores a version has no body.")
	}
	mount, done, err := s.beginWrite(x)
	if err != nil {
		return err
	}
	defer done()
	found, err := headVersion(mount.Store, x.at, target)
	if err != nil {
		return err
	}
	var rows []updates.Row
	wasNull := found.VersionID.IsNull()
	if wasNull { // it keeps the id that clients know
		if found, err = mount.Store.KeepNull(x.at, timestamp, x.name()); err != nil {
			return err
		}
		if found == nil {
			return &device.NotFoundError{}
		}
		target = found.VersionID
		rows = append(keptRows(x, found), x.listed().versionRow(versionid.Null, timestamp))
		x.tellRows(rows)
	}
	upload, err := mount.Store.NewUpload(x.at, 0)
	if err != nil {
		return s.failHalfway(x, mount, err, rows)
	}
	defer upload.Abort()
	m := format.Metadata{
		Name: x.name(), ContentType: found.ContentType, ETag: markerETag,
		Timestamp: timestamp, MetaTimestamp: timestamp, TypeTimestamp: timestamp,
		VersionID: versionid.Restored(timestamp), System: format.Headers{restoredName: versionid.Text(target)},
	}
	if wasNull {
		m.System[restoredNullName] = "true"
	}
	if _, err := upload.Commit(&m); err != nil {
		return s.failHalfway(x, mount, err, rows)
	}
	rows = append(rows, x.listed().restoredRow(target, timestamp))
	if err := s.deliver(x, mount, s.containerUpdates(x, rows...)); err != nil {
		return err
	}
	x.set("Etag", `"`+found.ETag+`"`)
	x.set(versionHeader, versionid.Text(target))
	x.answerEmpty(http.StatusCreated)
	return nil
}

// restoredRow is the row that says which version is current again.
func (l listed) restoredRow(target format.VersionID, timestamp format.Timestamp) updates.Row {
	return updates.Row{
		Name: l.object, CreatedAt: timestamp.String(), ETag: versionid.Text(target), PolicyIndex: l.policy,
		VersionID: updates.CurrentVersion,
	}
}
