package device

import (
	"errors"

	"martlet/object-server/bundle"
	"martlet/object-server/bundle/format"
	"martlet/object-server/bundle/versions"
)

// now is the time by the clock of this host, in ticks.
func (d *Device) now() uint64 {
	return uint64(max(d.options.Clock().UnixMicro()/10, 0))
}

// checkLock refuses with ErrLocked a write that would remove or replace a locked version.
// A record of a peer is judged by its own time alone, so that all replicas judge alike.
// Any other write has to come after the lock by the clock of this host, too. The removal of a version
// that was moved has the time of that version, so the clock alone counts. A peer that was away and has
// the lock brings the version back; the next removal then reaches it, too.
func (w *rival) checkLock(stored *format.Metadata) error {
	if stored.Lock == nil {
		return nil
	}
	m := w.metadata
	if w.kind == format.TypePut && w.isSame(stored) {
		return nil
	}
	bypass := w.kind != format.TypePut && m.Bypasses()
	if !w.moves && stored.Lock.Voids(m.Timestamp, bypass) || !w.isOfPeer && stored.Lock.Protects(w.now, bypass) {
		return ErrLocked
	}
	return nil
}

// isSame tells whether the write is of the same version as what is stored. One that was moved to another policy and
// comes back has a greater offset.
func (w *rival) isSame(stored *format.Metadata) bool {
	t, u := w.metadata.Timestamp, stored.Timestamp
	return w.metadata.VersionID == stored.VersionID && (t == u || w.isOfPeer && t.Ticks == u.Ticks)
}

// isKeptFrom tells whether a record of a peer counts more than what was written later: its
// lock forbids that write, which came to a replica that did not know the lock.
func (w *rival) isKeptFrom(later *bundle.Record) bool {
	if !w.isOfPeer || w.kind != format.TypePut || w.metadata.Lock == nil {
		return false
	}
	stored, err := later.Metadata()
	if err != nil || later.Live() && w.isSame(stored) {
		return false
	}
	return w.metadata.Lock.Voids(later.Timestamp(), !later.Live() && stored.Bypasses())
}

// outlasts is isKeptFrom for the last write of the version in a chain.
func (w *rival) outlasts(c *versions.Chain) (bool, error) {
	if !w.isOfPeer || w.metadata.Lock == nil {
		return false, nil
	}
	last, ok, err := c.LastWrite(w.metadata.VersionID)
	if err != nil || !ok {
		return false, err
	}
	record, buffer, err := w.bundle.ReadVersionHead(w.hash, last)
	defer buffer.Free()
	if errors.Is(err, ErrQuarantined) { // it is not known what it was; the lock is
		return !last.ID.IsNull(), nil
	}
	return err == nil && record.Timestamp() == last.Timestamp && w.isKeptFrom(record), err
}
