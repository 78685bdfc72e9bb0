package device

import (
	"errors"
	"fmt"

	"martlet/object-server/bundle"
	"martlet/object-server/bundle/format"
	"martlet/object-server/bundle/versions"
	"martlet/object-server/failpoint"
)

// uploadRoom is what an upload of unknown length starts with, in bytes.
const uploadRoom = 16 << 10

// Upload is one PUT on its way. Nothing of it is visible before Commit, and
// nothing is left after Abort. Not safe for concurrent use.
type Upload struct {
	device *Device
	at     Location
	draft  *bundle.Draft // nil once the upload has ended or spilled
	large  *largeWriter  // nil until the data outgrow the draft
	table  []byte        // checksums that a copy takes from its source; nil if they are made
	size   int64
	held   int64 // let in by the room of the device
	ended  bool
	ofPeer bool  // it is a record of another replica
	failed error // of an earlier Write
}

// NewUpload begins a PUT of sizeHint bytes, -1 if unknown; the hint is no limit.
// The caller must end it with Commit or Abort. ErrNoSpace if the reserve is
// reached.
func (d *Device) NewUpload(at Location, sizeHint int64) (*Upload, error) {
	if err := d.enter(); err != nil {
		return nil, err
	}
	defer d.leave()
	if err := d.committer.check(); err != nil { // before the client sends anything
		return nil, err
	}
	u := &Upload{device: d, at: at}
	if err := u.hold(max(sizeHint, 0) + uploadRoom); err != nil {
		return nil, err
	}
	if sizeHint > d.options.SpillBytes {
		var err error
		if u.large, err = d.newLargeWriter(at, sizeHint); err != nil {
			u.end()
			return nil, err
		}
		u.letGo(sizeHint) // reserved in the file
		return u, nil
	}
	if sizeHint < 0 {
		sizeHint = min(uploadRoom, d.options.SpillBytes)
	}
	u.draft = bundle.NewDraft(int(sizeHint))
	return u, nil
}

// hold keeps more room until letGo.
func (u *Upload) hold(bytes int64) error {
	if err := u.device.room.enter(bytes); err != nil {
		return err
	}
	u.held += bytes
	return nil
}

func (u *Upload) letGo(bytes int64) {
	u.device.room.leave(bytes)
	u.held -= bytes
}

// Write takes the next bytes of the object. After an error only Abort is of use.
func (u *Upload) Write(p []byte) (int, error) {
	if u.ended || u.failed != nil {
		return 0, fmt.Errorf("%w: write to an upload that has ended", ErrInvalid)
	}
	if u.large == nil && u.size+int64(len(p)) <= u.device.options.SpillBytes {
		if more := u.size + int64(len(p)) + uploadRoom - u.held; more > 0 { // the sender did not say
			if u.failed = u.hold(more); u.failed != nil {
				return 0, u.failed
			}
		}
		u.draft.Write(p)
		u.size += int64(len(p))
		return len(p), nil
	}
	if u.failed = u.spill(p); u.failed != nil {
		return 0, u.failed
	}
	u.size += int64(len(p))
	return len(p), nil
}

// spill writes to a large file, moving there what has been collected so far.
func (u *Upload) spill(p []byte) (err error) {
	if u.large == nil {
		if u.large, err = u.device.newLargeWriter(u.at, -1); err != nil {
			return err
		}
		if err = u.large.Write(u.draft.Data()); err != nil {
			return err
		}
		u.draft.Free()
		u.draft = nil
		u.letGo(u.held - uploadRoom) // the large file takes what it needs
	}
	return u.large.Write(p)
}

