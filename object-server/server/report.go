package server

import (
	"context"
	"strings"
	"time"

	"martlet/object-server/bundle/format"
	"martlet/object-server/device"
	"martlet/object-server/server/versionid"
	"martlet/object-server/updates"
)

// reportedAtOnce is how many updates become pending together.
const reportedAtOnce = 500

// report makes updates of the last writes of a process that was killed: it may have told no container of them, and rows
// that come twice do no harm. reclaimAge bounds their age: the row of an old write would list an object again if the
// row of its DELETE has been reclaimed.
func (s *Server) report(ctx context.Context, path string, from *device.Unreported, pending *updates.Pending, reclaimAge time.Duration) {
	oldest := format.Timestamp{Ticks: uint64(time.Now().Add(-reclaimAge/2).UnixMicro() / 10)}
	found, policy, count := []updates.Update(nil), 0, 0
	save := func() error {
		if len(found) == 0 {
			return nil
		}
		_, err := pending.Append(policy, found)
		found, count = found[:0], count+len(found)
		return err
	}
	err := from.Visit(ctx, func(at device.Location, record *format.Record, m *format.Metadata) error {
		if m.Timestamp.Compare(oldest) < 0 && m.MetaTimestamp.Compare(oldest) < 0 {
			return nil
		}
		if at.Policy != policy || len(found) >= reportedAtOnce {
			if err := save(); err != nil {
				return err
			}
			policy = at.Policy
		}
		found = append(found, updatesOf(at, record, m)...)
		return ctx.Err()
	})
	if err == nil {
		err = save()
	}
	if err != nil && ctx.Err() == nil {
		s.logger.Error("containers may not know the last writes of a device", "device", path, "error", err)
		return
	}
	if count > 0 {
		s.logger.Info("the last writes before a crash are reported to containers again", "device", path, "updates", count)
	}
}

// updatesOf makes the updates of a stored record, for all primaries of the containers. It has none for what says nothing
// about a listing by itself.
func updatesOf(at device.Location, record *format.Record, m *format.Metadata) []updates.Update {
	parts := strings.SplitN(strings.TrimPrefix(m.Name, "/"), "/", 3)
	if len(parts) != 3 || m.IsMoved() { // the container lists a moved version in its new policy
		return nil
	}
	row, ok := listed{parts[2], at.Policy}.rowOf(record, m)
	if !ok {
		return nil
	}
	target := updates.Target{Account: parts[0], Container: parts[1], PolicyIndex: at.Policy}
	all := []updates.Update{{Target: target, Row: row}}
	if record.Live() && m.DeleteAt != 0 && !versionid.IsRestored(m.VersionID) {
		all = append(all, queued(m, at.Hash, m.MetaTimestamp))
	}
	return all
}

// rowOf is the row of a stored record.
func (l listed) rowOf(record *format.Record, m *format.Metadata) (row updates.Row, ok bool) {
	id := record.VersionID()
	isShown := id.IsNull() || versionid.IsClient(id)
	switch {
	case record.Live() && versionid.IsRestored(id):
		return l.restoredRow(restoredTarget(m), m.Timestamp), true
	case record.Live():
		return l.storedRow(m), isShown
	case record.Type() == format.TypeDeleteMarker && id.IsNull() && !m.MarksNull(),
		record.Type() == format.TypeTombstone && id.IsNull() && !record.Versioned():
		return updates.DeletedRow(l.object, m.Timestamp.String(), l.policy), true
	case record.Type() == format.TypeDeleteMarker && isShown:
		return l.markerRow(id, m.Timestamp), true
	case record.Type() == format.TypeDeleteMarker: // it hides what is older
		return l.versionRow(updates.CurrentVersion, m.Timestamp), true
	}
	return l.versionRow(versionid.Text(id), m.Timestamp), isShown
}
