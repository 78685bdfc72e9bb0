package bundle

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"
)

// Identity tells a bundle from any other, also from one that was in its place: the
// LSNs of two bundles say nothing of each other. Zero is none.
type Identity [16]byte

// Identity is that of the bundle; zero before its first segment.
func (b *Bundle) Identity() Identity {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return b.identity
}

// identify gives the bundle an identity if it has none: its first segment is being
// made, or the headers of all segments are damaged.
func (b *Bundle) identify() (Identity, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.identity == (Identity{}) {
		if _, err := rand.Read(b.identity[:]); err != nil {
			return Identity{}, fmt.Errorf("bundle: %w", err)
		}
	}
	return b.identity, nil
}

// identityOf is the identity that a bundle's segments, in log order, say. Each one
// that the bundle made says it. Those that it inherited belong to its sibling too,
// so it makes its own of theirs until it has made one.
func identityOf(id ID, segments []segmentFile) Identity {
	isOf := func(inherited bool) func(segmentFile) bool {
		return func(s segmentFile) bool { return s.inherited == inherited && s.bundle != Identity{} }
	}
	if i := slices.IndexFunc(segments, isOf(false)); i >= 0 {
		return segments[i].bundle
	}
	if i := slices.IndexFunc(segments, isOf(true)); i >= 0 {
		return segments[i].bundle.half(id)
	}
	return Identity{}
}

// half is the identity of a bundle that was split off.
func (i Identity) half(id ID) Identity {
	b := binary.LittleEndian.AppendUint32(i[:], id.Partition)
	sum := sha256.Sum256(append(b, id.Power))
	return Identity(sum[:16])
}
