package wire

import (
	"encoding/binary"
	"errors"
	"fmt"

	"martlet/object-server/bundle"
	"martlet/object-server/bundle/format"
	"martlet/object-server/bundle/sethash"
)

// ErrMalformed says that a message of a peer breaks the rules of its page.
var ErrMalformed = errors.New("malformed message")

// HashSize is that of a name in a list of hashes.
const HashSize = 16

const (
	askedSize   = 12
	stateSize   = 73
	elementSize = 32
)

// Asked asks for the digest of a partition.
type Asked struct {
	Partition uint32
	// Horizon leaves out tombstones from before it, and from before the horizon of the partition, if that is later. 0: all
	// tombstones count.
	Horizon uint64
}

// AppendAsked appends one item of DigestsRequest.Asked.
func AppendAsked(b []byte, a Asked) []byte {
	b = binary.LittleEndian.AppendUint32(b, a.Partition)
	return binary.LittleEndian.AppendUint64(b, a.Horizon)
}

// ParseAsked reads DigestsRequest.Asked.
func ParseAsked(b []byte) ([]Asked, error) {
	if len(b)%askedSize != 0 {
		return nil, fmt.Errorf("%w: %d bytes of partitions", ErrMalformed, len(b))
	}
	all := make([]Asked, 0, len(b)/askedSize)
	for ; len(b) > 0; b = b[askedSize:] {
		all = append(all, Asked{binary.LittleEndian.Uint32(b), binary.LittleEndian.Uint64(b[4:])})
	}
	return all, nil
}

// State is what a server knows of a partition.
type State struct {
	IsKnown  bool // false: damage keeps the digest from being known
	Digest   sethash.Digest
	Horizon  uint64 // of the partition, ticks
	Position bundle.Position
	Doubt    uint64 // LSN up to which records of unknown names are lost; 0: none are
}

// DoubtAt is the position up to which records of unknown names are lost.
func (s *State) DoubtAt() bundle.Position {
	return bundle.Position{Bundle: s.Position.Bundle, LSN: s.Doubt}
}

// AppendState appends one item of Digests.States.
func AppendState(b []byte, s *State) []byte {
	known := byte(0)
	if s.IsKnown {
		known = 1
	}
	b = append(b, known)
	b = s.Digest.Append(b)
	b = binary.LittleEndian.AppendUint64(b, s.Horizon)
	b = append(b, s.Position.Bundle[:]...)
	b = binary.LittleEndian.AppendUint64(b, s.Position.LSN)
	return binary.LittleEndian.AppendUint64(b, s.Doubt)
}

// ParseStates reads Digests.States, which must have so many items.
func ParseStates(b []byte, count int) ([]State, error) {
	if len(b) != count*stateSize {
		return nil, fmt.Errorf("%w: %d bytes for the states of %d partitions", ErrMalformed, len(b), count)
	}
	all := make([]State, count)
	for i := range all {
		p := b[i*stateSize:][:stateSize]
		digest, err := sethash.ParseDigest(p[1:33])
		if err != nil || p[0] > 1 {
			return nil, fmt.Errorf("%w: state of a partition", ErrMalformed)
		}
		all[i] = State{p[0] == 1, digest, binary.LittleEndian.Uint64(p[33:]), bundle.Position{
			Bundle: format.Identity(p[41:57]), LSN: binary.LittleEndian.Uint64(p[57:65]),
		}, binary.LittleEndian.Uint64(p[65:])}
	}
	return all, nil
}

// AppendElements appends elements as Elements has them.
func AppendElements(b []byte, all []sethash.Element) []byte {
	for i := range all {
		b = append(b, all[i].Hash[:]...)
		b = binary.LittleEndian.AppendUint64(b, all[i].Signature)
		b = binary.LittleEndian.AppendUint64(b, all[i].Deleted)
	}
	return b
}

// ParseElements is the inverse of AppendElements.
func ParseElements(b []byte) ([]sethash.Element, error) {
	if len(b)%elementSize != 0 {
		return nil, fmt.Errorf("%w: %d bytes of elements", ErrMalformed, len(b))
	}
	all := make([]sethash.Element, 0, len(b)/elementSize)
	for ; len(b) > 0; b = b[elementSize:] {
		all = append(all, sethash.Element{
			Hash: [HashSize]byte(b), Signature: binary.LittleEndian.Uint64(b[16:]), Deleted: binary.LittleEndian.Uint64(b[24:]),
		})
	}
	return all, nil
}

// AppendHash appends a hash to a list of hashes.
func AppendHash(b []byte, hash format.Hash) []byte { return append(b, hash[:]...) }

// ParseHashes reads a list of hashes.
func ParseHashes(b []byte) (map[format.Hash]bool, error) {
	if len(b)%HashSize != 0 {
		return nil, fmt.Errorf("%w: %d bytes of hashes", ErrMalformed, len(b))
	}
	all := make(map[format.Hash]bool, len(b)/HashSize)
	for ; len(b) > 0; b = b[HashSize:] {
		all[format.Hash(b)] = true
	}
	return all, nil
}
