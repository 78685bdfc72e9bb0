package bundle

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash/crc32"
)

// Limits and units of the format; on disk, never change.
const (
	formatVersion = 1

	unitSize          = 64 // records start and end at multiples of it
	headerSize        = 128
	checkpointPrefix  = 16 // before the run in a CHECKPOINT
	segmentHeaderSize = 128
	descriptorSize    = 16 // of the large file, in a SPILL record

	ChunkSize = 64 << 10 // bytes of an object that one checksum covers

	recordSizeMax   = 64 << 20
	sealSizeMax     = 256 << 20
	metadataSizeMax = 256 << 10
	objectSizeMax   = 1 << 40

	// DataSizeMax bounds the object bytes that a record can hold itself.
	DataSizeMax = 32 << 20

	// flagVersions says that the name of the record has versions, flagBlock that
	// a version block precedes the metadata. A record has both or none.
	flagVersions = 1 << 8
	flagBlock    = 1 << 9

	// flagsMustKnow are the flags a reader must know.
	flagsMustKnow = 0xff00
)

// Magic numbers; on disk, never change.
var (
	recordMagic  = [4]byte{'m', 'r', 'R', 'C'}
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

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func checksum(b []byte) uint32 { return crc32.Checksum(b, castagnoli) }

// header is the fixed part of a record; see doc/formats/bundle.md.
//
//	0 magic 4 | version 1 | type 1 | flags 2 | LSN 8
//	16 salt 4 | units 4 | hash 16 | version id 16
//	56 ticks 8 | offset 8 | previous 8
//	80 versions 4 | metadata length 4 | size 8
//	96 metadata CRC 4 | data CRC 4 | distance 4 | signature 8
//	116 checkpoint 4 | block length 4 | CRC 4
type header struct {
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
	BlockLength    uint32 // bytes of the version block, 0 without flagBlock
}

// encode writes the header into b[:headerSize].
func (h *header) encode(b []byte) {
	b = b[:headerSize]
	clear(b)
	le := binary.LittleEndian
	copy(b, recordMagic[:])
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
	le.PutUint32(b[124:], checksum(b[:124]))
}

// isHeader tells whether b starts with a record header that proves itself.
func isHeader(b []byte) bool {
	return len(b) >= headerSize && [4]byte(b) == recordMagic &&
		binary.LittleEndian.Uint32(b[124:]) == checksum(b[:124])
}

// saltOf is the salt in a record header, of whatever version.
func saltOf(b []byte) uint32 { return binary.LittleEndian.Uint32(b[16:]) }

// parseHeader reads and checks a header. The error is errDamaged when b is not
// a header, ErrUnsupported when it is one that this version must not interpret.
func parseHeader(b []byte) (header, error) {
	if !isHeader(b) {
		return header{}, fmt.Errorf("%w: no valid record header", errDamaged)
	}
	if b[4] != formatVersion {
		return header{}, fmt.Errorf("%w: record version %d", ErrUnsupported, b[4])
	}
	le := binary.LittleEndian
	h := header{
		Type:           Type(b[5]),
		Flags:          le.Uint16(b[6:]),
		LSN:            le.Uint64(b[8:]),
		Salt:           saltOf(b),
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
	if h.Flags&flagBlock != 0 {
		h.BlockLength = le.Uint32(b[120:])
	}
	return h, h.check()
}

// check refuses what this version does not know, and lengths that are out of
// bounds or do not add up.
func (h *header) check() error {
	if !h.isKnown() {
		return fmt.Errorf("%w: record type %d, flags %#x", ErrUnsupported, h.Type, h.Flags)
	}
	switch {
	case h.LSN == 0 || uint64(h.Distance) > h.LSN,
		h.Timestamp.Ticks > TicksMax,
		h.MetadataLength > metadataSizeMax,
		h.Flags&flagBlock != 0 && !checkBlockSize(uint64(h.BlockLength)),
		h.Size > objectSizeMax,
		h.holdsData() && h.Size > DataSizeMax,
		!h.holdsData() && h.Type != TypeSpill && h.Type != TypeSeal && h.Size != 0,
		uint64(h.Units)*unitSize > h.sizeMax(),
		uint64(h.Units)*unitSize != h.layout().length:
		return fmt.Errorf("%w: record header out of bounds", errDamaged)
	}
	return nil
}

// isKnown tells whether this version knows the type, and may know the flags
// with it.
func (h *header) isKnown() bool {
	flags := h.Flags & flagsMustKnow
	switch h.Type {
	case TypePut, TypeSpill, TypeTombstone:
		return flags == 0 || flags == flagVersions|flagBlock
	case TypeDeleteMarker, TypeVersionDirectory:
		return flags == flagVersions|flagBlock
	case TypePad, TypeCheckpoint, TypeSeal:
		return flags == 0
	}
	return false
}

// holdsData tells whether bytes of the given size lie in the record itself.
func (h *header) holdsData() bool { return h.Type == TypePut || h.Type == TypeCheckpoint }

func (h *header) sizeMax() uint64 {
	if h.Type == TypeSeal {
		return sealSizeMax
	}
	return recordSizeMax
}

// watermark is the highest LSN known durable when the record was written.
func (h *header) watermark() uint64 { return h.LSN - uint64(h.Distance) }

// layout holds the offsets of a record's parts, from its start in bytes. A
// version block lies between header and metadata.
type layout struct{ metadata, data, table, end, length uint64 }

func (h *header) layout() layout {
	l := layout{metadata: headerSize + uint64(h.BlockLength)}
	l.data = l.metadata + uint64(h.MetadataLength)
	l.table = l.data
	switch h.Type {
	case TypePut, TypeCheckpoint, TypeSeal:
		l.table += h.Size
	case TypeSpill:
		l.table += descriptorSize
	}
	l.end = l.table + 4*chunkCount(h.Size)
	l.length = (l.end + unitSize - 1) / unitSize * unitSize
	return l
}

func chunkCount(size uint64) uint64 { return (size + ChunkSize - 1) / ChunkSize }

// signature is equal on every replica that holds the same version with the same
// metadata, whether or not the data lie in a large file there.
func (h *header) signature(metadata []byte) uint64 {
	kind := h.Type
	if kind == TypeSpill {
		kind = TypePut
	}
	digest := sha256.New()
	digest.Write([]byte{byte(kind)})
	digest.Write(h.Hash[:])
	digest.Write(h.VersionID[:])
	digest.Write(metadata)
	return binary.LittleEndian.Uint64(digest.Sum(nil))
}
