package device

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"martlet/object-server/bundle"
	"martlet/object-server/bundle/format"
	"martlet/object-server/bundle/versions"
)

// Imported is what became of a record.
type Imported struct {
	Stored bool  // it, or what it adds to the stored one, was written
	Err    error // why it cannot be stored; nil also where what is stored counts more
}

// Import stores records of a peer as far as they count, and returns what became of
// each. What wins is the same in whatever order they come; see
// doc/formats/bundle.md, "Which record counts". Bytes and checksums stay as they are,
// but where the metadata of one and the data of another make a new record. Records
// of different names share a flush. What is stored is durable on return. Records may
// be of any partition of the device. Import may change what their bytes say of the log.
//
// A damaged record is replaced by a good one of the same write, and its damage ends.
func (r Replica) Import(records []RawRecord) ([]Imported, error) {
	done := make([]Imported, len(records))
	came := make([]incoming, len(records))
	all := make([]*incoming, 0, len(records))
	for i := range records {
		x := &came[i]
		x.raw, x.result = &records[i], &done[i]
		if x.result.Err = x.check(r); x.result.Err == nil {
			all = append(all, x)
		}
	}
	for len(all) > 0 {
		round, rest := distinct(all)
		if err := r.device.importRound(round); err != nil {
			return done, err
		}
		all = rest
		for i := len(round) - 1; i >= 0; i-- {
			x := round[i]
			if r.device.isToBeRepeated(x) {
				all = append([]*incoming{x}, all...)
			}
		}
	}
	return done, nil
}

// isToBeRepeated does what a record was refused for, and tells whether it is to be
// imported again then.
func (d *Device) isToBeRepeated(x *incoming) bool {
	if x.result.Err == nil {
		return false
	}
	var old *nullIsOldError
	var hides *hidesOlderError
	switch err := x.result.Err; {
	case errors.As(err, &old):
		if _, err = d.keepNull(x.at); errors.Is(err, ErrLocked) { // what is stored counts more
			x.result.Err = nil
			return false
		}
		x.kept, x.result.Err = old.timestamp, err
	case errors.As(err, &hides):
		x.hidden, x.result.Err = hides.timestamp, d.hideOlder(x.at, hides.timestamp, x.metadata.Name)
	default:
		return false
	}
	return x.result.Err == nil
}

// distinct takes the first record of each name.
func distinct(all []*incoming) (round, rest []*incoming) {
	seen := make(map[format.Hash]bool, len(all))
	round = make([]*incoming, 0, len(all))
	for _, x := range all {
		if seen[x.at.Hash] {
			rest = append(rest, x)
		} else {
			seen[x.at.Hash] = true
			round = append(round, x)
		}
	}
	return round, rest
}

// incoming is a record that is being imported.
type incoming struct {
	at       Location
	raw      *RawRecord
	record   format.Record
	metadata *format.Metadata
	kept     format.Timestamp // of the null version that has been kept
	hidden   format.Timestamp // of the DELETE whose older versions have been hidden
	isLater  bool             // it gets a later time than it has in the record
	result   *Imported

	bundle *bundle.Bundle
	draft  *bundle.Draft // nil: there is nothing to write
	write  write         // of the draft
	gone   uint64        // large file that is replaced; 0 if none
	posted *Object       // that gets the metadata of the record; nil if none does
}

// check parses a record, and checks every byte of it.
func (x *incoming) check(r Replica) error {
	record := &x.record
	err := record.Parse(x.raw.Bytes)
	if err == nil {
		err = record.CheckData()
	}
	if err == nil {
		x.metadata, err = record.Metadata()
	}
	if err != nil {
		return fmt.Errorf("%w: record of a peer: %w", ErrInvalid, err)
	}
	h, m := &record.Head, x.metadata
	m.VersionID = h.VersionID
	switch isSpill := h.Type == format.TypeSpill; {
	case !h.Type.Named() || h.Type == format.TypeVersionDirectory,
		isSpill != (x.raw.Large != nil),
		h.Signature != h.SignatureOf(record.EncodedMetadata),
		m.Timestamp != h.Timestamp || h.Timestamp.IsZero(),
		max(m.MetaTimestamp.Ticks, m.TypeTimestamp.Ticks) > format.TicksMax,
		!m.Lock.IsInBounds(), (m.Lock != nil) != (h.Flags&format.FlagLock != 0),
		record.Live() && m.Size != record.Size():
		return fmt.Errorf("%w: record of a peer: type %d of %d bytes", ErrInvalid, h.Type, len(x.raw.Bytes))
	}
	x.at = Location{r.policy, r.partition, h.Hash}
	if x.isLater = h.Type.IsVersion() && x.raw.Offset > m.Timestamp.Offset; x.isLater {
		delay(m, x.raw.Offset)
	}
	return nil
}

