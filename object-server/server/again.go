package server

import (
	"errors"

	"martlet/object-server/bundle/format"
	"martlet/object-server/device"
	"martlet/object-server/server/devices"
)

// A write that goes to all replicas may wait in the network, or for a server that starts. Meanwhile a replicator brings its
// result from a replica that has answered. The write then finds itself, which is no conflict. Nothing is written again, but
// the containers are told: no other server tells them for this replica.

// isWritten tells whether a PUT was refused although its object is stored. A later POST does not matter.
func isWritten(from devices.Store, at device.Location, m *format.Metadata, refused error) bool {
	if !isOfTime(refused, m.Timestamp) {
		return false
	}
	var stored *format.Metadata
	var err error
	if m.VersionID.IsNull() {
		stored, err = from.Head(at)
	} else {
		stored, err = from.HeadVersion(at, m.VersionID)
	}
	if err != nil || m.CompareData(stored) != 0 {
		return false
	}
	isMeta := stored.MetaTimestamp != m.Timestamp || m.CompareMeta(stored) == 0
	isType := stored.TypeTimestamp != m.Timestamp || m.CompareType(stored) == 0
	return isMeta && isType
}

// isMarked tells whether a delete marker was refused although it is there.
func isMarked(from devices.Store, at device.Location, id format.VersionID, t format.Timestamp, refused error) bool {
	if !isOfTime(refused, t) {
		return false
	}
	_, err := from.HeadVersion(at, id)
	var gone *device.NotFoundError
	return errors.As(err, &gone) && gone.Marker && gone.VersionID == id
}

// isOfTime tells whether a write was refused because of what is stored of this time.
func isOfTime(refused error, t format.Timestamp) bool {
	var older *device.OlderError
	return errors.As(refused, &older) && older.Existing == t
}
