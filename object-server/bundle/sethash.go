package bundle

import (
	"fmt"
	"math/bits"
	"slices"

	"martlet/object-server/bundle/format"
	"martlet/object-server/bundle/segment"
	"martlet/object-server/bundle/sethash"
)

// agreement is what replicas compare of a bundle; see doc/formats/replication.md.
// Opening makes it of the runs and of the records behind them, and each write
// changes it. It is guarded by Bundle.mu.
type agreement struct {
	table   *sethash.Table
	unsure  bool        // a record was replaced that could not be read: its element may be in the table still
	partial bool        // the table was made while damage hid records: what they say is not in it
	changes []setChange // since a new table was begun; nil if none is being made
	horizon uint64      // ticks: tombstones from before may have been reclaimed
}

type setChange struct {
	sethash.Element
	isGone bool
}

// change adds an element, or takes one out.
func (a *agreement) change(e *sethash.Element, isGone bool) {
	if isGone {
		a.table.Remove(*e)
	} else {
		a.table.Add(*e)
	}
	if a.changes != nil {
		a.changes = append(a.changes, setChange{*e, isGone})
	}
}

// elementOf is the element of a record that is the last one of a version; false for the
// removal of a version with an id.
func elementOf(e *format.Entry) (sethash.Element, bool) {
	x := sethash.Element{Hash: e.Hash, Signature: e.Signature}
	if e.Type == format.TypeTombstone {
		x.Deleted = e.Which
		return x, e.Version() == 0
	}
	return x, e.Type.IsVersion()
}

// agree notes in the set what a record that is being published says, and what it
// replaces. b.mu is held.
func (b *Bundle) agree(d *Draft, e *format.Entry) {
	a := &b.agreement
	a.add(e)
	gone, isKnown := d.before, true
	if d.chain != nil {
		gone, isKnown = d.chain.Gone()
	}
	a.remove(&gone)
	a.unsure = a.unsure || !isKnown || d.doubtful != 0
}

// add enters the element of a record, if it has one; remove takes it out.
func (a *agreement) add(e *format.Entry) {
	if x, ok := elementOf(e); ok {
		a.change(&x, false)
	}
}

func (a *agreement) remove(e *format.Entry) {
	if x, ok := elementOf(e); ok {
		a.change(&x, true)
	}
}

// last visits the entries that count of those that are sorted by name and LSN: of a
// name without versions the last one, of each version id the last one, be it a
// removal. They come in descending order.
func last(entries []found, visit func(e *found)) {
	var seen map[uint64]bool // of a name with versions: those that later records are of
	for i := len(entries) - 1; i >= 0; i-- {
		e := &entries[i]
		switch {
		case isNewest(entries, i) && !e.IsChained():
			seen = nil
			visit(e)
			continue
		case isNewest(entries, i):
			seen = make(map[uint64]bool)
		case seen == nil || !isLinked(entries, i):
			continue
		}
		if version := e.Version(); !seen[version] {
			seen[version] = true
			visit(e)
		}
	}
}

// elements visits what entries, sorted by name and LSN, have in the set.
func elements(entries []found, visit func(e sethash.Element)) {
	last(entries, func(e *found) {
		if x, ok := elementOf(&e.Entry); ok {
			visit(x)
		}
	})
}

// settleSet makes the table of all entries, sorted by name and LSN.
func (b *Bundle) settleSet(entries []found) {
	b.agreement.table = tableOf(entries)
	for _, s := range b.segments.table {
		if s != nil {
			b.agreement.horizon = max(b.agreement.horizon, s.horizon)
		}
	}
}

// tableOf makes a table of entries, sorted by name and LSN.
func tableOf(entries []found) *sethash.Table {
	common := 0
	if len(entries) > 0 {
		first, last := entries[0].Hash, entries[len(entries)-1].Hash
		common = bits.LeadingZeros32(sethash.Prefix(first, sethash.LevelMax) ^ sethash.Prefix(last, sethash.LevelMax))
	}
	t := sethash.For(uint8(common), len(entries))
	elements(entries, t.Add)
	return t
}

// Position says how far a bundle goes. A peer that has everything up to one needs
// only what came later.
type Position struct {
	Bundle format.Identity
	LSN    uint64 // all up to here is durable; 0: nothing was ever written
}

// Position tells how far the bundle goes.
func (b *Bundle) Position() Position {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return b.position()
}

// position is Position. b.mu is held.
func (b *Bundle) position() Position { return Position{b.identity, b.lastLSN} }

// Horizon is the time before which the bundle may have reclaimed tombstones, the
// start of a day.
func (b *Bundle) Horizon() format.Timestamp {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return format.Timestamp{Ticks: b.agreement.horizon}
}

