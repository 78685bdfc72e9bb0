package server

import (
	"errors"
	"net/http"
	"strings"

	"martlet/object-server/bundle/format"
	"martlet/object-server/device"
	"martlet/object-server/server/devices"
	"martlet/object-server/server/message"
	"martlet/object-server/server/versionid"
)

// Headers about versions; doc/formats/wire-object.md has their meaning for each method.
const (
	versionHeader = "X-Backend-Version-Id"
	markerHeader  = "X-Backend-Version-Marker"
)

// Stored headers of an entry made by restore.
const (
	restoredName     = "X-Object-Sysmeta-Current-Version"  // the version that is current
	restoredNullName = "X-Object-Sysmeta-Current-Was-Null" // it was the null version before, and got an id
)

// versionIn is the version that a header of the request names.
func (x *exchange) versionIn(header message.Field) (format.VersionID, error) {
	text := x.header(header)
	id, err := versionid.Parse(text)
	if err != nil {
		return id, fail(http.StatusBadRequest, "Invalid %s header %q.", header.Name(), text)
	}
	return id, nil
}

// version is the version that the request names; ok is false if it names none.
func (x *exchange) version() (id format.VersionID, ok bool, err error) {
	if x.header(message.VersionID) == "" {
		return id, false, nil
	}
	id, err = x.versionIn(message.VersionID)
	return id, true, err
}

// newVersion is the id for a write: that of its timestamp, or the null version.
func (x *exchange) newVersion(timestamp format.Timestamp) (format.VersionID, error) {
	id, ok, err := x.version()
	if err == nil && ok && id != versionid.Of(timestamp) {
		err = fail(http.StatusBadRequest, versionHeader+" of a write is its X-Timestamp.")
	}
	return id, err
}

// restoredTarget is the version that an entry made by restore names.
func restoredTarget(m *format.Metadata) format.VersionID {
	id, err := versionid.Parse(m.System[restoredName])
	if err != nil {
		return format.VersionID{} // no write makes such an id: it is the null version
	}
	return id
}

// openRequested opens the version that the request names, else the current one. since is when it became current, if that
// is not its own timestamp.
func openRequested(x *exchange, from devices.Store) (o devices.Object, since format.Timestamp, err error) {
	id, ok, err := x.version()
	switch {
	case err != nil:
		return nil, since, err
	case ok && !id.IsNull():
		o, err = openVersion(from, x.at, id)
		return o, since, err
	}
	o, err = from.Open(x.at)
	if ok {
		err = ofNull(err)
	}
	if ok && err == nil && !o.Metadata().VersionID.IsNull() {
		defer o.Close()
		return nil, since, otherIsCurrent(o.Metadata())
	}
	if err == nil && versionid.IsRestored(o.Metadata().VersionID) {
		since = o.Metadata().Timestamp
		target, isDoubtful := restoredTarget(o.Metadata()), o.Metadata().Doubtful
		o.Close()
		if o, err = openVersion(from, x.at, target); err != nil {
			return nil, since, undated(err, isDoubtful)
		}
		keepRestored(o.Metadata(), since)
		o.Metadata().Doubtful = o.Metadata().Doubtful || isDoubtful
	}
	return o, since, err
}

// keepRestored removes the X-Delete-At of a version that had expired before it was made current again.
func keepRestored(m *format.Metadata, since format.Timestamp) {
	if isExpired(m, since) {
		m.DeleteAt = 0
	}
}

// undated is the error for a restored version that does not exist any more. It has no timestamp: when the version was
// removed does not matter, and a replica that knows a later write is right. If the entry that names the version is
// doubtful, the error is one of doubt.
func undated(err error, isDoubtful bool) error {
	var gone *device.NotFoundError
	isGone := errors.As(err, &gone)
	switch {
	case isGone && isDoubtful, errors.Is(err, device.ErrQuarantined):
		return &device.DoubtError{Cause: err}
	case isGone:
		return &device.NotFoundError{}
	}
	return err
}

func openVersion(from devices.Store, at device.Location, id format.VersionID) (devices.Object, error) {
	o, err := from.OpenVersion(at, id)
	if isAlias(from, at, id, err) {
		return from.OpenVersion(at, format.VersionID{})
	}
	return o, err
}

