package format

import (
	"encoding/binary"
	"fmt"

	"github.com/tinylib/msgp/msgp"
)

// Record is a record read back. Its parts point into the bytes it was parsed
// from.
type Record struct {
	Head            Header
	Block           []byte // encoded version block
	EncodedMetadata []byte // encoded; see Metadata
	Data            []byte // of a PUT: the object, not yet checked; see CheckChunk. Of a CHECKPOINT: what it says
	Table           []byte // chunk table, checked
	LargeID         uint64 // of a SPILL
}

// ParseRecord reads the record at the start of b and checks everything but the
// object's bytes. Damage is an ErrDamaged.
func ParseRecord(b []byte) (*Record, error) {
	r := new(Record)
	if err := r.Parse(b); err != nil {
		return nil, err
	}
	return r, nil
}

// Parse is ParseRecord into r, which must be zero. After an error it has parts that may be damaged.
func (r *Record) Parse(b []byte) error {
	h, err := ParseHeader(b)
	if err != nil {
		return err
	}
	parts := h.Layout()
	if uint64(len(b)) < parts.Length {
		return fmt.Errorf("%w: record is cut off", ErrDamaged)
	}
	r.Head, r.Table = h, b[parts.Table:parts.End]
	if err := r.ParseMetadata(b); err != nil {
		return err
	}
	proved := r.Table
	switch {
	case h.HoldsData():
		r.Data = b[parts.Data:parts.Table]
	case h.Type == TypeSpill:
		proved = b[parts.Data:parts.End]
		r.LargeID = binary.LittleEndian.Uint64(proved)
	}
	if Checksum(proved) != h.DataCRC {
		return fmt.Errorf("%w: chunk table", ErrDamaged)
	}
	return nil
}

// ParsePart parses a record, or its header and metadata alone, and tells how
// many bytes that takes; of fewer, it parses the header alone. If only the header is
// good the record has that, with an ErrDamaged; without a header it stays empty.
func (r *Record) ParsePart(p []byte, headOnly bool) (need int, err error) {
	h, err := ParseHeader(p)
	if err != nil {
		return 0, err
	}
	parts := h.Layout()
	need = int(parts.Length)
	if headOnly {
		need = int(parts.Data)
	}
	r.Head = h
	switch {
	case len(p) < need:
		return need, nil
	case headOnly:
		return need, r.ParseMetadata(p)
	}
	if err = r.Parse(p); err != nil {
		*r = Record{Head: h}
	}
	return need, err
}

// ParseMetadata finds version block and metadata in the record's bytes.
func (r *Record) ParseMetadata(b []byte) error {
	parts := r.Head.Layout()
	if Checksum(b[HeaderSize:parts.Data]) != r.Head.MetadataCRC {
		return fmt.Errorf("%w: metadata", ErrDamaged)
	}
	r.Block, r.EncodedMetadata = b[HeaderSize:parts.Metadata], b[parts.Metadata:parts.Data]
	return nil
}

// CheckStructure tells whether metadata and version block, whose checksum holds,
// can be read at all.
func (r *Record) CheckStructure() error {
	if len(r.Block) > 0 {
		if _, err := ParseBlock(r.Block, r.Head.LSN); err != nil {
			return err
		}
	}
	if len(r.EncodedMetadata) == 0 {
		return nil
	}
	if _, err := msgp.Skip(r.EncodedMetadata); err != nil {
		return fmt.Errorf("%w: metadata: %w", ErrDamaged, err)
	}
	return nil
}

// LSN is the record's number in the log; 0 if its header is damaged.
func (r *Record) LSN() uint64 { return r.Head.LSN }

// Hash is that of the name; zero for records without one.
func (r *Record) Hash() Hash { return r.Head.Hash }

// Timestamp is that of the data; zero if the header is damaged.
func (r *Record) Timestamp() Timestamp { return r.Head.Timestamp }

// Live tells whether the record is an object, not a tombstone.
func (r *Record) Live() bool { return r.Head.Type == TypePut || r.Head.Type == TypeSpill }

// Versioned tells whether the name has or had other versions than this.
func (r *Record) Versioned() bool { return r.Head.Flags&FlagVersions != 0 }

// VersionID is zero for the null version.
func (r *Record) VersionID() VersionID { return r.Head.VersionID }

// Reference refers to the record as a version of its name.
func (r *Record) Reference() Reference {
	return Reference{LSN: r.Head.LSN, Timestamp: r.Head.Timestamp, ID: r.Head.VersionID}
}

// Type tells what the record is.
func (r *Record) Type() Type { return r.Head.Type }

// Signature is equal on all replicas that hold the same version with the same
// metadata.
func (r *Record) Signature() uint64 { return r.Head.Signature }

// Size is the size of the object in bytes, wherever they lie.
func (r *Record) Size() int64 { return int64(r.Head.Size) }

// Metadata decodes the metadata.
func (r *Record) Metadata() (*Metadata, error) {
	m, err := DecodeMetadata(r.EncodedMetadata)
	if err == nil {
		m.VersionID, m.Versioned = r.Head.VersionID, r.Versioned()
	}
	return m, err
}

// DecodeMetadata decodes metadata that stand at the start of b. Damage is an ErrDamaged.
func DecodeMetadata(b []byte) (*Metadata, error) {
	m := new(Metadata)
	if _, err := m.UnmarshalMsg(b); err != nil {
		return nil, fmt.Errorf("%w: metadata: %w", ErrDamaged, err)
	}
	return m, nil
}

// CheckChunk compares a whole chunk of the object with the chunk table.
func (r *Record) CheckChunk(index int, chunk []byte) error {
	if Checksum(chunk) != binary.LittleEndian.Uint32(r.Table[4*index:]) {
		return fmt.Errorf("%w: chunk %d", ErrDamaged, index)
	}
	return nil
}

// CheckData compares all data in the record with the chunk table.
func (r *Record) CheckData() error {
	for i := 0; i*ChunkSize < len(r.Data); i++ {
		if err := r.CheckChunk(i, r.Data[i*ChunkSize:min((i+1)*ChunkSize, len(r.Data))]); err != nil {
			return err
		}
	}
	return nil
}