// delay gives metadata the offset of a later time. What a POST gave them keeps its own.
func delay(m *format.Metadata, offset uint64) {
	was := m.Timestamp
	m.Timestamp.Offset = offset
	for _, t := range []*format.Timestamp{&m.MetaTimestamp, &m.TypeTimestamp} {
		if *t == was {
			*t = m.Timestamp
		}
	}
}

// importRound imports records of different names.
func (d *Device) importRound(round []*incoming) error {
	if err := d.importLarge(round); err != nil {
		return err
	}
	if err := d.enter(); err != nil {
		return err
	}
	defer d.leave()
	leave, err := d.roomToImport(round)
	if err != nil {
		return err
	}
	defer leave()
	held, err := d.useAll(round)
	defer func() {
		for _, s := range held {
			s.done()
		}
	}()
	if err != nil {
		return err
	}
	slices.SortFunc(round, func(x, y *incoming) int { return bytes.Compare(x.at.Hash[:], y.at.Hash[:]) })
	locked := 0
	defer func() {
		for _, x := range round[:locked] {
			x.free()
			d.locks.unlock(x.at.Hash)
		}
	}()
	for _, x := range round {
		d.locks.lock(x.at.Hash)
		locked++
		if x.result.Err == nil && !x.result.Stored {
			x.result.Err = d.prepareImport(x)
		}
	}
	return d.commitImport(round)
}

// roomToImport lets a round in. One that deletes and stores nothing is let in as a
// DELETE is: it gives back room. leave must follow.
func (d *Device) roomToImport(round []*incoming) (leave func(), err error) {
	var size int64
	stores := false
	for _, x := range round {
		size += int64(len(x.raw.Bytes)) + uploadRoom
		stores = stores || x.record.Live()
	}
	admit := d.roomToErase
	if stores {
		admit = d.room.enter
	}
	if err := admit(size); err != nil {
		return nil, err
	}
	return func() { d.room.leave(size) }, nil
}

// useAll opens the bundles of the records, and keeps each from being split once.
func (d *Device) useAll(round []*incoming) (map[bundle.ID]*partition, error) {
	held := make(map[bundle.ID]*partition)
	for _, x := range round {
		if s := held[d.bundleOf(x.at)]; s != nil {
			x.bundle = s.bundle
			continue
		}
		s, err := d.use(x.at)
		if err != nil {
			return held, err
		}
		x.bundle = s.bundle
		if held[s.bundle.ID()] != nil {
			s.done()
			continue
		}
		held[s.bundle.ID()] = s
	}
	return held, nil
}

// prepareImport makes the draft of what is to be written of a record, if anything is.
// The name is locked.
func (d *Device) prepareImport(x *incoming) error {
	m := x.metadata
	w := rival{bundle: x.bundle, hash: x.at.Hash, kind: x.record.Type(), metadata: m, isOfPeer: true}
	w.isLost = func(lsn uint64) bool { return d.damages.isLost(x.bundle.ID(), lsn) }
	if w.kind == format.TypeSpill {
		w.kind = format.TypePut
	}
	needsChain := w.kind == format.TypeDeleteMarker || !m.VersionID.IsNull()
	old, err := d.previous(&w, needsChain, func(c *versions.Chain) (versions.Addition, error) {
		hides := d.isPlainDelete(&x.record, m)
		if m.VersionID.IsNull() && (hides || w.kind != format.TypeTombstone) {
			if err := d.checkNull(c, m.Timestamp, x.kept); err != nil {
				return versions.Addition{}, err
			}
		}
		if w.kind != format.TypeTombstone {
			return w.add(c)
		}
		a, err := c.Remove(m.VersionID, m.Timestamp)
		if err == nil && hides && x.hidden != m.Timestamp {
			err = &hidesOlderError{m.Timestamp}
		}
		return a, err
	})
	if err == nil && w.kind != format.TypeTombstone && !m.VersionID.IsNull() && x.hidden != old.state.Tombstone {
		err = d.checkDeleted(x, old.state.Tombstone)
	}
	var older *OlderError
	switch {
	case errors.As(err, &older) && w.kind == format.TypePut:
		return d.preparePost(x)
	case errors.As(err, &older), errors.Is(err, ErrLocked): // what is stored counts more
		return nil
	case err != nil:
		return err
	case x.record.Type() == format.TypeSpill:
		return nil // it came to count meanwhile; the next export has it
	}
	merged := *m
	if w.kind == format.TypePut && !w.revives {
		outlive(&merged, old.state.Metadata)
	}
	x.gone = old.large
	return x.seal(&old, &merged)
}