// Commit stores the object under m, and leaves in m what was stored. On return it is durable and visible, and
// prev is what it replaced; on an error nothing of it is visible, but after a
// failed flush a restart may find it. m.Size must be the number of bytes
// written. MetaTimestamp and TypeTimestamp default to Timestamp. A POST newer
// than the data outlives them: its metadata go with the new data.
//
// A VersionID that is not zero adds a version, and gives the name versions if it
// had none; such an id belongs to one Timestamp. Without one the null version is
// written, which is all that a name without versions has.
//
// Errors: *OlderError unless m.Timestamp is newer than what is stored,
// ErrNoSpace, ErrTooLarge, ErrOut, ErrClosed.
func (u *Upload) Commit(m *format.Metadata) (prev State, err error) {
	if u.ended || u.failed != nil || m.Size != u.size || m.Timestamp.IsZero() {
		return State{}, fmt.Errorf("%w: commit of %d bytes, %d written", ErrInvalid, m.Size, u.size)
	}
	defer u.end()
	completeTimes(m)
	return u.device.keepingNull(u.at, func(kept format.Timestamp) (State, error) { return u.commit(m, kept) })
}

// commit is Commit once the null version of the time kept has been kept.
func (u *Upload) commit(m *format.Metadata, kept format.Timestamp) (State, error) {
	d := u.device
	if err := d.enter(); err != nil {
		return State{}, err
	}
	defer d.leave()
	if u.large != nil {
		if err := u.large.finish(); err != nil {
			return State{}, err
		}
	}
	s, err := d.use(u.at)
	if err != nil {
		return State{}, err
	}
	defer s.done()
	d.locks.lock(u.at.Hash)
	defer d.locks.unlock(u.at.Hash)
	w := rival{bundle: s.bundle, hash: u.at.Hash, kind: format.TypePut, metadata: m}
	if w.isOfPeer = u.ofPeer; !w.isOfPeer {
		w.now = d.now()
	}
	old, err := d.previous(&w, !m.VersionID.IsNull(), func(c *versions.Chain) (versions.Addition, error) {
		if m.VersionID.IsNull() {
			if err := d.checkNull(c, m.Timestamp, kept); err != nil {
				return versions.Addition{}, err
			}
		}
		return w.add(c)
	})
	if err != nil {
		return State{}, err
	}
	if !w.revives {
		outlive(m, old.state.Metadata)
	}
	if u.large != nil {
		err = u.commitLarge(s.bundle, m, &old)
	} else if err = u.sealPut(m, &old); err == nil {
		err = d.appendOwing(s.bundle, u.draft)
	}
	if err != nil {
		return State{}, err
	}
	if old.large != 0 {
		s.bundle.RemoveLarge(old.large)
	}
	d.counters.puts.Add(1)
	d.counters.bytesReceived.Add(uint64(m.Size))
	return old.state, nil
}

// sealPut completes the record of an object that lies in the log.
func (u *Upload) sealPut(m *format.Metadata, old *replaced) error {
	u.draft.Continue(old.chain)
	u.draft.Replaces(old.record)
	return u.draft.SealPut(u.at.Hash, m, u.table)
}

// commitLarge names the large file and appends the record that makes it visible.
func (u *Upload) commitLarge(b *bundle.Bundle, m *format.Metadata, old *replaced) error {
	if err := u.large.link(b, m); err != nil {
		return err
	}
	failpoint.Hit(failpoint.LargeLinked)
	id, table := u.large.id, u.large.table
	if u.table != nil {
		table = u.table
	}
	u.draft = bundle.NewDraft(len(table))
	u.draft.Continue(old.chain)
	u.draft.Replaces(old.record)
	if err := u.draft.SealSpill(u.at.Hash, m, id, table); err != nil {
		b.RemoveLarge(id)
		return err
	}
	err := u.device.appendOwing(b, u.draft)
	switch {
	case errors.Is(err, bundle.ErrNotWritten): // or a full disk would fill with files of no use
		b.RemoveLarge(id)
	case errors.Is(err, ErrStuck): // nothing was tried; where the disk does not take this either, it stays
		_ = u.device.call(func() error {
			b.RemoveLarge(id)
			return nil
		})
	}
	// After any other error the record may be on the disk all the same, so the
	// large file stays: the next opening of the bundle knows whether it is needed.
	return err
}

// Abort gives the upload up. It may be called at any time, and more than once.
func (u *Upload) Abort() { u.end() }

