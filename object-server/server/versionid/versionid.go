package versionid

import (
	"encoding/binary"
	"errors"

	"martlet/object-server/bundle/format"
)

// Null is the name, in requests and rows, of the version that a write without versioning makes.
const Null = "null"

// AnyNull names that version in a HEAD, also if it is not current; with Null there is none then.
const AnyNull = "null-any"

// MadeOf, before the id of a multipart upload of the S3 API, names a version that was made of it, in a HEAD. It need not be
// the current one.
const MadeOf = "made-of:"

// Ticks do not use the two highest bits of an id. An id with one of them belongs to an entry that no client sees; it
// sorts above the version of the same timestamp.
const (
	restoredBit = 0x80
	hiddenBit   = 0xC0
)

// removedOffset is greater than each offset that moves between policies give a version.
const removedOffset = 1 << 48

// Of is the id of the version with a timestamp.
func Of(t format.Timestamp) format.VersionID { return encode(t, 0) }

// OfNull is the id that a null version gets when it is kept; clients then already know that id. It has no offset: that grows
// when the version comes back from another policy, and may differ between replicas.
func OfNull(t format.Timestamp) format.VersionID { return Of(format.Timestamp{Ticks: t.Ticks}) }

// NullRemoved is the time of the removal of the null version of a time, whatever offset replicas give that. Null versions of
// later ticks stay.
func NullRemoved(t format.Timestamp) format.Timestamp {
	return format.Timestamp{Ticks: t.Ticks, Offset: removedOffset}
}

// Restored is the id of the entry of a PUT without data whose metadata name the version that is current.
func Restored(t format.Timestamp) format.VersionID { return encode(t, restoredBit) }

// Hidden is the id of a delete marker that no client sees: nothing older is current.
func Hidden(t format.Timestamp) format.VersionID { return encode(t, hiddenBit) }

func encode(t format.Timestamp, bits byte) (id format.VersionID) {
	binary.BigEndian.PutUint64(id[:], t.Ticks)
	binary.BigEndian.PutUint64(id[8:], t.Offset)
	id[0] |= bits
	return id
}

// Time is the timestamp of an id.
func Time(id format.VersionID) format.Timestamp {
	id[0] &^= hiddenBit
	return format.Timestamp{Ticks: binary.BigEndian.Uint64(id[:]), Offset: binary.BigEndian.Uint64(id[8:])}
}

// IsClient reports whether clients know an id.
func IsClient(id format.VersionID) bool { return !id.IsNull() && id[0]&hiddenBit == 0 }

// IsRestored reports whether an id is one that Restored makes.
func IsRestored(id format.VersionID) bool { return id[0]&hiddenBit == restoredBit }

// Text is an id in the form of requests and rows.
func Text(id format.VersionID) string {
	if id.IsNull() {
		return Null
	}
	return Time(id).String()
}

// Parse reads an id that clients may know.
func Parse(text string) (id format.VersionID, err error) {
	if text == Null {
		return id, nil
	}
	t, err := format.ParseTimestamp(text)
	if err != nil {
		return id, err
	}
	if t.IsZero() {
		return id, errors.New("the timestamp is zero")
	}
	return Of(t), nil
}
