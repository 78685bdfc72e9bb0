package device

import (
	"martlet/object-server/bundle"
	"martlet/object-server/bundle/format"
	"martlet/object-server/bundle/versions"
)

// Hide makes a name have no current version from t on. Without versions that is
// Delete. Where there are versions they stay: a null delete marker is written,
// in place of the null version. The state is that of what was current. Errors as
// of Upload.Commit.
func (d *Device) Hide(at Location, t format.Timestamp, name string) (State, error) {
	return d.hideBy(at, erasure{kind: format.TypeTombstone, time: t, name: name, hides: true})
}

// BypassHide is Hide in spite of a lock of governance.
func (d *Device) BypassHide(at Location, t format.Timestamp, name string) (State, error) {
	return d.hideBy(at, erasure{kind: format.TypeTombstone, time: t, name: name, hides: true, bypasses: true})
}

// MarkNull is Hide by a null delete marker that clients see, also where there are no versions.
func (d *Device) MarkNull(at Location, t format.Timestamp, name string) (State, error) {
	return d.hideBy(at, erasure{kind: format.TypeDeleteMarker, time: t, name: name, hides: true, marks: true})
}

// isMarker tells whether a record is a delete marker that clients see.
func isMarker(record *bundle.Record) bool {
	if record.Type() != format.TypeDeleteMarker || !record.VersionID().IsNull() {
		return record.Type() == format.TypeDeleteMarker
	}
	m, err := record.Metadata()
	return err == nil && m.MarksNull()
}

func (d *Device) hideBy(at Location, e erasure) (State, error) {
	return d.keepingNull(at, func(kept format.Timestamp) (State, error) {
		e.kept = kept
		return d.erase(at, e)
	})
}

// hide continues a chain with a null delete marker, and notes what was current.
func (e *erasure) hide(w *rival, c *versions.Chain) (versions.Addition, error) {
	e.kind, w.kind = format.TypeDeleteMarker, format.TypeDeleteMarker
	e.current, _ = c.Newest()
	return w.add(c)
}

// currentState is the state of the version that a hiding erasure hides.
func currentState(b *bundle.Bundle, hash format.Hash, current format.Reference) State {
	if current.Timestamp.IsZero() {
		return State{}
	}
	record, buffer, err := b.ReadVersionHead(hash, current)
	defer buffer.Free()
	if err != nil || !record.Live() {
		return State{}
	}
	m, err := metadata(b, record)
	if err != nil {
		return State{}
	}
	return State{Existed: true, Metadata: m}
}