// headRequested is openRequested without the data.
func headRequested(x *exchange, from devices.Store) (m *format.Metadata, since format.Timestamp, err error) {
	if x.header(message.VersionID) == versionid.AnyNull {
		m, err = headNull(from, x.at)
		return m, since, err
	}
	if upload, ok := strings.CutPrefix(x.header(message.VersionID), versionid.MadeOf); ok {
		m, err = headMade(from, x.at, upload)
		return m, since, err
	}
	id, ok, err := x.version()
	switch {
	case err != nil:
		return nil, since, err
	case ok && !id.IsNull():
		m, err = headVersion(from, x.at, id)
		return m, since, err
	}
	m, since, err = headCurrent(from, x.at)
	if ok {
		err = ofNull(err)
	}
	if ok && err == nil && !m.VersionID.IsNull() {
		return nil, since, otherIsCurrent(m)
	}
	return m, since, err
}

// otherIsCurrent is the error for a request of the null version if a version with an id is current: the earlier null
// version then has an id, too.
func otherIsCurrent(m *format.Metadata) error {
	if m.Doubtful {
		return &device.DoubtError{Timestamp: m.Timestamp, Cause: errOtherIsCurrent}
	}
	return &device.NotFoundError{Tombstone: m.Timestamp}
}

// ofNull is the error of a request for the null version; a delete marker with an id is none.
func ofNull(err error) error {
	var gone *device.NotFoundError
	if errors.As(err, &gone) && !gone.VersionID.IsNull() {
		return &device.NotFoundError{Tombstone: gone.Tombstone}
	}
	return err
}

var errOtherIsCurrent = errors.New("another version was current when records were lost")

// headCurrent is the metadata of the version that is current.
func headCurrent(from devices.Store, at device.Location) (m *format.Metadata, since format.Timestamp, err error) {
	m, err = from.Head(at)
	if err == nil && versionid.IsRestored(m.VersionID) {
		isDoubtful := m.Doubtful
		since = m.Timestamp
		if m, err = headVersion(from, at, restoredTarget(m)); err != nil {
			return nil, since, undated(err, isDoubtful)
		}
		keepRestored(m, since)
		m.Doubtful = m.Doubtful || isDoubtful
	}
	return m, since, err
}

func headVersion(from devices.Store, at device.Location, id format.VersionID) (*format.Metadata, error) {
	m, err := from.HeadVersion(at, id)
	if isAlias(from, at, id, err) {
		return from.HeadVersion(at, format.VersionID{})
	}
	return m, err
}

// headNull is the metadata of the null version, or of the current version if that was the null version before it was made
// current again: clients of the S3 API still call it null.
func headNull(from devices.Store, at device.Location) (*format.Metadata, error) {
	m, err := from.HeadVersion(at, format.VersionID{})
	var gone *device.NotFoundError
	if !errors.As(err, &gone) || gone.Marker {
		return m, err
	}
	current, currentErr := from.Head(at)
	if currentErr != nil || !versionid.IsRestored(current.VersionID) || current.System[restoredNullName] == "" {
		return m, err
	}
	return headVersion(from, at, restoredTarget(current))
}

// isAlias reports whether an id that was not found is that of the null version. Clients see it once the null version is not
// current any more.
func isAlias(from devices.Store, at device.Location, id format.VersionID, err error) bool {
	var gone *device.NotFoundError
	isMissing := errors.As(err, &gone) && !gone.Marker && gone.Tombstone.IsZero()
	if !isMissing && !errors.Is(err, device.ErrQuarantined) || id.IsNull() {
		return false
	}
	m, err := from.HeadVersion(at, format.VersionID{})
	return isNullOf(m, err, versionid.Time(id))
}

// isNullOf tells, of the result of a look-up of the null version, whether it, or its delete marker, is of a time. Its offset does
// not count: it grows when the version comes back from another policy.
func isNullOf(m *format.Metadata, err error, t format.Timestamp) bool {
	var gone *device.NotFoundError
	if errors.As(err, &gone) {
		return gone.Marker && gone.Tombstone.Ticks == t.Ticks
	}
	return err == nil && m.Timestamp.Ticks == t.Ticks
}

// describeVersion sets the headers about the version of an answer; none for a name without versions.
func (x *exchange) describeVersion(m *format.Metadata, since format.Timestamp) {
	if m.Versioned || !m.VersionID.IsNull() {
		x.set(versionHeader, versionid.Text(m.VersionID))
	}
	if !since.IsZero() { // replicas compare the timestamp of this write, not that of the data
		x.set(timestampHeader, since.String())
		x.set(dataTimestampHeader, since.String())
		x.set("X-Backend-Durable-Timestamp", since.String())
	}
}
