package sethash

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// Sum stands for a set of elements: the sum of their signatures modulo 2^64, and
// how many there are. The zero Sum is the empty set.
type Sum struct {
	Signatures uint64
	Count      uint64
}

func (s *Sum) add(o Sum) { s.Signatures, s.Count = s.Signatures+o.Signatures, s.Count+o.Count }

// Digest stands for all elements of a slice. Two replicas with equal digests of a
// slice have the same elements in it.
type Digest struct {
	Versions   Sum // that live, delete markers included
	Tombstones Sum // of names without versions, from the horizon on
}

// Add makes the digest that of two disjoint sets.
func (d *Digest) Add(o Digest) {
	d.Versions.add(o.Versions)
	d.Tombstones.add(o.Tombstones)
}

// IsEmpty tells whether the digest is that of the empty set.
func (d *Digest) IsEmpty() bool { return *d == Digest{} }

// Sizes on the wire, in bytes; see doc/formats/replication.md.
const (
	DigestSize = 32
	sliceSize  = 4 + DigestSize
	slicesMax  = 1 << 16 // in one message
)

// ErrMalformed: bytes from a peer are no digest.
var ErrMalformed = errors.New("sethash: malformed digest")

// Append appends the digest as it goes over the wire.
//
//	0 versions: signatures 8, count 8 | tombstones: signatures 8, count 8
func (d *Digest) Append(b []byte) []byte {
	for _, n := range [...]uint64{d.Versions.Signatures, d.Versions.Count, d.Tombstones.Signatures, d.Tombstones.Count} {
		b = binary.LittleEndian.AppendUint64(b, n)
	}
	return b
}

// ParseDigest is the inverse of Append. b must be as long as the digest.
func ParseDigest(b []byte) (Digest, error) {
	if len(b) != DigestSize {
		return Digest{}, fmt.Errorf("%w: %d bytes", ErrMalformed, len(b))
	}
	le := binary.LittleEndian
	return Digest{
		Versions:   Sum{le.Uint64(b), le.Uint64(b[8:])},
		Tombstones: Sum{le.Uint64(b[16:]), le.Uint64(b[24:])},
	}, nil
}

// Slice is the digest of the names whose hashes begin with the same bits.
type Slice struct {
	Prefix uint32 // those bits, as a number
	Digest Digest
}

// AppendSlices appends slices of one level, in the order of their prefixes.
//
//	0 prefix 4 | digest 32, for each
func AppendSlices(b []byte, slices []Slice) []byte {
	for i := range slices {
		b = binary.LittleEndian.AppendUint32(b, slices[i].Prefix)
		b = slices[i].Digest.Append(b)
	}
	return b
}

// ParseSlices is the inverse of AppendSlices. It refuses prefixes that do not
// ascend or have more bits than the level, and more than 65,536 slices.
func ParseSlices(b []byte, level uint8) ([]Slice, error) {
	n := len(b) / sliceSize
	if len(b)%sliceSize != 0 || n > slicesMax || level > LevelMax {
		return nil, fmt.Errorf("%w: %d bytes of slices of level %d", ErrMalformed, len(b), level)
	}
	slices := make([]Slice, n)
	for i := range slices {
		p := b[i*sliceSize:]
		prefix := binary.LittleEndian.Uint32(p)
		if uint64(prefix)>>level != 0 || i > 0 && prefix <= slices[i-1].Prefix {
			return nil, fmt.Errorf("%w: prefix %#x of level %d", ErrMalformed, prefix, level)
		}
		slices[i].Prefix = prefix
		slices[i].Digest, _ = ParseDigest(p[4:sliceSize]) // of the right length
	}
	return slices, nil
}
