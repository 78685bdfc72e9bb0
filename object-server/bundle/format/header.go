package format

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash/crc32"
)

// Limits and units of the format; on disk, never change.
const (
	formatVersion = 1

	UnitSize          = 64 // records start and end at multiples of it
	HeaderSize        = 128
	checkpointPrefix  = 16 // before the run in a CHECKPOINT
	SegmentHeaderSize = 128
	DescriptorSize    = 16 // of the large file, in a SPILL record

	ChunkSize = 64 << 10 // bytes of an object that one checksum covers

	RecordSizeMax   = 64 << 20
	sealSizeMax     = 256 << 20
	MetadataSizeMax = 256 << 10
	objectSizeMax   = 1 << 40

	// DataSizeMax bounds the object bytes that a record can hold itself.
	DataSizeMax = 32 << 20

	// FlagVersions says that the name of the record has versions, FlagBlock that
	// a version block precedes the metadata. A record has both or none.
	FlagVersions = 1 << 8
	FlagBlock    = 1 << 9
	// FlagLock says that the metadata have a lock, which a reader must not ignore.
	FlagLock = 1 << 10

	// flagsMustKnow are the flags a reader must know.
	flagsMustKnow = 0xff00
)

// Magic numbers; on disk, never change.
var (
	RecordMagic  = [4]byte{'m', 'r', 'R', 'C'}
	segmentMagic = [4]byte{'m', 'r', 'S', 'G'}
)

// Type says what a record is; on disk, never change.
type Type uint8

// The types of records. This version refuses META.
const (
	TypePut              Type = 1
	TypeSpill            Type = 2
	TypeMeta             Type = 3
	TypeTombstone        Type = 4
	TypeDeleteMarker     Type = 5
	TypeVersionDirectory Type = 6
	TypeCheckpoint       Type = 7
	TypeSeal             Type = 8
	TypePad              Type = 9
)

// Named tells whether records of the type are found by a name.
func (t Type) Named() bool { return t != TypePad && t != TypeCheckpoint && t != TypeSeal }

