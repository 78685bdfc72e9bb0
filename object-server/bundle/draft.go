package bundle

import (
	"encoding/binary"
	"fmt"
	"slices"
)

// headroom is kept free before the data of a draft, so that header and metadata
// usually fit in without moving the data.
const headroom = headerSize + 640

// Draft is a record being made: data first, then metadata by one of the Seal
// methods, then LSN and salt when it is appended. Not safe for concurrent use.
type Draft struct {
	buffer *Buffer
	start  int // of the record in the buffer, once sealed
	head   header
	chain  *Addition // nil: the name has no versions

	old      slot   // of the record that it replaces; 0 if none
	oldUnits uint32 // length of that one, 0 if not known
	doubtful slot   // of a record that may be the name's, or that of another; 0 if none

	first     *Draft // of the batch that the record belongs to; nil if it is the first, or alone
	next      *Draft // of the batch
	following int64  // length of the others of the batch; of the first
}

// NewDraft returns an empty draft with room for size bytes of data.
func NewDraft(size int) *Draft {
	b := GetBuffer(headroom + size + 4*int(chunkCount(uint64(size))) + unitSize)
	b.B = b.B[:headroom]
	return &Draft{buffer: b}
}

// Write appends object data.
func (d *Draft) Write(p []byte) {
	d.buffer.grow(len(p))
	d.buffer.B = append(d.buffer.B, p...)
}

// Data is what has been written so far; valid until the next call.
func (d *Draft) Data() []byte { return d.buffer.B[headroom:] }

// Free gives the memory back; the draft must not be used any more.
func (d *Draft) Free() {
	d.buffer.Free()
	d.buffer = nil
}

// SealPut completes a PUT record with the data written. Metadata.Size must be
// the length of the data. A table from an earlier record of the same data may be
// given, so that checksums last from the first write on; else it is made.
func (d *Draft) SealPut(hash Hash, m *Metadata, table []byte) error {
	data := d.Data()
	if int64(len(data)) != m.Size || len(data) > DataSizeMax {
		return fmt.Errorf("%w: %d bytes of data, metadata say %d", ErrTooLarge, len(data), m.Size)
	}
	if table == nil {
		table = AppendChunkTable(make([]byte, 0, 64), data)
	}
	return d.seal(TypePut, hash, m, table)
}

// SealSpill completes a SPILL record for a large file with its chunk table.
func (d *Draft) SealSpill(hash Hash, m *Metadata, largeID uint64, table []byte) error {
	var descriptor [descriptorSize]byte
	binary.LittleEndian.PutUint64(descriptor[:], largeID)
	d.Write(descriptor[:])
	return d.seal(TypeSpill, hash, m, table)
}

// SealTombstone completes a TOMBSTONE record.
func (d *Draft) SealTombstone(hash Hash, m *Metadata) error {
	return d.seal(TypeTombstone, hash, m, nil)
}

// SealDeleteMarker completes a DELETE MARKER record; Continue must have been
// called.
func (d *Draft) SealDeleteMarker(hash Hash, m *Metadata) error {
	return d.seal(TypeDeleteMarker, hash, m, nil)
}

// Continue makes the record one of a chain, before it is sealed.
func (d *Draft) Continue(a *Addition) { d.chain = a }

// sealCheckpoint completes a CHECKPOINT record that covers the log up to an LSN.
func (d *Draft) sealCheckpoint(covered uint64) error {
	data := d.Data()
	if len(data) > DataSizeMax {
		return fmt.Errorf("%w: checkpoint of %d bytes", ErrTooLarge, len(data))
	}
	table := AppendChunkTable(nil, data)
	d.head = header{Type: TypeCheckpoint, Previous: covered, Size: uint64(len(data)), DataCRC: checksum(table)}
	parts := d.head.layout()
	d.head.Units = uint32(parts.length / unitSize)
	d.place(nil, table, int(parts.length-parts.end))
	return nil
}

