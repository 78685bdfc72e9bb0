package device

import (
	"errors"
	"fmt"
	"syscall"

	"martlet/object-server/bundle"
	"martlet/object-server/bundle/buffers"
	"martlet/object-server/bundle/format"
	"martlet/object-server/bundle/versions"
)

// OpenVersion opens one version of an object as Open does. The null version has
// the zero id. *NotFoundError says whether it is a delete marker.
func (d *Device) OpenVersion(at Location, id format.VersionID) (*Object, error) {
	if err := d.enter(); err != nil {
		return nil, err
	}
	defer d.leave()
	s, err := d.existing(at)
	if err != nil {
		return nil, err
	}
	defer s.done()
	return d.load(s.bundle, at.Hash, versionOf(id))
}

// versionOf makes what open looks for a version with.
func versionOf(id format.VersionID) func(o *Object) error {
	return func(o *Object) (err error) {
		o.chained = true
		o.record, o.buffer, err = findVersion(o.bundle, o.hash, id, o.bundle.ReadVersion)
		return err
	}
}

// HeadVersion is Head for one version.
func (d *Device) HeadVersion(at Location, id format.VersionID) (*format.Metadata, error) {
	return d.head(at, func(b *bundle.Bundle) (*bundle.Record, *buffers.Buffer, error) {
		return findVersion(b, at.Hash, id, b.ReadVersionHead)
	})
}

// readName and readVersion are methods of a bundle that read the newest record
// of a name, or that of a version.
type (
	readName    func(format.Hash) (*bundle.Record, *buffers.Buffer, error)
	readVersion func(format.Hash, format.Reference) (*bundle.Record, *buffers.Buffer, error)
)

// newest reads the version of a name that counts when none is named: the head
// of its records, or what that refers to.
func newest(b *bundle.Bundle, hash format.Hash, readHead readName, read readVersion) (*bundle.Record, *buffers.Buffer, error) {
	for last := uint64(0); ; {
		record, buffer, err := readHead(hash)
		if err != nil || record == nil || !record.Versioned() {
			return record, buffer, err
		}
		newest, ok := record.Newest()
		isDoubtful := b.Doubts(record, newest)
		if ok && newest.LSN == record.LSN() {
			return record, buffer, nil
		}
		if !ok {
			defer buffer.Free()
			chain, err := b.Chain(hash, record, nil)
			if err != nil {
				return nil, nil, err
			}
			if isDoubtful {
				return nil, nil, doubted(chain.Latest())
			}
			// The removal of a version with an id says nothing about others, which this replica may have missed.
			null, _ := chain.Null()
			return nil, nil, &NotFoundError{Tombstone: null}
		}
		buffer.Free()
		found, buffer, err := read(hash, newest)
		if !removedMeanwhile(found, err) || record.LSN() == last {
			if isDoubtful && err == nil {
				found.MarkDoubtful()
			}
			return found, buffer, err
		}
		buffer.Free()
		last = record.LSN()
	}
}

// findVersion reads one version of a name.
func findVersion(b *bundle.Bundle, hash format.Hash, id format.VersionID, read readVersion) (*bundle.Record, *buffers.Buffer, error) {
	for last := uint64(0); ; {
		head, buffer, damage := b.ReadHead(hash)
		if damage != nil && !errors.Is(damage, ErrQuarantined) {
			return nil, nil, damage
		}
		chain, err := b.Chain(hash, head, damage)
		buffer.Free()
		if err != nil {
			return nil, nil, err
		}
		v, err := chain.Find(id)
		if errors.Is(err, versions.ErrNoVersion) {
			removed := v.Timestamp
			if id.IsNull() {
				removed, _ = chain.Null()
			}
			if chain.Doubts(v) {
				return nil, nil, doubted(removed)
			}
			return nil, nil, &NotFoundError{Tombstone: removed}
		}
		if err != nil {
			return nil, nil, err
		}
		found, buffer, err := read(hash, v)
		if !removedMeanwhile(found, err) || head.LSN() == last {
			if err == nil && chain.Doubts(v) {
				found.MarkDoubtful()
			}
			return found, buffer, err
		}
		buffer.Free()
		last = head.LSN()
	}
}

// removedMeanwhile tells whether a version that a name was found to have may
// have been removed, and its space reclaimed, before it was read.
func removedMeanwhile(found *bundle.Record, err error) bool {
	return errors.Is(err, ErrQuarantined) || err == nil && found.Type() == format.TypeVersionDirectory
}

// VersionPage is a part of the versions of a name.
type VersionPage struct {
	Versions   []versions.Listed // newest first, delete markers included
	Count      int               // of all versions of the name
	Incomplete bool              // damage hides some
}

// ListVersions lists at most limit versions of a name behind a marker, newest
// first. A name that never had a version is *NotFoundError. Where damage hides
// the rest the page is Incomplete and holds what comes before it.
func (d *Device) ListVersions(at Location, after versions.Marker, limit int) (VersionPage, error) {
	if err := d.enter(); err != nil {
		return VersionPage{}, err
	}
	defer d.leave()
	s, err := d.existing(at)
	if err != nil {
		return VersionPage{}, err
	}
	defer s.done()
	if err := d.longCalls.enter(); err != nil {
		return VersionPage{}, err
	}
	defer d.longCalls.leave()
	b := s.bundle
	head, buffer, damage := b.ReadHead(at.Hash)
	defer buffer.Free()
	if damage != nil && !errors.Is(damage, ErrQuarantined) {
		return VersionPage{}, damage
	}
	if head == nil && damage == nil {
		return VersionPage{}, &NotFoundError{}
	}
	chain, err := b.Chain(at.Hash, head, damage)
	if err != nil {
		return VersionPage{}, err
	}
	page := VersionPage{Count: chain.Len(), Incomplete: chain.Incomplete()}
	page.Versions, err = chain.Page(after, limit)
	if errors.Is(err, ErrQuarantined) {
		page.Incomplete, err = true, nil
	}
	return page, err
}

