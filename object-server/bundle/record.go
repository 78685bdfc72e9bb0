package bundle

import (
	"encoding/binary"
	"fmt"
)

// Record is a record read back. Its parts point into the bytes it was parsed
// from.
type Record struct {
	head     header
	slot     slot   // where it lies; 0 if it was not found through an index
	doubtful bool   // good, but what was written later may be lost; see Doubtful
	chained  bool   // the header is damaged, and the name has, or may have, versions
	block    []byte // encoded version block
	metadata []byte
	Data     []byte // of a PUT: the object, not yet checked; see CheckChunk. Of a CHECKPOINT: what it says
	Table    []byte // chunk table, checked
	LargeID  uint64 // of a SPILL
}

// parseRecord reads the record at the start of b and checks everything but the
// object's bytes. Damage is an errDamaged.
func parseRecord(b []byte) (*Record, error) {
	h, err := parseHeader(b)
	if err != nil {
		return nil, err
	}
	parts := h.layout()
	if uint64(len(b)) < parts.length {
		return nil, fmt.Errorf("%w: record is cut off", errDamaged)
	}
	r := &Record{head: h, Table: b[parts.table:parts.end]}
	if err := r.parseMetadata(b); err != nil {
		return nil, err
	}
	proved := r.Table
	switch {
	case h.holdsData():
		r.Data = b[parts.data:parts.table]
	case h.Type == TypeSpill:
		proved = b[parts.data:parts.end]
		r.LargeID = binary.LittleEndian.Uint64(proved)
	}
	if checksum(proved) != h.DataCRC {
		return nil, fmt.Errorf("%w: chunk table", errDamaged)
	}
	return r, nil
}

// parseMetadata finds version block and metadata in the record's bytes.
func (r *Record) parseMetadata(b []byte) error {
	parts := r.head.layout()
	if checksum(b[headerSize:parts.data]) != r.head.MetadataCRC {
		return fmt.Errorf("%w: metadata", errDamaged)
	}
	r.block, r.metadata = b[headerSize:parts.metadata], b[parts.metadata:parts.data]
	return nil
}

// bare is the record without what points into a buffer.
func (r *Record) bare() *Record {
	return &Record{head: r.head, slot: r.slot, doubtful: r.doubtful, chained: r.chained}
}

// Doubtful tells whether records were lost that were written later than this one:
// one of them may have replaced or deleted it. Else it is the newest of its name.
func (r *Record) Doubtful() bool { return r.doubtful }

// MarkDoubtful is for a version that was found through a record or chain that is.
func (r *Record) MarkDoubtful() { r.doubtful = true }

// LSN is the record's number in the log; 0 if its header is damaged.
func (r *Record) LSN() uint64 { return r.head.LSN }

// Timestamp is that of the data; zero if the header is damaged.
func (r *Record) Timestamp() Timestamp { return r.head.Timestamp }

// Live tells whether the record is an object, not a tombstone.
func (r *Record) Live() bool { return r.head.Type == TypePut || r.head.Type == TypeSpill }

// Versioned tells whether the name has or had other versions than this, or may
// have where that cannot be told.
func (r *Record) Versioned() bool { return r.head.Flags&flagVersions != 0 || r.chained }

// IsHead tells whether the record was found as the newest of its name, not as a
// version.
func (r *Record) IsHead() bool { return r.slot != 0 }

// VersionID is zero for the null version.
func (r *Record) VersionID() VersionID { return r.head.VersionID }

// Reference refers to the record as a version of its name.
func (r *Record) Reference() Reference {
	return Reference{LSN: r.head.LSN, Timestamp: r.head.Timestamp, ID: r.head.VersionID}
}

// Type tells what the record is.
func (r *Record) Type() Type { return r.head.Type }

// Signature is equal on all replicas that hold the same version with the same
// metadata.
func (r *Record) Signature() uint64 { return r.head.Signature }

// Size is the size of the object in bytes, wherever they lie.
func (r *Record) Size() int64 { return int64(r.head.Size) }

// Metadata decodes the metadata.
func (r *Record) Metadata() (*Metadata, error) {
	m, err := decodeMetadata(r.metadata)
	if err == nil {
		m.VersionID, m.Versioned, m.Doubtful = r.head.VersionID, r.Versioned(), r.doubtful
	}
	return m, err
}

func decodeMetadata(b []byte) (*Metadata, error) {
	m := new(Metadata)
	if _, err := m.UnmarshalMsg(b); err != nil {
		return nil, fmt.Errorf("%w: metadata: %w", errDamaged, err)
	}
	return m, nil
}

// CheckChunk compares a whole chunk of the object with the chunk table.
func (r *Record) CheckChunk(index int, chunk []byte) error {
	if checksum(chunk) != binary.LittleEndian.Uint32(r.Table[4*index:]) {
		return fmt.Errorf("%w: chunk %d", errDamaged, index)
	}
	return nil
}

// checkData compares all data in the record with the chunk table.
func (r *Record) checkData() error {
	for i := 0; i*ChunkSize < len(r.Data); i++ {
		if err := r.CheckChunk(i, r.Data[i*ChunkSize:min((i+1)*ChunkSize, len(r.Data))]); err != nil {
			return err
		}
	}
	return nil
}