// sealPad completes a PAD record.
func (d *Draft) sealPad() {
	d.start = headroom - headerSize
	d.head = header{Type: TypePad, Units: headerSize / unitSize}
}

func (d *Draft) seal(kind Type, hash Hash, m *Metadata, table []byte) error {
	h := header{Type: kind, Hash: hash, VersionID: m.VersionID, Timestamp: m.Timestamp, Versions: 1}
	buffer := GetBuffer(m.Msgsize() + blockSizeMax)
	defer buffer.Free()
	encoded := buffer.B[:0]
	if d.chain != nil {
		encoded = d.chain.block.append(encoded)
		h.Flags, h.Previous, h.Versions = flagVersions|flagBlock, d.chain.previous, d.chain.versions
		h.BlockLength = uint32(len(encoded))
	}
	encoded, err := m.MarshalMsg(encoded)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrTooLarge, err)
	}
	h.MetadataLength, h.MetadataCRC = uint32(len(encoded))-h.BlockLength, checksum(encoded)
	if h.MetadataLength > metadataSizeMax {
		return fmt.Errorf("%w: %d bytes of metadata", ErrTooLarge, h.MetadataLength)
	}
	if kind == TypePut || kind == TypeSpill {
		h.Size = uint64(m.Size)
	}
	proved := table
	if kind == TypeSpill {
		proved = slices.Concat(d.Data(), table)
	}
	h.DataCRC = checksum(proved)
	h.Signature = h.signature(encoded[h.BlockLength:])
	parts := h.layout()
	if parts.length > recordSizeMax || uint64(len(table)) != 4*chunkCount(h.Size) {
		return fmt.Errorf("%w: record of %d bytes", ErrTooLarge, parts.length)
	}
	h.Units = uint32(parts.length / unitSize)
	d.head = h
	d.place(encoded, table, int(parts.length-parts.end))
	return nil
}

// place puts version block and metadata before the data, table and padding behind it.
func (d *Draft) place(metadata, table []byte, padding int) {
	d.buffer.grow(len(table) + padding + max(len(metadata)-(headroom-headerSize), 0))
	b := append(d.buffer.B, table...)
	var zeros [unitSize]byte
	b = append(b, zeros[:padding]...)
	d.start = headroom - headerSize - len(metadata)
	if d.start < 0 { // more metadata than headroom: move the rest back
		b = append(b, metadata[:-d.start]...)
		copy(b[headroom-d.start:], b[headroom:])
		d.start = 0
	}
	copy(b[d.start+headerSize:], metadata)
	d.buffer.B = b
}

// stamp fills in what is known only when the record is appended.
func (d *Draft) stamp(lsn, durable uint64, salt, checkpoint uint32) {
	d.settle()
	d.head.LSN, d.head.Salt, d.head.Checkpoint = lsn, salt, checkpoint
	d.head.Distance = uint32(min(lsn-durable, 1<<32-1))
	d.head.encode(d.buffer.B[d.start:])
}

// bytes is the record once stamped.
func (d *Draft) bytes() []byte { return d.buffer.B[d.start:] }

// Len is the size of the sealed record in bytes, with those that are to follow it.
func (d *Draft) Len() int64 { return d.length() + d.following }

// length is the size of the sealed record alone, in bytes.
func (d *Draft) length() int64 { return int64(d.head.Units) * unitSize }

// Replaces says what Read or ReadHead found under the draft's name; nil is
// nothing. The name must be locked from there until the draft is published.
func (d *Draft) Replaces(old *Record) {
	switch {
	case old == nil:
	case old.LSN() == 0: // its header could not be read: whose it is is not known
		d.doubtful = old.slot
	default:
		d.old, d.oldUnits = old.slot, old.head.Units
	}
}

// AppendChunkTable appends one checksum for each chunk of data to table. All
// chunks but the last of an object must be whole.
func AppendChunkTable(table, data []byte) []byte {
	for chunk := range slices.Chunk(data, ChunkSize) {
		table = binary.LittleEndian.AppendUint32(table, checksum(chunk))
	}
	return table
}
