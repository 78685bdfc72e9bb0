package server

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"martlet/object-server/bundle/format"
	"martlet/object-server/device"
	"martlet/object-server/server/versionid"
	"martlet/object-server/updates"
)

const (
	reportedAtOnce = 500 // updates that become pending together
	pendingMax     = 10 * reportedAtOnce
)

// Pauses of a report: until less is pending, and until the device may take updates again. The wait for less ends after
// pendingPatience: a dead container server must not hold up the rows of others, and 50 rows a second take little room.
const (
	pendingPause     = 100 * time.Millisecond
	reportAgainAfter = time.Minute
)

var pendingPatience = 10 * time.Second // tests have a shorter one

// report makes updates of the last writes of a process that was killed: it may have told no container of them, and rows
// that come twice do no harm. reclaimAge bounds their age: the row of an old write would list an object again if the
// row of its DELETE has been reclaimed. It returns false if that has failed for good.
func (s *Server) report(
	ctx context.Context, path string, from *device.Unreported, pending *updates.Pending, reclaimAge time.Duration,
) bool {
	for {
		r := &report{pending: pending, maxAge: reclaimAge / 2}
		err := from.Visit(ctx, func(at device.Location, record *format.Record, m *format.Metadata) error {
			return r.add(ctx, at, record, m)
		})
		if err == nil {
			err = r.save(ctx)
		}
		if err == nil {
			from.End()
		}
		if r.count > 0 {
			s.logger.Info("the last writes are reported to containers again", "device", path, "updates", r.count)
		}
		if err == nil {
			return true
		}
		if ctx.Err() != nil || errors.Is(err, device.ErrOut) || errors.Is(err, device.ErrClosed) {
			return false
		}
		s.logger.Error("containers may not know the last writes of a device; it is tried again",
			"device", path, "seconds", reportAgainAfter.Seconds(), "error", err)
		if !pause(ctx, reportAgainAfter) {
			return false
		}
	}
}

// mendEvery is how often it is looked for damage in pending updates. While there is some each time, the pause doubles up to
// mendPause: where a disk reads nothing of what was written, each mending makes a file, and finds all lost again.
var (
	mendEvery = time.Second // tests have shorter ones
	mendPause = 10 * time.Minute
)

// mendRows makes updates again that damage in the files of pending ones has taken: those of all writes of which it is
// not noted that their updates are delivered. If a partition could not be read, the next process makes them once more.
func (s *Server) mendRows(
	ctx context.Context, path string, opened *device.Device, pending *updates.Pending, reclaimAge time.Duration,
) {
	for wait := mendEvery; pause(ctx, wait); {
		all := pending.Lost()
		if len(all) > 0 {
			wait = min(2*wait, mendPause)
		} else {
			wait = max(wait/2, mendEvery)
		}
		for _, lost := range all {
			s.logger.Warn("pending container updates may be lost, and are made again from the objects", "device", path,
				"policy", lost.Policy)
			from := opened.Undelivered(lost.Policy)
			if !s.report(ctx, path, from, pending, reclaimAge) {
				return
			}
			if from.HasAll() {
				pending.Mended(lost)
			} else {
				pending.MendedInPart(lost)
			}
		}
	}
}

// noteEvery is how often it is noted which rows need not be made again. A crash makes those of so many seconds.
var noteEvery = 10 * time.Second // tests have a shorter one

// noteRows notes now and then which rows are delivered or pending, so that a start after a crash does not make them, and
// which are delivered, so that damage does not.
func (s *Server) noteRows(ctx context.Context, path string, opened *device.Device, pending *updates.Pending) {
	delivered := delivered{opened: opened, pending: pending}
	for pause(ctx, noteEvery) {
		if !opened.IsReported() {
			continue
		}
		begun := opened.RowsBegun()
		if len(begun) == 0 {
			continue
		}
		select { // a record in begun is of a write that began before
		case <-pending.WritesOver():
		case <-ctx.Done():
			return
		}
		err := opened.NoteRows(begun)
		if err == nil {
			err = delivered.note(begun)
		}
		if err != nil {
			s.logger.Debug("not noted which rows containers know", "device", path, "error", err)
		}
	}
}

// delivered waits for the rows of some writes at a time: there may never be a moment at which none is pending.
type delivered struct {
	opened  *device.Device
	pending *updates.Pending
	begun   []device.RowPosition // through where the rows are waited for; nil: none are
	mark    updates.Mark         // of these rows
}

// note notes what is waited for once it is delivered. begun are positions of which all rows are delivered or pending.
func (d *delivered) note(begun []device.RowPosition) error {
	if d.begun == nil {
		d.begun, d.mark = begun, d.pending.Mark()
	}
	isOver, isVoid := d.pending.IsOver(d.mark)
	if !isOver && !isVoid {
		return nil
	}
	begun, d.begun = d.begun, nil
	if isVoid {
		return nil
	}
	return d.opened.NoteDelivered(begun)
}

// report collects updates of stored records.
type report struct {
	pending *updates.Pending
	maxAge  time.Duration
	found   []updates.Update
	times   []format.Timestamp // of the newest change that each of found tells
	policy  int
	count   int
}

func (r *report) add(ctx context.Context, at device.Location, record *format.Record, m *format.Metadata) error {
	if err := ctx.Err(); err != nil { // a partition may have many records that are too old
		return err
	}
	newest := m.Timestamp
	if newest.Compare(m.MetaTimestamp) < 0 {
		newest = m.MetaTimestamp
	}
	if newest.Compare(r.oldest()) < 0 {
		return nil
	}
	if at.Policy != r.policy || len(r.found) >= reportedAtOnce {
		if err := r.save(ctx); err != nil {
			return err
		}
		r.policy = at.Policy
	}
	all := updatesOf(at, record, m)
	r.found, r.times = append(r.found, all...), append(r.times, slices.Repeat([]format.Timestamp{newest}, len(all))...)
	return nil
}

// oldest is the time of the oldest change of which a row may be made now.
func (r *report) oldest() format.Timestamp {
	return format.Timestamp{Ticks: uint64(time.Now().Add(-r.maxAge).UnixMicro() / 10)}
}

// dropOld leaves out what has become too old since it was found.
func (r *report) dropOld() {
	oldest, kept := r.oldest(), 0
	for i, update := range r.found {
		if r.times[i].Compare(oldest) >= 0 {
			r.found[kept], r.times[kept] = update, r.times[i]
			kept++
		}
	}
	r.found, r.times = r.found[:kept], r.times[:kept]
}

// save makes what was found pending. It waits while much is: after a power cut of a whole cluster, all servers report.
func (r *report) save(ctx context.Context) error {
	if len(r.found) == 0 {
		return nil
	}
	for began := time.Now(); r.pending.Count() > pendingMax && time.Since(began) < pendingPatience; {
		if !pause(ctx, pendingPause) {
			return ctx.Err()
		}
	}
	r.dropOld() // found long ago, if the disk is slow
	if len(r.found) == 0 {
		return nil
	}
	_, err := r.pending.Append(r.policy, r.found)
	if err == nil {
		r.count += len(r.found)
		r.found, r.times = r.found[:0], r.times[:0]
	}
	return err
}

// pause returns false if the context ends first.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
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
