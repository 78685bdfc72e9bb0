package bundle

import (
	"crypto/rand"
	"fmt"
	"slices"

	"martlet/object-server/bundle/format"
)

// Identity is that of the bundle; zero before its first segment.
func (b *Bundle) Identity() format.Identity {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return b.identity
}

// Identify gives the bundle an identity if it has none: its first segment is being
// made, or the headers of all segments are damaged.
func (b *Bundle) Identify() (format.Identity, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.identity == (format.Identity{}) {
		if _, err := rand.Read(b.identity[:]); err != nil {
			return format.Identity{}, fmt.Errorf("bundle: %w", err)
		}
	}
	return b.identity, nil
}

// identityOf is the identity that a bundle's segments, in log order, say. Each one
// that the bundle made says it. Those that it inherited belong to its sibling too,
// so it makes its own of theirs until it has made one.
func identityOf(id ID, segments []SegmentFile) format.Identity {
	isOf := func(inherited bool) func(SegmentFile) bool {
		return func(s SegmentFile) bool { return s.Inherited == inherited && s.Bundle != format.Identity{} }
	}
	if i := slices.IndexFunc(segments, isOf(false)); i >= 0 {
		return segments[i].Bundle
	}
	if i := slices.IndexFunc(segments, isOf(true)); i >= 0 {
		return segments[i].Bundle.Half(id.Partition, id.Power)
	}
	return format.Identity{}
}
