package format

import (
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"
)

// SegmentHeader stands at the start of each segment; see doc/formats/bundle.md.
//
//	0 magic 4 | version 1 | reserved 1 | flags 2 | policy 4 | partition 4
//	16 sequence 4 | generation 4 | uuid 16 | base LSN 8 | created 8
//	56 through 4 | part power 1 | reserved 3 | bundle 16 | frontier 4 | reserved 40 | CRC 4
type SegmentHeader struct {
	Flags      uint16
	Policy     uint32
	Partition  uint32
	Sequence   uint32
	Generation uint32
	UUID       [16]byte
	BaseLSN    uint64
	Created    uint64 // ticks since 1970
	Through    uint32 // last sequence that this segment stands for; 0 before compaction
	Power      uint8  // as in ID
	Bundle     Identity
	Frontier   uint32 // in units; of the second header of a recycled segment
}

// FlagRecycled of a segment: stale bytes may follow the records.
const FlagRecycled = 1 << 8

// Salt ties the records of a segment to it.
func (h *SegmentHeader) Salt() uint32 { return Checksum(h.UUID[:]) }

// Encode returns the header as SegmentHeaderSize bytes.
func (h *SegmentHeader) Encode() []byte {
	b := make([]byte, SegmentHeaderSize)
	le := binary.LittleEndian
	copy(b, segmentMagic[:])
	b[4] = formatVersion
	le.PutUint16(b[6:], h.Flags)
	le.PutUint32(b[8:], h.Policy)
	le.PutUint32(b[12:], h.Partition)
	le.PutUint32(b[16:], h.Sequence)
	le.PutUint32(b[20:], h.Generation)
	copy(b[24:], h.UUID[:])
	le.PutUint64(b[40:], h.BaseLSN)
	le.PutUint64(b[48:], h.Created)
	le.PutUint32(b[56:], h.Through)
	b[60] = h.Power
	copy(b[64:], h.Bundle[:])
	le.PutUint32(b[80:], h.Frontier)
	le.PutUint32(b[124:], Checksum(b[:124]))
	return b
}

// ParseSegmentHeader reads a header; ErrDamaged when b is none, ErrUnsupported
// when a later version wrote it.
func ParseSegmentHeader(b []byte) (SegmentHeader, error) {
	le := binary.LittleEndian
	if len(b) < SegmentHeaderSize || [4]byte(b) != segmentMagic ||
		le.Uint32(b[124:]) != Checksum(b[:124]) {
		return SegmentHeader{}, fmt.Errorf("%w: no valid segment header", ErrDamaged)
	}
	h := SegmentHeader{
		Flags:      le.Uint16(b[6:]),
		Policy:     le.Uint32(b[8:]),
		Partition:  le.Uint32(b[12:]),
		Sequence:   le.Uint32(b[16:]),
		Generation: le.Uint32(b[20:]),
		UUID:       [16]byte(b[24:40]),
		BaseLSN:    le.Uint64(b[40:]),
		Created:    le.Uint64(b[48:]),
		Through:    le.Uint32(b[56:]),
		Power:      b[60],
		Bundle:     Identity(b[64:80]),
		Frontier:   le.Uint32(b[80:]),
	}
	if b[4] != formatVersion || h.Flags&flagsMustKnow&^FlagRecycled != 0 {
		return SegmentHeader{}, fmt.Errorf("%w: segment version %d, flags %#x", ErrUnsupported, b[4], h.Flags)
	}
	if h.BaseLSN == 0 {
		return SegmentHeader{}, fmt.Errorf("%w: base LSN 0", ErrDamaged)
	}
	return h, nil
}

const segmentSuffix = ".bundle"

// SegmentName is the name of a segment's file.
func SegmentName(sequence, generation uint32) string {
	return fmt.Sprintf("%08x-%04x%s", sequence, generation, segmentSuffix)
}

// ParseSegmentName is the inverse of SegmentName.
func ParseSegmentName(name string) (sequence, generation uint32, ok bool) {
	stem, ok := strings.CutSuffix(name, segmentSuffix)
	if !ok || len(stem) < 13 || len(stem) > 17 || stem[8] != '-' {
		return 0, 0, false
	}
	s, err := strconv.ParseUint(stem[:8], 16, 32)
	if err != nil {
		return 0, 0, false
	}
	g, err := strconv.ParseUint(stem[9:], 16, 32)
	if err != nil || SegmentName(uint32(s), uint32(g)) != name {
		return 0, 0, false
	}
	return uint32(s), uint32(g), true
}
