// Package marker says whether a directory is the device that its name claims: by a file in the root of the device, and a
// copy of it beside the devices. Both are described in doc/formats/device-marker.md; the Python services keep the same.
//
// Invariants: a marker is written before its copy, and durably, so a copy proves that there was a marker; a device of
// another name or cluster is never written to. The server checks a device each time before it opens it.
package marker