// IsVersion tells whether a chain record of this type is a version: something to
// list, not the removal of one. A directory is what is left of a version: one that
// was removed or replaced, so that a later record hides it, or one whose data were
// lost.
func (t Type) IsVersion() bool {
	return t == TypePut || t == TypeSpill || t == TypeDeleteMarker || t == TypeVersionDirectory
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Checksum is the CRC32C of b, which guards every part of the format.
func Checksum(b []byte) uint32 { return crc32.Checksum(b, castagnoli) }

// Header is the fixed part of a record; see doc/formats/bundle.md.
//
//	0 magic 4 | version 1 | type 1 | flags 2 | LSN 8
//	16 salt 4 | units 4 | hash 16 | version id 16
//	56 ticks 8 | offset 8 | previous 8
//	80 versions 4 | metadata length 4 | size 8
//	96 metadata CRC 4 | data CRC 4 | distance 4 | signature 8
//	116 checkpoint 4 | block length 4 | CRC 4
type Header struct {
	Type           Type
	Flags          uint16
	LSN            uint64
	Salt           uint32
	Units          uint32
	Hash           Hash
	VersionID      VersionID
	Timestamp      Timestamp
	Previous       uint64
	Versions       uint32
	MetadataLength uint32
	Size           uint64
	MetadataCRC    uint32
	DataCRC        uint32
	Distance       uint32
	Signature      uint64
	Checkpoint     uint32 // unit of the last CHECKPOINT before it in the segment, 0 if none
	BlockLength    uint32 // bytes of the version block, 0 without FlagBlock
}

// Restamp changes what the header of a record, its first bytes, says of the segment that
// it lies in: it is copied into one with the salt and without a CHECKPOINT.
func Restamp(record []byte, salt uint32) {
	le := binary.LittleEndian
	le.PutUint32(record[16:], salt)
	le.PutUint32(record[116:], 0)
	le.PutUint32(record[124:], Checksum(record[:124]))
}

// Encode writes the header into b[:HeaderSize].
func (h *Header) Encode(b []byte) {
	b = b[:HeaderSize]
	clear(b)
	le := binary.LittleEndian
	copy(b, RecordMagic[:])
	b[4], b[5] = formatVersion, byte(h.Type)
	le.PutUint16(b[6:], h.Flags)
	le.PutUint64(b[8:], h.LSN)
	le.PutUint32(b[16:], h.Salt)
	le.PutUint32(b[20:], h.Units)
	copy(b[24:], h.Hash[:])
	copy(b[40:], h.VersionID[:])
	le.PutUint64(b[56:], h.Timestamp.Ticks)
	le.PutUint64(b[64:], h.Timestamp.Offset)
	le.PutUint64(b[72:], h.Previous)
	le.PutUint32(b[80:], h.Versions)
	le.PutUint32(b[84:], h.MetadataLength)
	le.PutUint64(b[88:], h.Size)
	le.PutUint32(b[96:], h.MetadataCRC)
	le.PutUint32(b[100:], h.DataCRC)
	le.PutUint32(b[104:], h.Distance)
	le.PutUint64(b[108:], h.Signature)
	le.PutUint32(b[116:], h.Checkpoint)
	le.PutUint32(b[120:], h.BlockLength)
	le.PutUint32(b[124:], Checksum(b[:124]))
}

// IsHeader tells whether b starts with a record header that proves itself.
func IsHeader(b []byte) bool {
	return len(b) >= HeaderSize && [4]byte(b) == RecordMagic &&
		binary.LittleEndian.Uint32(b[124:]) == Checksum(b[:124])
}

// SaltOf is the salt in a record header, of whatever version.
func SaltOf(b []byte) uint32 { return binary.LittleEndian.Uint32(b[16:]) }

// ParseHeader reads and checks a header. The error is ErrDamaged when b is not
// a header, ErrUnsupported when it is one that this version must not interpret.
func ParseHeader(b []byte) (Header, error) {
	if !IsHeader(b) {
		return Header{}, fmt.Errorf("%w: no valid record header", ErrDamaged)
	}
	if b[4] != formatVersion {
		return Header{}, fmt.Errorf("%w: record version %d", ErrUnsupported, b[4])
	}
	le := binary.LittleEndian
	h := Header{
		Type:           Type(b[5]),
		Flags:          le.Uint16(b[6:]),
		LSN:            le.Uint64(b[8:]),
		Salt:           SaltOf(b),
		Units:          le.Uint32(b[20:]),
		Hash:           Hash(b[24:40]),
		VersionID:      VersionID(b[40:56]),
		Timestamp:      Timestamp{Ticks: le.Uint64(b[56:]), Offset: le.Uint64(b[64:])},
		Previous:       le.Uint64(b[72:]),
		Versions:       le.Uint32(b[80:]),
		MetadataLength: le.Uint32(b[84:]),
		Size:           le.Uint64(b[88:]),
		MetadataCRC:    le.Uint32(b[96:]),
		DataCRC:        le.Uint32(b[100:]),
		Distance:       le.Uint32(b[104:]),
		Signature:      le.Uint64(b[108:]),
		Checkpoint:     le.Uint32(b[116:]),
	}
	if h.Flags&FlagBlock != 0 {
		h.BlockLength = le.Uint32(b[120:])
	}
	return h, h.check()
}

// check refuses what this version does not know, and lengths that are out of
// bounds or do not add up.
func (h *Header) check() error {
	if !h.isKnown() {
		return fmt.Errorf("%w: record type %d, flags %#x", ErrUnsupported, h.Type, h.Flags)
	}
	switch {
	case h.LSN == 0 || uint64(h.Distance) > h.LSN,
		h.Timestamp.Ticks > TicksMax,
		h.MetadataLength > MetadataSizeMax,
		h.Flags&FlagBlock != 0 && !checkBlockSize(uint64(h.BlockLength)),
		h.Size > objectSizeMax,
		h.HoldsData() && h.Size > DataSizeMax,
		!h.HoldsData() && h.Type != TypeSpill && h.Type != TypeSeal && h.Size != 0,
		uint64(h.Units)*UnitSize > h.sizeMax(),
		uint64(h.Units)*UnitSize != h.Layout().Length:
		return fmt.Errorf("%w: record header out of bounds", ErrDamaged)
	}
	return nil
}

// isKnown tells whether this version knows the type, and may know the flags
// with it.
func (h *Header) isKnown() bool {
	flags := h.Flags & flagsMustKnow
	switch h.Type {
	case TypePut, TypeSpill, TypeTombstone:
		flags &^= FlagLock
		return flags == 0 || flags == FlagVersions|FlagBlock
	case TypeDeleteMarker:
		return flags&^FlagLock == FlagVersions|FlagBlock
	case TypeVersionDirectory:
		return flags == FlagVersions|FlagBlock
	case TypePad, TypeCheckpoint, TypeSeal:
		return flags == 0
	}
	return false
}

// HoldsData tells whether bytes of the given size lie in the record itself.
func (h *Header) HoldsData() bool { return h.Type == TypePut || h.Type == TypeCheckpoint }

func (h *Header) sizeMax() uint64 {
	if h.Type == TypeSeal {
		return sealSizeMax
	}
	return RecordSizeMax
}

// Fits tells whether a record at an offset ends within a size, in bytes.
func (h *Header) Fits(offset, size int64) bool { return offset+int64(h.Units)*UnitSize <= size }

// Without makes a record of the header and a version block, nil for none, that has
// neither metadata nor data.
func (h Header) Without(t Type, block []byte) []byte {
	h.Flags &^= FlagLock
	if h.Type = t; block != nil {
		h.Flags |= FlagVersions | FlagBlock
	}
	h.BlockLength, h.MetadataCRC = uint32(len(block)), Checksum(block)
	h.MetadataLength, h.Size, h.DataCRC = 0, 0, Checksum(nil)
	parts := h.Layout()
	h.Units = uint32(parts.Length / UnitSize)
	p := make([]byte, parts.Length)
	h.Encode(p)
	copy(p[HeaderSize:], block)
	return p
}

// Watermark is the highest LSN known durable when the record was written.
func (h *Header) Watermark() uint64 { return h.LSN - uint64(h.Distance) }

// Layout holds the offsets of a record's parts, from its start in bytes. A
// version block lies between header and metadata.
type Layout struct{ Metadata, Data, Table, End, Length uint64 }

// Layout tells where the parts of the record lie.
func (h *Header) Layout() Layout {
	l := Layout{Metadata: HeaderSize + uint64(h.BlockLength)}
	l.Data = l.Metadata + uint64(h.MetadataLength)
	l.Table = l.Data
	switch h.Type {
	case TypePut, TypeCheckpoint, TypeSeal:
		l.Table += h.Size
	case TypeSpill:
		l.Table += DescriptorSize
	}
	l.End = l.Table + 4*ChunkCount(h.Size)
	l.Length = (l.End + UnitSize - 1) / UnitSize * UnitSize
	return l
}

// ChunkCount is the number of chunks of so many bytes.
func ChunkCount(size uint64) uint64 { return (size + ChunkSize - 1) / ChunkSize }

// SignatureOf is equal on every replica that holds the same version with the same
// metadata, whether or not the data lie in a large file there.
func (h *Header) SignatureOf(metadata []byte) uint64 {
	kind := h.Type
	if kind == TypeSpill {
		kind = TypePut
	}
	var room [1 << 10]byte // metadata are seldom longer
	b := append(room[:0], byte(kind))
	b = append(b, h.Hash[:]...)
	b = append(b, h.VersionID[:]...)
	digest := sha256.Sum256(append(b, metadata...))
	return binary.LittleEndian.Uint64(digest[:])
}

var typeNames = map[Type]string{
	TypePut: "PUT", TypeSpill: "SPILL", TypeMeta: "META", TypeTombstone: "TOMBSTONE", TypeDeleteMarker: "DELETE MARKER",
	TypeVersionDirectory: "VERSION DIRECTORY", TypeCheckpoint: "CHECKPOINT", TypeSeal: "SEAL", TypePad: "PAD",
}

// String is the name of the type in doc/formats/bundle.md.
func (t Type) String() string {
	if name, ok := typeNames[t]; ok {
		return name
	}
	return fmt.Sprintf("type %d", uint8(t))
}