// DeleteMarker writes a version without data that hides older ones. Errors as of
// Upload.Commit.
func (d *Device) DeleteMarker(at Location, t format.Timestamp, id format.VersionID, name string) error {
	_, err := d.erase(at, erasure{kind: format.TypeDeleteMarker, time: t, id: id, name: name})
	return err
}

// DeleteVersion removes one version, and returns what it was. A version that
// is not there, or not yet, is removed all the same: should it arrive later it
// is refused, unless it is newer than t, or locked. Errors as of Upload.Commit; ErrLocked.
func (d *Device) DeleteVersion(at Location, id format.VersionID, t format.Timestamp, name string) (State, error) {
	return d.erase(at, erasure{kind: format.TypeTombstone, time: t, id: id, name: name})
}

// Posted are the times of the parts of a version that a POST replaces.
type Posted struct{ Metadata, Type format.Timestamp }

// isBefore tells whether a version has got a later POST; false of nil.
func (p *Posted) isBefore(m *format.Metadata) bool {
	return p != nil && m != nil && (p.Metadata.Compare(m.MetaTimestamp) < 0 || p.Type.Compare(m.TypeTimestamp) < 0)
}

// RemoveMoved is DeleteVersion of a version that was moved to another policy. What that one has of it is posted, if it is not
// nil: ErrPosted if the version has got a later POST here.
func (d *Device) RemoveMoved(at Location, id format.VersionID, t format.Timestamp, name string, posted *Posted) (State, error) {
	return d.erase(at, erasure{kind: format.TypeTombstone, time: t, id: id, name: name, moves: true, posted: posted})
}

// BypassVersion is DeleteVersion in spite of a lock of governance.
func (d *Device) BypassVersion(at Location, id format.VersionID, t format.Timestamp, name string) (State, error) {
	return d.erase(at, erasure{kind: format.TypeTombstone, time: t, id: id, name: name, bypasses: true})
}

// succession is how a change continues the chain of a name.
type succession func(c *versions.Chain) (versions.Addition, error)

// succeed tells how a change continues the versions of a name whose head is the
// record, and what it replaces. The object's lock is held.
func succeed(w *rival, head *bundle.Record, damage error, change succession) (replaced, error) {
	chain, err := writableChain(w.bundle, w.hash, head, damage)
	if err != nil {
		return replaced{record: head}, err
	}
	return lengthen(w, head, chain, change)
}

// lengthen is succeed with the chain at hand.
func lengthen(w *rival, head *bundle.Record, chain *versions.Chain, change succession) (replaced, error) {
	b, hash := w.bundle, w.hash
	old := replaced{record: head}
	a, err := change(chain)
	if err != nil {
		return old, err
	}
	old.chain = &a
	if head != nil && !head.Versioned() && !head.Live() {
		old.state.Tombstone = head.Timestamp()
	}
	v := a.Replaced()
	if v.LSN == 0 {
		return old, nil
	}
	record, buffer, err := b.ReadVersionHead(hash, v)
	defer func() { buffer.Free() }()
	if err == nil && record.Type() == format.TypeSpill {
		buffer.Free()
		record, buffer, err = b.ReadVersion(hash, v)
	}
	if err != nil {
		if errors.Is(err, ErrQuarantined) { // its large file stays until nothing is damaged
			return old, nil
		}
		return old, err
	}
	a.Frees(&record.Record)
	if !record.Live() {
		old.state.Marker = isMarker(record)
		return old, nil
	}
	m, err := metadata(b, record)
	if err != nil {
		return old, nil
	}
	if err := w.checkLock(m); err != nil {
		return old, err
	}
	m.Versioned = true // by this write at the latest
	old.state = State{Existed: true, Metadata: m}
	if !chain.Doubts(v) { // else its large file stays until nothing is lost
		old.large = record.LargeID
	}
	return old, nil
}

// writableChain is the chain that a write continues. After a read error there is
// none, and ErrUnknown: the next read may succeed, and to go on without the versions
// that there are would lose them.
func writableChain(b *bundle.Bundle, hash format.Hash, head *bundle.Record, damage error) (*versions.Chain, error) {
	if errors.Is(damage, syscall.EIO) && (head == nil || head.LSN() == 0) {
		return nil, fmt.Errorf("%w: %v", ErrUnknown, damage)
	}
	return b.Chain(hash, head, damage)
}

// PostVersion is Post for one version.
func (d *Device) PostVersion(at Location, id format.VersionID, edit func(m *format.Metadata) error) error {
	return d.post(at, versionOf(id), edit)
}

// continueChain prepares a draft that rewrites the object, of a name with
// versions.
func (o *Object) continueChain(draft *bundle.Draft) error {
	head, buffer, damage := o.bundle.ReadHead(o.hash)
	defer buffer.Free()
	if damage != nil && !errors.Is(damage, ErrQuarantined) {
		return damage
	}
	chain, err := writableChain(o.bundle, o.hash, head, damage)
	if err != nil {
		return err
	}
	a, err := chain.Rewrite(o.record.Reference())
	if err != nil {
		return fmt.Errorf("device: %w", err)
	}
	a.Frees(&o.record.Record)
	draft.Continue(&a)
	draft.Replaces(head)
	return nil
}
