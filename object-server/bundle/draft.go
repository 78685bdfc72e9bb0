package bundle

import (
	"encoding/binary"
	"fmt"
	"slices"

	"martlet/object-server/bundle/buffers"
	"martlet/object-server/bundle/format"
	"martlet/object-server/bundle/index"
	"martlet/object-server/bundle/versions"
)

// headroom is kept free before the data of a draft, so that header and metadata
// usually fit in without moving the data.
const headroom = format.HeaderSize + 640

// Draft is a record being made: data first, then metadata by one of the Seal
// methods, then LSN and salt when it is appended. Not safe for concurrent use.
type Draft struct {
	buffer *buffers.Buffer
	lent   buffers.Buffer // in place of one of the draft's own: the memory is that of others
	start  int            // of the record in the buffer, once sealed
	head   format.Header
	chain  *versions.Addition // nil: the name has no versions

	old      index.Slot   // of the record that it replaces; 0 if none
	oldUnits uint32       // length of that one, 0 if not known
	doubtful index.Slot   // of a record that may be the name's, or that of another; 0 if none
	before   format.Entry // of the record that it replaces, without the place; no type if none

	first     *Draft // of the batch that the record belongs to; nil if it is the first, or alone
	next      *Draft // of the batch
	following int64  // length of the others of the batch; of the first
}

// NewDraft returns an empty draft with room for size bytes of data.
func NewDraft(size int) *Draft {
	b := buffers.Get(headroom + size + 4*int(format.ChunkCount(uint64(size))) + format.UnitSize)
	b.B = b.B[:headroom]
	return &Draft{buffer: b}
}

// Write appends object data.
func (d *Draft) Write(p []byte) {
	d.buffer.Grow(len(p))
	d.buffer.B = append(d.buffer.B, p...)
}

// Data is what has been written so far; valid until the next call.
func (d *Draft) Data() []byte { return d.buffer.B[headroom:] }

// Free gives the memory back; the draft must not be used any more.
func (d *Draft) Free() {
	if d.buffer != &d.lent {
		d.buffer.Free()
	}
	d.buffer = nil
}

// SealPut completes a PUT record with the data written. Metadata.Size must be
// the length of the data. A table from an earlier record of the same data may be
// given, so that checksums last from the first write on; else it is made.
func (d *Draft) SealPut(hash format.Hash, m *format.Metadata, table []byte) error {
	data := d.Data()
	if int64(len(data)) != m.Size || len(data) > format.DataSizeMax {
		return fmt.Errorf("%w: %d bytes of data, metadata say %d", format.ErrTooLarge, len(data), m.Size)
	}
	if table == nil {
		table = format.AppendChunkTable(make([]byte, 0, 64), data)
	}
	return d.seal(format.TypePut, hash, m, table)
}

// SealSpill completes a SPILL record for a large file with its chunk table.
func (d *Draft) SealSpill(hash format.Hash, m *format.Metadata, largeID uint64, table []byte) error {
	var descriptor [format.DescriptorSize]byte
	binary.LittleEndian.PutUint64(descriptor[:], largeID)
	d.Write(descriptor[:])
	return d.seal(format.TypeSpill, hash, m, table)
}

// SealTombstone completes a TOMBSTONE record.
func (d *Draft) SealTombstone(hash format.Hash, m *format.Metadata) error {
	return d.seal(format.TypeTombstone, hash, m, nil)
}

// SealDeleteMarker completes a DELETE MARKER record; Continue must have been
// called.
func (d *Draft) SealDeleteMarker(hash format.Hash, m *format.Metadata) error {
	return d.seal(format.TypeDeleteMarker, hash, m, nil)
}

// Continue makes the record one of a chain, before it is sealed.
func (d *Draft) Continue(a *versions.Addition) { d.chain = a }

// sealCheckpoint completes a CHECKPOINT record that covers the log up to an LSN.
func (d *Draft) sealCheckpoint(covered uint64) error {
	data := d.Data()
	if len(data) > format.DataSizeMax {
		return fmt.Errorf("%w: checkpoint of %d bytes", format.ErrTooLarge, len(data))
	}
	table := format.AppendChunkTable(nil, data)
	d.head = format.Header{Type: format.TypeCheckpoint, Previous: covered, Size: uint64(len(data)), DataCRC: format.Checksum(table)}
	parts := d.head.Layout()
	d.head.Units = uint32(parts.Length / format.UnitSize)
	d.place(nil, table, int(parts.Length-parts.End))
	return nil
}

// sealPad completes a PAD record.
func (d *Draft) sealPad() {
	d.start = headroom - format.HeaderSize
	d.head = format.Header{Type: format.TypePad, Units: format.HeaderSize / format.UnitSize}
}

func (d *Draft) seal(kind format.Type, hash format.Hash, m *format.Metadata, table []byte) error {
	h := format.Header{Type: kind, Hash: hash, VersionID: m.VersionID, Timestamp: m.Timestamp}
	if kind == format.TypePut || kind == format.TypeSpill {
		h.Size = uint64(m.Size)
	}
	if m.Lock != nil {
		h.Flags = format.FlagLock
	}
	return d.complete(h, m.Msgsize(), table, func(b []byte) ([]byte, error) { return m.MarshalMsg(b) })
}

