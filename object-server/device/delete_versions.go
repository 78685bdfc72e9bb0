package device

import (
	"fmt"

	"martlet/object-server/bundle"
	"martlet/object-server/bundle/buffers"
	"martlet/object-server/bundle/format"
	"martlet/object-server/bundle/versions"
)

// removalsMax is how many removals share a batch: no writer waits for a longer one.
const removalsMax = 256

// Removal is what became of one version that was to be removed.
type Removal struct {
	State State // what the version was
	Err   error // as of DeleteVersion; nil: the removal is durable
}

// DeleteVersions removes versions of one name as DeleteVersion does each, with one
// flush for removalsMax of them. Each removal is told by itself, in the order of the
// ids. A crash on the way leaves the first ones of a batch done, or none. The null
// version is not removed so: its id is ErrInvalid.
func (d *Device) DeleteVersions(at Location, ids []format.VersionID, t format.Timestamp, name string) ([]Removal, error) {
	if t.IsZero() {
		return nil, fmt.Errorf("%w: delete without a timestamp", ErrInvalid)
	}
	all := make([]Removal, len(ids))
	for i := 0; i < len(ids); i += removalsMax {
		end := min(i+removalsMax, len(ids))
		if err := d.deleteBatch(at, ids[i:end], t, name, all[i:end]); err != nil {
			for j := i; j < len(ids); j++ {
				all[j].Err = err
			}
			return all, err
		}
	}
	return all, nil
}

// deleteBatch is DeleteVersions for one batch. The error is that of all.
func (d *Device) deleteBatch(at Location, ids []format.VersionID, t format.Timestamp, name string, all []Removal) error {
	if err := d.enter(); err != nil {
		return err
	}
	defer d.leave()
	room := eraseRoom + int64(len(ids))*int64(eraseRoom/8+len(name))
	if err := d.roomToErase(room); err != nil {
		return err
	}
	defer d.room.leave(room)
	s, err := d.use(at)
	if err != nil {
		return err
	}
	defer s.done()
	d.locks.lock(at.Hash)
	defer d.locks.unlock(at.Hash)
	r := removalBatch{
		bundle: s.bundle, hash: at.Hash, now: d.now(),
		metadata: format.Metadata{Name: name, Timestamp: t, MetaTimestamp: t, TypeTimestamp: t},
	}
	defer r.free()
	if err := d.prepare(&r, ids, all); err != nil {
		return err
	}
	if len(r.drafts) == 0 {
		return nil
	}
	if err := d.appendOwing(s.bundle, r.drafts[0]); err != nil {
		return err
	}
	for _, id := range r.large {
		s.bundle.RemoveLarge(id)
	}
	d.counters.deletes.Add(uint64(len(r.drafts)))
	return nil
}

// removalBatch is a batch of removals that is being made. The object is locked.
type removalBatch struct {
	bundle   *bundle.Bundle
	hash     format.Hash
	head     *bundle.Record
	buffer   *buffers.Buffer // what head points into
	chain    *versions.Chain
	metadata format.Metadata
	now      uint64 // ticks, by the clock of this host
	drafts   []*bundle.Draft
	large    []uint64 // large files that no version names then
}

// prepare makes the records of a batch. It reads as many versions, which takes long where
// they are not remembered.
func (d *Device) prepare(r *removalBatch, ids []format.VersionID, all []Removal) error {
	if err := d.longCalls.enter(); err != nil {
		return err
	}
	defer d.longCalls.leave()
	if err := r.begin(); err != nil {
		return err
	}
	for i, id := range ids {
		all[i].State, all[i].Err = r.add(id)
	}
	return nil
}

// begin finds the versions that there are.
func (r *removalBatch) begin() (err error) {
	var damage error
	if r.head, r.buffer, damage, err = readStored(r.bundle, r.hash, r.metadata.Timestamp); err != nil {
		return err
	}
	r.chain, err = writableChain(r.bundle, r.hash, r.head, damage)
	return err
}

// add makes the record of one more removal.
func (r *removalBatch) add(id format.VersionID) (State, error) {
	if id.IsNull() {
		return State{}, fmt.Errorf("%w: removal of the null version", ErrInvalid)
	}
	m := r.metadata
	m.VersionID = id
	w := rival{bundle: r.bundle, hash: r.hash, kind: format.TypeTombstone, metadata: &m, now: r.now}
	old, err := lengthen(&w, r.head, r.chain, func(c *versions.Chain) (versions.Addition, error) {
		return c.Remove(id, m.Timestamp)
	})
	if err != nil {
		return State{}, err
	}
	draft := bundle.NewDraft(0)
	draft.Continue(old.chain)
	if err := draft.SealTombstone(r.hash, &m); err != nil {
		draft.Free()
		return State{}, err
	}
	if len(r.drafts) == 0 {
		draft.Replaces(r.head)
	} else {
		r.drafts[0].Then(r.drafts[len(r.drafts)-1], draft)
	}
	r.drafts = append(r.drafts, draft)
	draft.Precede(r.chain)
	if old.large != 0 {
		r.large = append(r.large, old.large)
	}
	return old.state, nil
}

func (r *removalBatch) free() {
	for _, draft := range r.drafts {
		draft.Free()
	}
	r.buffer.Free()
}