func (u *Upload) end() {
	if u.ended {
		return
	}
	u.ended = true
	u.letGo(u.held)
	if u.draft != nil {
		u.draft.Free()
		u.draft = nil
	}
	if u.large != nil {
		u.large.close()
	}
}

// previous is previous as a call to the disk.
func (d *Device) previous(w *rival, needsChain bool, change succession) (replaced, error) {
	if err := d.calls.enter(); err != nil {
		return replaced{}, err
	}
	defer d.calls.leave()
	return previous(w, needsChain, change)
}

// previous tells what a write is about to replace, or refuses it with *OlderError,
// or with ErrUnknown where that cannot be told. The object's lock is held. Names
// unknown to the index cost no read. Where the name has versions, or needs them for
// this write, change says how it continues them.
func previous(w *rival, needsChain bool, change succession) (replaced, error) {
	b, t := w.bundle, w.metadata.Timestamp
	record, buffer, damage, err := readStored(b, w.hash, t)
	defer buffer.Free()
	if errors.Is(err, ErrUnknown) && w.isOfPeer && b.WasLostOf(w.hash) { // what is stored is given up for what peers have
		err = nil
	}
	old := replaced{record: record}
	if err != nil {
		return old, err
	}
	if needsChain || record != nil && record.Versioned() {
		return succeed(w, record, damage, change)
	}
	if record == nil || record.LSN() == 0 { // nothing, or nothing that can be told
		return old, nil
	}
	if c := t.Compare(record.Timestamp()); c < 0 || c == 0 && !w.winsTie(record, damage) && !w.mends(record) {
		if w.revives = damage == nil && w.isKeptFrom(record); !w.revives {
			return old, &OlderError{Existing: record.Timestamp()}
		}
	}
	if !record.Live() {
		old.state.Tombstone = record.Timestamp()
		return old, nil
	}
	if damage != nil {
		return old, nil
	}
	m, err := metadata(b, record)
	if err != nil {
		return old, nil
	}
	if err := w.checkLock(m); err != nil {
		return old, err
	}
	old.state = State{Existed: true, Metadata: m}
	if record.Type() == format.TypeSpill && !record.Doubtful() {
		old.large, err = largeOf(b, w.hash)
	}
	return old, err
}

// replaced is what a write replaces.
type replaced struct {
	record *bundle.Record // nil if nothing; of its parts only the header is valid
	state  State
	large  uint64             // large file; 0 if none
	chain  *versions.Addition // how the write continues the versions of the name; nil without versions
}

// largeOf reads which large file holds an object; 0 if that cannot be told.
func largeOf(b *bundle.Bundle, hash format.Hash) (uint64, error) {
	record, buffer, err := b.Read(hash)
	defer buffer.Free()
	if errors.Is(err, ErrQuarantined) {
		return 0, nil // opening the bundle will sweep it, once nothing is damaged
	}
	if err != nil {
		return 0, err
	}
	return record.LargeID, nil
}

// completeTimes fills in the times that the metadata of a PUT leave out.
func completeTimes(m *format.Metadata) {
	if m.MetaTimestamp.IsZero() {
		m.MetaTimestamp = m.Timestamp
	}
	if m.TypeTimestamp.IsZero() {
		m.TypeTimestamp = m.Timestamp
	}
}

// outlive carries the metadata of a POST over to data that are older than it.
func outlive(m *format.Metadata, old *format.Metadata) {
	if old == nil {
		return
	}
	isMeta, isType := old.CompareMeta(m) > 0, old.CompareType(m) > 0
	if isMeta {
		m.MetaTimestamp, m.User, m.DeleteAt = old.MetaTimestamp, old.User, old.DeleteAt
	}
	if isType {
		m.TypeTimestamp, m.ContentType = old.TypeTimestamp, old.ContentType
	}
	isAgain := m.Timestamp.Ticks == old.Timestamp.Ticks && m.ETag == old.ETag && m.Size == old.Size // see RawRecord.Offset
	if m.VersionID == old.VersionID && (isAgain || m.CompareData(old) == 0) {
		m.Lock = format.MergeLocks(m.Lock, old.Lock)
	}
}
