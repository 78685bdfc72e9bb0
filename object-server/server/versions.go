package server

import (
	"encoding/binary"
	"errors"
	"net/http"

	"martlet/object-server/bundle/format"
	"martlet/object-server/device"
	"martlet/object-server/server/devices"
)

// Headers about versions; doc/formats/wire-object.md has their meaning for each method.
const (
	versionHeader = "X-Backend-Version-Id"
	markerHeader  = "X-Backend-Version-Marker"
	restoreHeader = "X-Backend-Version-Restore"
	hideHeader    = "X-Backend-Version-Hide"
)

// nullVersion is the name, in requests and rows, of the version that a write without versioning makes.
const nullVersion = "null"

// The id of a version is its timestamp: ticks, then offset, big-endian. Ticks do not use the two highest bits: an id with
// one of them belongs to an entry that no client sees. Both sort above the version of the same timestamp.
const (
	restoredBit = 0x80 // a PUT without data whose metadata name the version that is current
	hiddenBit   = 0xC0 // a delete marker: nothing older is current
)

// restoredName is the stored header that names the version that is current.
const restoredName = "X-Object-Sysmeta-Current-Version"

func versionIDOf(t format.Timestamp, bits byte) (id format.VersionID) {
	binary.BigEndian.PutUint64(id[:], t.Ticks)
	binary.BigEndian.PutUint64(id[8:], t.Offset)
	id[0] |= bits
	return id
}

// keptID is the id of a null version that is kept when it is not current any more. Clients already know that id.
func keptID(t format.Timestamp) format.VersionID { return versionIDOf(t, 0) }

// timeOfVersion is the timestamp of an id as versionIDOf makes it.
func timeOfVersion(id format.VersionID) format.Timestamp {
	id[0] &^= hiddenBit
	return format.Timestamp{Ticks: binary.BigEndian.Uint64(id[:]), Offset: binary.BigEndian.Uint64(id[8:])}
}

// isClientVersion reports whether clients know an id.
func isClientVersion(id format.VersionID) bool { return !id.IsNull() && id[0]&hiddenBit == 0 }

func isRestored(id format.VersionID) bool { return id[0]&hiddenBit == restoredBit }

// versionText is an id in the form of requests and rows.
func versionText(id format.VersionID) string {
	if id.IsNull() {
		return nullVersion
	}
	return timeOfVersion(id).String()
}

func parseVersionID(name, text string) (id format.VersionID, err error) {
	if text == nullVersion {
		return id, nil
	}
	t, err := format.ParseTimestamp(text)
	if err != nil || t.IsZero() {
		return id, fail(http.StatusBadRequest, "Invalid %s header %q.", name, text)
	}
	return versionIDOf(t, 0), nil
}

// version is the version that the request names; ok is false if it names none.
func (x *exchange) version() (id format.VersionID, ok bool, err error) {
	text := x.header(versionHeader)
	if text == "" {
		return id, false, nil
	}
	id, err = parseVersionID(versionHeader, text)
	return id, true, err
}

// newVersion is the id for a write: that of its timestamp, or the null version.
func (x *exchange) newVersion(timestamp format.Timestamp) (format.VersionID, error) {
	id, ok, err := x.version()
	if err == nil && ok && id != versionIDOf(timestamp, 0) {
		err = fail(http.StatusBadRequest, versionHeader+" of a write is its X-Timestamp.")
	}
	return id, err
}

// restoredTarget is the version that an entry made by restore names.
func restoredTarget(m *format.Metadata) format.VersionID {
	id, err := parseVersionID(restoredName, m.System[restoredName])
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
	if ok && err == nil && !o.Metadata().VersionID.IsNull() {
		defer o.Close()
		return nil, since, otherIsCurrent(o.Metadata())
	}
	if err == nil && isRestored(o.Metadata().VersionID) {
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
	id, ok, err := x.version()
	switch {
	case err != nil:
		return nil, since, err
	case ok && !id.IsNull():
		m, err = headVersion(from, x.at, id)
		return m, since, err
	}
	m, since, err = headCurrent(from, x.at)
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

var errOtherIsCurrent = errors.New("another version was current when records were lost")

// headCurrent is the metadata of the version that is current.
func headCurrent(from devices.Store, at device.Location) (m *format.Metadata, since format.Timestamp, err error) {
	m, err = from.Head(at)
	if err == nil && isRestored(m.VersionID) {
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

// isAlias reports whether an id that was not found is the timestamp of the null version. Clients see that id once the
// null version is not current any more.
func isAlias(from devices.Store, at device.Location, id format.VersionID, err error) bool {
	var gone *device.NotFoundError
	isMissing := errors.As(err, &gone) && !gone.Marker && gone.Tombstone.IsZero()
	if !isMissing && !errors.Is(err, device.ErrQuarantined) || id.IsNull() {
		return false
	}
	m, err := from.HeadVersion(at, format.VersionID{})
	return err == nil && m.Timestamp == timeOfVersion(id)
}

// describeVersion sets the headers about the version of an answer; none for a name without versions.
func (x *exchange) describeVersion(m *format.Metadata, since format.Timestamp) {
	if m.Versioned || !m.VersionID.IsNull() {
		x.set(versionHeader, versionText(m.VersionID))
	}
	if !since.IsZero() { // replicas compare the timestamp of this write, not that of the data
		x.set(timestampHeader, since.String())
		x.set("X-Backend-Data-Timestamp", since.String())
		x.set("X-Backend-Durable-Timestamp", since.String())
	}
}
