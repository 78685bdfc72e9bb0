package bundle

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"martlet/object-server/bundle/format"
	"martlet/object-server/bundle/index"
	"martlet/object-server/failpoint"
)

// publish names the file and makes the name durable. From here on the old
// segments mean nothing, though they are still there. When it fails the name is
// taken back; if that fails too, nothing is compacted until the bundle has been
// opened again, because another run could overlap with this one.
func (w *rewriter) publish() error {
	b := w.bundle
	name := b.files.path(w.next.key(b.id))
	err := b.files.FS.Link(w.file, name)
	failpoint.Hit(failpoint.CompactLinked)
	if err == nil {
		err = b.files.FS.SyncDir(b.directory)
	}
	if err == nil {
		b.files.add(w.next.key(b.id), w.file).release()
		w.file = nil // the cache closes it
		return nil
	}
	err = fmt.Errorf("bundle: %w", err)
	if again := b.files.FS.Remove(name); again != nil && !errors.Is(again, fs.ErrNotExist) {
		b.stuck = err
	}
	return err
}

// swap points the index at the new segment and hides the old ones. It returns how
// many tombstones have left the index. A writer that has a name locked remembers
// where the record lies that it replaces, so its place stays until it is done.
func (w *rewriter) swap() (reclaimed int) {
	for i := range w.moves {
		m := &w.moves[i]
		w.Lock(m.Hash)
		w.bundle.relocate(w.next, m, uint32(i))
		w.Unlock(m.Hash)
	}
	for i := range w.reclaimed {
		m := &w.reclaimed[i]
		w.Lock(m.Hash)
		if w.bundle.forgetTombstone(m) {
			reclaimed++
		}
		w.Unlock(m.Hash)
	}
	b := w.bundle
	b.mu.Lock()
	defer b.mu.Unlock()
	b.agreement.horizon = max(b.agreement.horizon, w.next.horizon)
	w.next.hidden = false
	for _, s := range w.run {
		s.hidden = true
	}
	return reclaimed
}

// relocate points the index at the new place of a record, whose entry in the new
// run has the position, unless a later one has replaced it meanwhile: then the
// copy is dead already.
func (b *Bundle) relocate(next *openSegment, m *move, position uint32) {
	b.mu.Lock()
	defer b.mu.Unlock()
	old, s, units := m.old(), next.slotOf(&m.Entry), int64(m.Units)
	next.units += units
	next.named++
	if b.superseded.has(old.At(), m.Hash) {
		b.bury(m)
	}
	switch {
	case next.filter != nil:
		if !b.relocateEntry(m.old(), index.NewEntrySlot(next.number, position)) {
			return
		}
	case b.index.Replace(m.Hash.Key(), old, s):
		if b.damaged[old.At()] {
			b.damaged[s.At()] = true
		}
	case !b.hasVersions(m.Hash):
		return
	}
	next.live += units
	m.from.live -= units
}

// bury makes a record one that is not its name's newest. b.mu is held.
func (b *Bundle) bury(m *move) {
	if f := m.from.filter; f != nil {
		f.SetState(m.position, successorState(m.IsChained()))
	} else {
		b.index.Remove(m.Hash.Key(), m.old())
	}
}

// hasVersions tells whether a name may have versions. b.mu is held.
func (b *Bundle) hasVersions(hash format.Hash) bool {
	var space [4]index.Slot
	return slices.ContainsFunc(b.index.Find(hash.Key(), space[:0]), func(s index.Slot) bool { return s.IsChained() })
}

// forgetTombstone takes a tombstone out of the index unless it was replaced.
func (b *Bundle) forgetTombstone(m *move) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if f := m.from.filter; f != nil {
		if f.State(m.position) != index.Newest {
			return false
		}
		f.SetState(m.position, index.Dead)
	} else if !b.index.Remove(m.Hash.Key(), m.old()) {
		return false
	}
	m.from.live -= int64(m.Units)
	b.agreement.remove(&m.Entry)
	delete(b.damaged, m.old().At())
	return true
}

// isOldest tells whether no segment lies before the one given.
func (b *Bundle) isOldest(first *openSegment) bool {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return b.segments.inOrder()[0] == first
}

// isCompactionTemp tells whether a name in a bundle is that of an unfinished
// compaction.
func isCompactionTemp(name string) bool {
	stem, hasSuffix := strings.CutSuffix(name, compactionSuffix)
	stem, hasDot := strings.CutPrefix(stem, ".")
	_, _, ok := format.ParseSegmentName(stem)
	return hasSuffix && hasDot && ok
}