// Slices returns the digests of the slices of a level in one of another level, and
// the position that they are of. Tombstones from before the horizon do not count: it
// must be the later one of the replicas that compare. It costs no read, unless the
// slices are finer than the table, or a record was replaced that could not be read:
// then the runs are read. ErrQuarantined where damage prevents that. Records with a
// damaged header are left out then, and the older ones of their names: IsPartial.
func (b *Bundle) Slices(above uint8, prefix uint32, level uint8, horizon format.Timestamp) ([]sethash.Slice, Position, error) {
	if above > level || level > sethash.LevelMax {
		return nil, Position{}, fmt.Errorf("bundle: slices of level %d in one of level %d", level, above)
	}
	if err := b.recount(level); err != nil {
		return nil, Position{}, err
	}
	b.mu.RLock()
	found, ok := b.agreement.table.Slices(above, prefix, level, horizon.Ticks)
	position := b.position()
	b.mu.RUnlock()
	if ok {
		return found, position, nil
	}
	entries, position, err := b.entriesOf(above, prefix)
	if err != nil {
		return nil, Position{}, err
	}
	t := sethash.New(level)
	elements(entries, t.Add)
	found, _ = t.Slices(above, prefix, level, horizon.Ticks)
	return found, position, nil
}

// IsPartial tells whether digests, or the elements that were listed last, leave out names
// whose newest records are hidden by damage.
func (b *Bundle) IsPartial() bool {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return b.agreement.partial || b.hides.Load()
}

// Elements lists the elements of a slice, in no order, but for names whose newest records
// are hidden by damage. Errors as of Slices.
func (b *Bundle) Elements(level uint8, prefix uint32) (all []sethash.Element, at Position, err error) {
	entries, at, err := b.entriesOf(level, prefix)
	elements(entries, func(e sethash.Element) { all = append(all, e) })
	return all, at, err
}

// recount makes the table anew if it is not sure, or has become too shallow and does not
// have the level. Writes go on meanwhile, and what they change is noted.
func (b *Bundle) recount(level uint8) error {
	a := &b.agreement
	b.recounting.Lock()
	defer b.recounting.Unlock()
	b.mu.Lock()
	if !a.unsure && (level <= a.table.Depth() || !a.table.IsShallow()) {
		b.mu.Unlock()
		return nil
	}
	wasUnsure := a.unsure
	a.unsure, a.changes = false, make([]setChange, 0, 1)
	extents, _ := b.extents()
	b.mu.Unlock()
	entries, isHiding, err := b.entriesIn(extents, 0, 0)
	var t *sethash.Table
	if err == nil {
		t = tableOf(entries)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	changes := a.changes
	a.changes = nil
	if err != nil {
		a.unsure = a.unsure || wasUnsure
		return err
	}
	a.table, a.unsure, a.partial = t, a.unsure || isHiding, isHiding
	for i := range changes {
		a.change(&changes[i].Element, changes[i].isGone)
	}
	return nil
}

// entriesOf lists what a slice has in runs and behind them, sorted by name and LSN.
func (b *Bundle) entriesOf(level uint8, prefix uint32) ([]found, Position, error) {
	b.mu.RLock()
	extents, at := b.extents()
	b.mu.RUnlock()
	entries, _, err := b.entriesIn(extents, level, prefix)
	return entries, at, err
}

// extents pins all segments as they are. b.mu is held.
func (b *Bundle) extents() (all []extent, at Position) {
	for _, s := range b.segments.inOrder() {
		all = append(all, b.segments.extent(s))
	}
	return all, b.position()
}

// entriesIn lists the entries of extents, which it unpins, and tells whether damage hides
// some. Names whose newest record may be hidden are left out.
func (b *Bundle) entriesIn(extents []extent, level uint8, prefix uint32) (all []found, isHiding bool, err error) {
	defer unpin(extents)
	var gaps []gap
	for i := range extents {
		x := &extents[i]
		run, around, err := b.runOf(x)
		if format.IsDamage(err) || isUnreadable(err) {
			err = b.inSegment(x.segment, fmt.Errorf("%w: segment %08x: %w", format.ErrQuarantined, x.segment.sequence, err))
		}
		if err != nil {
			return nil, false, err
		}
		gaps = append(gaps, around...)
		for _, e := range b.own(x.segment, run) {
			if sethash.Prefix(e.Hash, level) == prefix {
				all = append(all, found{e, x.segment})
			}
		}
	}
	slices.SortFunc(all, func(x, y found) int { return x.Compare(y.Entry) })
	isHiding = len(gaps) > 0 && b.lostThrough == 0 // what a doubt is about is hidden by nothing
	b.hides.Store(isHiding)
	return b.shown(all, gaps), isHiding, nil
}

// runOf lists the records with a name of an extent, sorted, and tells where damage hides some.
func (b *Bundle) runOf(x *extent) (run []format.Entry, gaps []gap, err error) {
	file, err := b.files.get(x.segment.key(b.id))
	if err != nil {
		return nil, nil, err
	}
	defer file.release()
	if x.sealed {
		if run, _, err = segment.ReadFooter(file); !format.IsDamage(err) {
			return run, nil, err
		}
	}
	run, around, err := b.entriesAround(file, x)
	for _, span := range around {
		gaps = append(gaps, gap{x.segment, span})
	}
	format.SortRun(run)
	return run, gaps, err
}