// importedHead is what a record of a peer has in its header that does not depend on the log.
func importedHead(h *format.Header) format.Header {
	return format.Header{
		Type: h.Type, Flags: h.Flags & format.FlagLock, Hash: h.Hash, VersionID: h.VersionID, Timestamp: h.Timestamp, Size: h.Size,
	}
}

// ImportedDraft returns a sealed draft of a record of a peer, of a name without versions
// on both sides: byte for byte as it is there, but for what depends on the log. p are the
// bytes of the record. They become those of the draft, until it has been freed. It is not
// for SPILL records.
func ImportedDraft(r *format.Record, p []byte) *Draft {
	h := importedHead(&r.Head)
	h.Versions = 1
	h.MetadataLength, h.MetadataCRC = r.Head.MetadataLength, r.Head.MetadataCRC
	h.DataCRC, h.Signature = r.Head.DataCRC, r.Head.Signature
	parts := h.Layout()
	h.Units = uint32(parts.Length / format.UnitSize)
	clear(p[parts.End:parts.Length]) // no checksum covers it
	d := &Draft{lent: buffers.Buffer{B: p[:parts.Length]}, head: h}
	d.buffer = &d.lent
	return d
}

// SealImported is ImportedDraft for a name with versions: it copies the record. The data
// must have been written.
func (d *Draft) SealImported(r *format.Record) error {
	return d.complete(importedHead(&r.Head), len(r.EncodedMetadata), r.Table, func(b []byte) ([]byte, error) { return append(b, r.EncodedMetadata...), nil })
}

// complete fills in what follows from the parts of a record. encode appends the
// metadata, of about so many bytes.
func (d *Draft) complete(h format.Header, size int, table []byte, encode func(b []byte) ([]byte, error)) error {
	buffer := buffers.Get(size + format.BlockSizeMax)
	defer buffer.Free()
	encoded := buffer.B[:0]
	if h.Versions = 1; d.chain != nil {
		encoded = d.chain.Continue(&h, encoded)
	}
	encoded, err := encode(encoded)
	if err != nil {
		return fmt.Errorf("%w: %w", format.ErrTooLarge, err)
	}
	h.MetadataLength, h.MetadataCRC = uint32(len(encoded))-h.BlockLength, format.Checksum(encoded)
	if h.MetadataLength > format.MetadataSizeMax {
		return fmt.Errorf("%w: %d bytes of metadata", format.ErrTooLarge, h.MetadataLength)
	}
	proved := table
	if h.Type == format.TypeSpill {
		proved = slices.Concat(d.Data(), table)
	}
	h.DataCRC = format.Checksum(proved)
	h.Signature = h.SignatureOf(encoded[h.BlockLength:])
	parts := h.Layout()
	if parts.Length > format.RecordSizeMax || uint64(len(table)) != 4*format.ChunkCount(h.Size) {
		return fmt.Errorf("%w: record of %d bytes", format.ErrTooLarge, parts.Length)
	}
	h.Units = uint32(parts.Length / format.UnitSize)
	d.head = h
	d.place(encoded, table, int(parts.Length-parts.End))
	return nil
}

// place puts version block and metadata before the data, table and padding behind it.
func (d *Draft) place(metadata, table []byte, padding int) {
	d.buffer.Grow(len(table) + padding + max(len(metadata)-(headroom-format.HeaderSize), 0))
	b := append(d.buffer.B, table...)
	var zeros [format.UnitSize]byte
	b = append(b, zeros[:padding]...)
	d.start = headroom - format.HeaderSize - len(metadata)
	if d.start < 0 { // more metadata than headroom: move the rest back
		b = append(b, metadata[:-d.start]...)
		copy(b[headroom-d.start:], b[headroom:])
		d.start = 0
	}
	copy(b[d.start+format.HeaderSize:], metadata)
	d.buffer.B = b
}

// stamp fills in what is known only when the record is appended.
func (d *Draft) stamp(lsn, durable uint64, salt, checkpoint uint32) {
	d.settle()
	d.head.LSN, d.head.Salt, d.head.Checkpoint = lsn, salt, checkpoint
	d.head.Distance = uint32(min(lsn-durable, 1<<32-1))
	d.head.Encode(d.buffer.B[d.start:])
}

// bytes is the record once stamped.
func (d *Draft) bytes() []byte { return d.buffer.B[d.start:] }

// Len is the size of the sealed record in bytes, with those that are to follow it.
func (d *Draft) Len() int64 { return d.length() + d.following }

// length is the size of the sealed record alone, in bytes.
func (d *Draft) length() int64 { return int64(d.head.Units) * format.UnitSize }

// Replaces says what Read or ReadHead found under the draft's name; nil is
// nothing. The name must be locked from there until the draft is published.
func (d *Draft) Replaces(old *Record) {
	switch {
	case old == nil:
	case old.LSN() == 0: // its header could not be read: whose it is is not known
		d.doubtful = old.slot
	default:
		d.old, d.oldUnits, d.before = old.slot, old.Head.Units, old.Head.Entry(0)
	}
}
