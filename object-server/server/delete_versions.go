package server

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"

	"martlet/object-server/bundle/format"
	"martlet/object-server/device"
	"martlet/object-server/server/devices"
	"martlet/object-server/server/message"
	"martlet/object-server/server/versionid"
	"martlet/object-server/updates"
)

// listedVersionsMax is how many versions one DELETE may list.
const listedVersionsMax = 2048

// removeListed answers a DELETE whose body lists versions of the name, none of which may be current: 200, with a status for
// each; 400, 411, 413 or 507.
func (s *Server) removeListed(x *exchange) error {
	timestamp, err := x.timestamp()
	if err != nil {
		return err
	}
	ids, err := s.listedVersions(x)
	if err != nil {
		return err
	}
	mount, done, err := s.beginWrite(x)
	if err != nil {
		return err
	}
	defer done()
	statuses := make([]int, len(ids))
	wanted, err := removable(x, mount.Store, ids, statuses)
	if err != nil {
		return err
	}
	removals, err := mount.Store.DeleteVersions(x.at, wanted, timestamp, x.name())
	if err != nil && removals == nil {
		return err
	}
	rows := make([]updates.Row, 0, len(wanted))
	var tasks []updates.Update
	next := 0
	for i, id := range ids {
		if statuses[i] != 0 {
			continue
		}
		removal := &removals[next]
		next++
		if statuses[i] = statusOfRemoval(removal); removal.Err != nil {
			continue
		}
		rows = append(rows, x.listed().versionRow(versionid.Text(id), timestamp))
		if m := removal.State.Metadata; m != nil {
			tasks = append(tasks, s.expirerUpdates(x, &format.Metadata{}, timestamp, m.DeleteAt)...)
		}
	}
	if err := s.deliver(x, mount, append(s.containerUpdates(x, rows...), tasks...)); err != nil {
		return err
	}
	body, _ := json.Marshal(statuses) // numbers
	x.set(timestampHeader, timestamp.String())
	x.set("Content-Type", "application/json")
	return x.answerBytes(body)
}

// statusOfRemoval is that of a DELETE of the version alone. A delete marker that was removed is as a version that was not there.
func statusOfRemoval(removal *device.Removal) int {
	switch {
	case removal.Err != nil:
		return failureOf(removal.Err).status
	case removal.State.Existed:
		return http.StatusNoContent
	}
	return http.StatusNotFound
}

// listedVersions reads the body: a JSON list of ids.
func (s *Server) listedVersions(x *exchange) ([]format.VersionID, error) {
	if !x.in.HasLength || x.in.Length < 0 {
		return nil, fail(http.StatusLengthRequired, "The list of versions needs a Content-Length.")
	}
	if x.in.Length > message.BodyMax {
		return nil, fail(http.StatusRequestEntityTooLarge, "The list of versions is too long.")
	}
	var body bytes.Buffer
	if _, err := s.receive(x, &body); err != nil {
		return nil, err
	}
	var texts []string
	if err := json.Unmarshal(body.Bytes(), &texts); err != nil || len(texts) == 0 || len(texts) > listedVersionsMax {
		return nil, fail(http.StatusBadRequest, "The body is not a list of 1 to %d versions.", listedVersionsMax)
	}
	ids := make([]format.VersionID, len(texts))
	for i, text := range texts {
		id, err := versionid.Parse(text)
		if err != nil || id.IsNull() {
			return nil, fail(http.StatusBadRequest, "Invalid version %q in the list.", text)
		}
		ids[i] = id
	}
	return ids, nil
}

// removable is what may be removed of a list. The current version, and the null version under the id that is its timestamp,
// get the status 409: their removal changes more than their own rows.
func removable(x *exchange, from devices.Store, ids []format.VersionID, statuses []int) ([]format.VersionID, error) {
	kept := map[format.VersionID]bool{}
	m, err := from.Head(x.at)
	var gone *device.NotFoundError
	switch {
	case errors.As(err, &gone):
		kept[gone.VersionID] = true
	case err != nil:
		return nil, err
	default:
		kept[m.VersionID] = true
		if versionid.IsRestored(m.VersionID) {
			kept[restoredTarget(m)] = true
		}
	}
	null, err := from.HeadVersion(x.at, format.VersionID{})
	switch {
	case err == nil:
		kept[versionid.OfNull(null.Timestamp)], kept[versionid.Of(null.Timestamp)] = true, true
	case errors.As(err, &gone) && gone.Marker:
		kept[versionid.OfNull(gone.Tombstone)], kept[versionid.Of(gone.Tombstone)] = true, true
	}
	wanted := make([]format.VersionID, 0, len(ids))
	for i, id := range ids {
		if kept[id] {
			statuses[i] = http.StatusConflict
			continue
		}
		wanted = append(wanted, id)
	}
	return wanted, nil
}
