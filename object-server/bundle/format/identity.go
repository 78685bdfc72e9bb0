package format

import (
	"crypto/sha256"
	"encoding/binary"
)

// Identity tells a bundle from any other, also from one that was in its place: the
// LSNs of two bundles say nothing of each other. Zero is none.
type Identity [16]byte

// Half is the identity of a bundle that was split off.
func (i Identity) Half(partition uint32, power uint8) Identity {
	b := binary.LittleEndian.AppendUint32(i[:], partition)
	sum := sha256.Sum256(append(b, power))
	return Identity(sum[:16])
}
