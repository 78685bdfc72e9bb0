package device

import (
	"errors"
	"fmt"
	"io/fs"
	"time"

	"martlet/object-server/bundle"
	"martlet/object-server/bundle/format"
	"martlet/object-server/bundle/versions"
)

// eraseWait is how long a DELETE waits for room.
const eraseWait = 5 * time.Second

// Delete writes a tombstone, also where nothing was, and returns what it
// replaced. On return it is durable. Errors as of Upload.Commit.
func (d *Device) Delete(at Location, t format.Timestamp, name string) (State, error) {
	return d.erase(at, erasure{kind: format.TypeTombstone, time: t, name: name})
}

// erasure is a write without data.
type erasure struct {
	kind format.Type // TOMBSTONE or DELETE MARKER
	time format.Timestamp
	id   format.VersionID
	name string

	hides    bool             // of a name with versions, all are hidden and none is removed
	renames  bool             // it removes a null version that has been kept, no other
	bypasses bool             // the governance of a lock does not count
	marks    bool             // clients see the null delete marker
	moves    bool             // the version is in another policy now
	posted   *Posted          // a version with later ones stays; nil: whatever they are
	kept     format.Timestamp // of the null version that has been kept
	current  format.Reference // what was current; of a hiding erasure
}

// succeed continues a chain of versions with the erasure.
func (e *erasure) succeed(d *Device, w *rival, c *versions.Chain) (versions.Addition, error) {
	if e.hides {
		if err := d.checkNull(c, e.time, e.kept); err != nil {
			return versions.Addition{}, err
		}
		return e.hide(w, c)
	}
	if null, lives := c.Null(); e.renames && lives && null != e.kept && null.Compare(e.time) <= 0 {
		return versions.Addition{}, &nullIsOldError{null}
	}
	if e.kind == format.TypeTombstone {
		return c.Remove(e.id, e.time)
	}
	return w.add(c)
}

// roomToErase lets a DELETE in, which waits for compaction where the room is used
// up and there is garbage.
func (d *Device) roomToErase(bytes int64) error {
	deadline := time.Now().Add(eraseWait)
	for {
		err := d.room.erase(bytes)
		if err == nil || !errors.Is(err, ErrNoSpace) || !d.compactor.relieve(deadline) {
			return err
		}
	}
}

func (d *Device) erase(at Location, e erasure) (State, error) {
	if e.time.IsZero() {
		return State{}, fmt.Errorf("%w: delete without a timestamp", ErrInvalid)
	}
	if err := d.enter(); err != nil {
		return State{}, err
	}
	defer d.leave()
	if err := d.roomToErase(eraseRoom); err != nil {
		return State{}, err
	}
	defer d.room.leave(eraseRoom)
	s, err := d.use(at)
	if err != nil {
		return State{}, err
	}
	defer s.done()
	b := s.bundle
	d.locks.lock(at.Hash)
	defer d.locks.unlock(at.Hash)
	needsChain := e.kind == format.TypeDeleteMarker || !e.id.IsNull() || e.renames
	m := format.Metadata{Name: e.name, Timestamp: e.time, MetaTimestamp: e.time, TypeTimestamp: e.time, VersionID: e.id}
	if e.bypasses {
		m.Lock = &format.Lock{Bypass: true}
	}
	if e.marks {
		m.MarkNull()
	}
	if e.moves {
		m.MarkMoved()
	}
	w := rival{bundle: b, hash: at.Hash, kind: e.kind, metadata: &m, now: d.now(), moves: e.moves}
	old, err := d.previous(&w, needsChain, func(c *versions.Chain) (versions.Addition, error) { return e.succeed(d, &w, c) })
	if err == nil && e.posted.isBefore(old.state.Metadata) {
		err = ErrPosted
	}
	if err != nil {
		return State{}, err
	}
	if e.hides && old.chain != nil {
		wasMarker := old.state.Marker
		old.state = currentState(b, at.Hash, e.current)
		old.state.Marker = wasMarker
	}
	draft := bundle.NewDraft(0)
	defer draft.Free()
	seal := draft.SealTombstone
	if e.kind == format.TypeDeleteMarker {
		seal = draft.SealDeleteMarker
	}
	draft.Continue(old.chain)
	if err := seal(at.Hash, &m); err != nil {
		return State{}, err
	}
	draft.Replaces(old.record)
	if err := d.appendOwing(b, draft); err != nil {
		return State{}, err
	}
	if old.large != 0 {
		b.RemoveLarge(old.large)
	}
	d.counters.deletes.Add(1)
	return old.state, nil
}

