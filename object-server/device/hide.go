package device

import (
	"errors"
	"fmt"

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

// hidesOlderError says that what is older than a DELETE is to be hidden before a record of a peer is stored.
type hidesOlderError struct{ timestamp format.Timestamp }

func (e *hidesOlderError) Error() string {
	return fmt.Sprintf("device: the DELETE of %s hides older versions", e.timestamp)
}

// isPlainDelete tells whether a record is the DELETE of a name that had no versions where it was written. Where there
// are versions, Hide keeps older ones from being current. A removal of the null version by its id hides none, and makes
// a chain first.
func (d *Device) isPlainDelete(r *format.Record, m *format.Metadata) bool {
	return d.options.HiddenID != nil && r.Type() == format.TypeTombstone && r.Head.VersionID.IsNull() &&
		!r.Versioned() && !m.IsMoved()
}

// checkDeleted refuses a version of a peer that is older than the tombstone of a name without versions, until the
// name is one with versions of which older ones are hidden.
func (d *Device) checkDeleted(x *incoming, tombstone format.Timestamp) error {
	if tombstone.Compare(x.metadata.Timestamp) <= 0 {
		return nil
	}
	record, buffer, err := x.bundle.ReadHead(x.at.Hash)
	defer buffer.Free()
	if err != nil || record == nil { // damaged: a peer may have it
		return nil
	}
	m, err := record.Metadata()
	if err != nil || !d.isPlainDelete(&record.Record, m) {
		return nil
	}
	return &hidesOlderError{tombstone}
}

// hideOlder keeps versions that are older than a DELETE from being current.
func (d *Device) hideOlder(at Location, deleted format.Timestamp, name string) error {
	err := d.DeleteMarker(at, deleted, d.options.HiddenID(deleted), name)
	var again *OlderError
	if errors.As(err, &again) {
		return nil
	}
	return err
}
