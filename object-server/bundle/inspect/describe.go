package inspect

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"martlet/object-server/bundle/format"
	"martlet/object-server/bundle/segment"
	"martlet/object-server/vfs"
)

// Description is all that a record says, and whether its checksums hold.
type Description struct {
	Offset         int64    `json:"offset"`
	Length         int64    `json:"length"`
	Type           string   `json:"type"`
	Flags          uint16   `json:"flags"`
	LSN            uint64   `json:"lsn"`
	Salt           string   `json:"salt"`
	Hash           string   `json:"hash"`
	VersionID      string   `json:"version_id"`
	Timestamp      string   `json:"timestamp"`
	Previous       uint64   `json:"previous"`
	Versions       uint32   `json:"versions"`
	Size           uint64   `json:"size"`
	MetadataLength uint32   `json:"metadata_length"`
	Watermark      uint64   `json:"watermark"`
	Signature      string   `json:"signature"`
	Checkpoint     int64    `json:"checkpoint"` // offset of the CHECKPOINT before it; 0: none
	LargeID        string   `json:"large_id,omitempty"`
	Metadata       *Shown   `json:"metadata,omitempty"`
	Chain          *Chained `json:"chain,omitempty"` // what the version block says
	Checks         []Check  `json:"checks"`

	Data []byte `json:"-"` // of a PUT
}

// Shown is the metadata of a record.
type Shown struct {
	Name          string            `json:"name"`
	ContentType   string            `json:"content_type"`
	ETag          string            `json:"etag"`
	Size          int64             `json:"size"`
	DeleteAt      int64             `json:"delete_at"`
	Timestamp     string            `json:"timestamp"`
	MetaTimestamp string            `json:"meta_timestamp"`
	TypeTimestamp string            `json:"type_timestamp"`
	System        map[string]string `json:"system"` // headers that survive a POST
	User          map[string]string `json:"user"`
	Lock          *Lock             `json:"lock,omitempty"`
}

// Lock is the lock of a version, or how a removal was asked for.
type Lock struct {
	Compliance string `json:"compliance"`
	Governance string `json:"governance"`
	Governed   string `json:"governance_set"`
	Hold       bool   `json:"hold"`
	Held       string `json:"hold_set"`
	Bypass     bool   `json:"bypass"`
}

func showLock(l *format.Lock) *Lock {
	if l == nil {
		return nil
	}
	at := func(ticks uint64) string { return format.Timestamp{Ticks: ticks}.Normal() }
	return &Lock{at(l.Compliance), at(l.Governance), l.Governed.String(), l.Hold, l.Held.String(), l.Bypass}
}

func show(m *format.Metadata) *Shown {
	return &Shown{
		Name: m.Name, ContentType: m.ContentType, ETag: m.ETag, Size: m.Size, DeleteAt: m.DeleteAt,
		Timestamp: m.Timestamp.String(), MetaTimestamp: m.MetaTimestamp.String(), TypeTimestamp: m.TypeTimestamp.String(),
		System: m.System, User: m.User, Lock: showLock(m.Lock),
	}
}

// Check is one checksum of a record.
type Check struct {
	What string `json:"what"`
	Good bool   `json:"good"`
}

// Good tells whether all checksums hold.
func (d *Description) Good() bool {
	for _, c := range d.Checks {
		if !c.Good {
			return false
		}
	}
	return true
}

// Describe reads the record at an offset of a segment file. It is an error if
// there is no good header.
func Describe(files vfs.FS, path string, offset int64) (*Description, error) {
	file, err := files.Open(path)
	if err != nil {
		return nil, fmt.Errorf("bundle: %w", err)
	}
	defer file.Close()
	var head [format.HeaderSize]byte
	if err := segment.ReadFull(file, head[:], offset); err != nil {
		return nil, fmt.Errorf("bundle: offset %d of %s: %w", offset, filepath.Base(path), err)
	}
	h, err := format.ParseHeader(head[:])
	if err != nil {
		return nil, fmt.Errorf("bundle: offset %d of %s: %w", offset, filepath.Base(path), err)
	}
	d := describe(&h, offset)
	b := make([]byte, d.Length)
	if h.Type == format.TypeSeal { // its header is its end
		return d, nil
	}
	if err := segment.ReadFull(file, b, offset); err != nil {
		return nil, fmt.Errorf("bundle: record at offset %d of %s: %w", offset, filepath.Base(path), err)
	}
	d.look(&h, b)
	return d, nil
}

// Describe tells all of a record that Next returned last. The data are valid
// until the next call of Next.
func (s *Scan) Describe(e *Entry) (*Description, error) {
	d := describe(&e.Record.Head, e.Offset)
	b, err := s.bytes(e)
	if err != nil {
		return nil, err
	}
	d.look(&e.Record.Head, b)
	return d, nil
}

func describe(h *format.Header, offset int64) *Description {
	return &Description{
		Offset: offset, Length: int64(h.Units) * format.UnitSize, Type: h.Type.String(), Flags: h.Flags, LSN: h.LSN, Salt: fmt.Sprintf("%08x", h.Salt),
		Hash: h.Hash.String(), VersionID: hex.EncodeToString(h.VersionID[:]), Timestamp: h.Timestamp.String(),
		Previous: h.Previous, Versions: h.Versions, Size: h.Size, MetadataLength: h.MetadataLength,
		Watermark: h.Watermark(), Signature: fmt.Sprintf("%016x", h.Signature), Checkpoint: int64(h.Checkpoint) * format.UnitSize,
		Checks: []Check{{"header", true}},
	}
}

// look reads and checks what is behind the header, in the record's bytes.
func (d *Description) look(h *format.Header, b []byte) {
	parts := h.Layout()
	check := func(what string, good bool) { d.Checks = append(d.Checks, Check{what, good}) }
	check("metadata", format.Checksum(b[format.HeaderSize:parts.Data]) == h.MetadataCRC || h.Type == format.TypePad)
	if m, err := format.DecodeMetadata(b[parts.Metadata:parts.Data]); err == nil {
		d.Metadata = show(m)
	}
	if h.Flags&format.FlagBlock != 0 {
		x, err := format.ParseBlock(b[format.HeaderSize:parts.Metadata], h.LSN)
		check("version block", err == nil)
		if err == nil {
			d.Chain = describeBlock(&x)
		}
	}
	r := format.Record{Head: *h, Table: b[parts.Table:parts.End]}
	switch {
	case h.Type == format.TypeSpill:
		check("descriptor and chunk table", format.Checksum(b[parts.Data:parts.End]) == h.DataCRC)
		d.LargeID = fmt.Sprintf("%016x", binary.LittleEndian.Uint64(b[parts.Data:]))
	case h.HoldsData():
		check("chunk table", format.Checksum(r.Table) == h.DataCRC)
		r.Data, d.Data = b[parts.Data:parts.Table], b[parts.Data:parts.Table]
		check("data", r.CheckData() == nil)
	}
}

// Search finds the offset of the last record in a segment file that fits; false if
// there is none.
func Search(files vfs.FS, path string, fits func(*Entry) bool) (offset int64, found bool, err error) {
	s, err := OpenScan(files, path, false)
	if err != nil {
		return 0, false, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	for {
		e, err := s.Next()
		if err == io.EOF {
			return offset, found, nil
		}
		if err != nil {
			return 0, false, err
		}
		if e.Record != nil && fits(e) {
			offset, found = e.Offset, true
		}
	}
}