// seal makes the draft with the metadata, which may be those of the record.
func (x *incoming) seal(old *replaced, m *format.Metadata) error {
	isSame := (old.state.Metadata == nil || sameAttributes(x.metadata, m)) && !x.isLater
	if isSame && old.chain == nil && len(x.record.Block) == 0 {
		x.draft = bundle.ImportedDraft(&x.record, x.raw.Bytes)
		x.draft.Replaces(old.record)
		return nil
	}
	x.draft = bundle.NewDraft(len(x.record.Data) + len(x.record.Table))
	x.draft.Continue(old.chain)
	x.draft.Replaces(old.record)
	x.draft.Write(x.record.Data)
	switch {
	case isSame:
		return x.draft.SealImported(&x.record)
	case x.record.Type() == format.TypeDeleteMarker:
		return x.draft.SealDeleteMarker(x.at.Hash, m)
	}
	return x.draft.SealPut(x.at.Hash, m, x.record.Table)
}

// preparePost makes the draft of the stored object with the metadata of a record
// whose data count less, if a POST has made them later than those that are stored.
func (d *Device) preparePost(x *incoming) error {
	o := &Object{device: d, bundle: x.bundle, hash: x.at.Hash}
	find := versionOf(x.metadata.VersionID)
	if head, buffer, err := x.bundle.ReadHead(x.at.Hash); err == nil && head != nil && !head.Versioned() {
		find = (*Object).newest
		buffer.Free()
	}
	err := d.call(func() error { return o.load(find) })
	if err == nil && !o.metadata.Doubtful {
		before := *o.metadata
		outlive(o.metadata, x.metadata)
		if !sameAttributes(&before, o.metadata) {
			x.draft, err = o.redraft()
			x.posted = o
			return err
		}
	}
	o.Close()
	var none *NotFoundError
	if errors.As(err, &none) { // it was deleted since
		return nil
	}
	return err
}

// sameAttributes tells whether two metadata of the same data are equal.
func sameAttributes(m, o *format.Metadata) bool {
	return m.CompareMeta(o) == 0 && m.CompareType(o) == 0 && format.SameLock(m.Lock, o.Lock)
}

// commitImport writes what has been prepared.
func (d *Device) commitImport(round []*incoming) error {
	all, of := make([]*write, 0, len(round)), make([]*incoming, 0, len(round))
	bundles := make([]*bundle.Bundle, 0, len(round))
	for _, x := range round {
		if x.draft != nil && x.result.Err == nil {
			x.write = write{draft: x.draft}
			all, of, bundles = append(all, &x.write), append(of, x), append(bundles, x.bundle)
		}
	}
	if len(all) == 0 {
		return nil
	}
	noteRows := d.beforeImport(bundles)
	if err := d.committer.appendAll(bundles, all); err != nil {
		return err
	}
	noteRows()
	for i, w := range all {
		x := of[i]
		x.result.Stored, x.result.Err = w.err == nil, w.err
		if w.err != nil {
			continue
		}
		if x.gone != 0 {
			x.bundle.RemoveLarge(x.gone)
		}
		if x.posted != nil {
			x.posted.copyMetadata()
		}
	}
	return nil
}

func (x *incoming) free() {
	if x.draft != nil {
		x.draft.Free()
		x.draft = nil
	}
	if x.posted != nil {
		x.posted.Close()
		x.posted = nil
	}
}
