package format

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
)

// Hash is the MD5 of an object's name between the cluster's hash prefix and
// suffix. Its top bits are the partition.
type Hash [16]byte

// Key is what the index finds a name by: bits that do not depend on the partition.
func (h *Hash) Key() uint64 { return binary.BigEndian.Uint64(h[8:]) }

// String is the hash in hexadecimal.
func (h Hash) String() string { return fmt.Sprintf("%x", h[:]) }

// MarshalText is String, for JSON.
func (h Hash) MarshalText() ([]byte, error) { return []byte(h.String()), nil }

// UnmarshalText is the inverse of MarshalText.
func (h *Hash) UnmarshalText(text []byte) error {
	if hex.DecodedLen(len(text)) != len(h) {
		return fmt.Errorf("bundle: hash of %d digits", len(text))
	}
	_, err := hex.Decode(h[:], text)
	return err
}

// Bits returns the first bits of a hash, which number a partition.
func (h Hash) Bits(power uint8) uint32 {
	return uint32(uint64(binary.BigEndian.Uint32(h[:4])) >> (32 - power))
}
