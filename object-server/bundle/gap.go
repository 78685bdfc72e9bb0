package bundle

import (
	"slices"

	"martlet/object-server/bundle/format"
	"martlet/object-server/bundle/index"
	"martlet/object-server/bundle/segment"
)

// gap is a place in a segment where records cannot be listed. They are known by the index
// alone, until the bundle is opened the next time.
type gap struct {
	segment *openSegment
	segment.Span
}

// shown leaves out the names whose newest records may lie in a gap: an older record of such
// a name is not what counts. The entries are sorted by name; their segments are pinned.
func (b *Bundle) shown(entries []found, gaps []gap) []found {
	if len(gaps) == 0 {
		return entries
	}
	b.mu.RLock()
	defer b.mu.RUnlock()
	isHidden := false
	kept := entries[:0]
	for i := range entries {
		if i == 0 || entries[i].Hash != entries[i-1].Hash {
			isHidden = b.isHidden(entries[i].Hash, gaps)
		}
		if !isHidden {
			kept = append(kept, entries[i])
		}
	}
	return kept
}

// isHidden tells whether the newest record of a name may lie in a gap. b.mu is held.
func (b *Bundle) isHidden(hash format.Hash, gaps []gap) bool {
	var space [4]index.Slot
	slots := b.index.Find(hash.Key(), space[:0])
	return slices.ContainsFunc(gaps, func(g gap) bool {
		number := g.segment.number
		if f := g.segment.filter; f != nil {
			var positions [4]uint32
			for _, position := range f.Find(positions[:0], hash) {
				if !b.superseded.has(index.NewEntrySlot(number, position).At(), hash) {
					return true
				}
			}
		}
		return slices.ContainsFunc(slots, func(s index.Slot) bool {
			at := int64(s.Unit()) * format.UnitSize
			return s.Segment() == number && at >= g.From && at < g.To && !b.superseded.has(s.At(), hash)
		})
	})
}