// Post replaces the metadata of an object by what edit makes of them, while no
// other write of the object can come between. An error of edit leaves
// everything as it was and is returned. edit must not change Name, Size,
// Timestamp and VersionID; it decides by MetaTimestamp whether the POST is too old. Errors as
// of Open and Upload.Commit.
func (d *Device) Post(at Location, edit func(m *format.Metadata) error) error {
	return d.post(at, (*Object).newest, edit)
}

func (d *Device) post(at Location, find func(o *Object) error, edit func(m *format.Metadata) error) error {
	if err := d.enter(); err != nil {
		return err
	}
	defer d.leave()
	s, err := d.existing(at)
	if err != nil {
		return err
	}
	defer s.done()
	b := s.bundle
	d.locks.lock(at.Hash)
	defer d.locks.unlock(at.Hash)
	o := &Object{device: d, bundle: b, hash: at.Hash}
	defer o.Close()
	if err := d.call(func() error { return o.load(find) }); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			err = o.damaged(err)
		}
		return err
	}
	if o.metadata.Doubtful { // written anew it would pass for the newest
		return doubted(o.metadata.Timestamp)
	}
	before := *o.metadata
	if err := edit(o.metadata); err != nil {
		return err
	}
	if m := o.metadata; m.Name != before.Name || m.Size != before.Size || m.Timestamp != before.Timestamp || m.VersionID != before.VersionID {
		return fmt.Errorf("%w: a POST changes name, size or timestamp", ErrInvalid)
	}
	if err := o.rewrite(); err != nil {
		return err
	}
	d.counters.posts.Add(1)
	return nil
}

// rewrite appends the record anew with the object's present metadata. The data
// keep the checksums they were first written with.
func (o *Object) rewrite() (err error) {
	held := int64(len(o.record.Data)+len(o.record.Table)) + uploadRoom // all of it is written
	if err := o.device.room.enter(held); err != nil {
		return err
	}
	defer o.device.room.leave(held)
	draft, err := o.redraft()
	if err != nil {
		return err
	}
	defer draft.Free()
	if err := o.device.appendOwing(o.bundle, draft); err != nil {
		return err
	}
	o.copyMetadata()
	return nil
}

// redraft makes the record anew with the object's present metadata, sealed.
func (o *Object) redraft() (*bundle.Draft, error) {
	draft := bundle.NewDraft(len(o.record.Data) + len(o.record.Table))
	if err := o.fill(draft); err != nil {
		draft.Free()
		return nil, err
	}
	return draft, nil
}

// fill completes a draft of the object.
func (o *Object) fill(draft *bundle.Draft) error {
	draft.Replaces(o.record)
	if o.chained {
		if err := o.device.call(func() error { return o.continueChain(draft) }); err != nil {
			return err
		}
	}
	if o.large != nil {
		return draft.SealSpill(o.hash, o.metadata, o.record.LargeID, o.record.Table)
	}
	if err := o.check(0, o.record.Data); err != nil {
		return err
	}
	draft.Write(o.record.Data)
	return draft.SealPut(o.hash, o.metadata, o.record.Table)
}

// copyMetadata makes the copy in a large file that of the record: it is for tools, the
// record is the truth.
func (o *Object) copyMetadata() {
	if o.large != nil {
		_ = bundle.WriteCopy(o.large, o.metadata)
	}
}
