// Package versionid makes and reads the ids of versions: an id is the timestamp of the version, ticks then offset, big-endian.
//
// Invariants: ids sort like their timestamps; entries that no client sees have ids of their own, above the version of the
// same timestamp. The engine stores ids without knowing their meaning; the handlers of the server use this package.
package versionid
