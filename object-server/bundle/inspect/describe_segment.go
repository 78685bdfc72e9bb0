package inspect

import (
	"encoding/hex"
	"fmt"

	"martlet/object-server/bundle/format"
)

// SegmentDescription is what the header and the footer of a segment say.
type SegmentDescription struct {
	File       string       `json:"file"`
	Bytes      int64        `json:"bytes"`
	Header     *HeaderState `json:"header"` // null: damaged
	Salt       string       `json:"salt"`
	BaseLSN    uint64       `json:"base_lsn"`
	LastLSN    uint64       `json:"last_lsn,omitempty"` // as the footer says
	Sealed     bool         `json:"sealed"`
	Records    uint32       `json:"records,omitempty"`     // that the footer lists
	FooterSize int64        `json:"footer_size,omitempty"` // bytes
}

// HeaderState is a good segment header.
type HeaderState struct {
	Policy     uint32 `json:"policy"`
	Partition  uint32 `json:"partition"`
	Sequence   uint32 `json:"sequence"`
	Through    uint32 `json:"through"`
	Generation uint32 `json:"generation"`
	UUID       string `json:"uuid"`
	Bundle     string `json:"bundle"` // identity of the bundle
	Created    string `json:"created"`
}

// Segment tells what the segment is.
func (s *Scan) Segment() *SegmentDescription {
	f := &s.segment
	d := &SegmentDescription{
		File: s.name, Bytes: f.Size, Salt: fmt.Sprintf("%08x", f.Salt), BaseLSN: f.Base, Sealed: f.Seal != nil,
	}
	if h := s.head; h != nil {
		d.Header = &HeaderState{
			Policy: h.Policy, Partition: h.Partition, Sequence: h.Sequence, Through: max(h.Sequence, h.Through),
			Generation: h.Generation, UUID: hex.EncodeToString(h.UUID[:]), Bundle: hex.EncodeToString(h.Bundle[:]), Created: format.Timestamp{Ticks: h.Created}.String(),
		}
	}
	if f.Seal != nil {
		d.LastLSN, d.Records, d.FooterSize = f.Seal.Last, f.Seal.Count, int64(f.Seal.Units)*format.UnitSize
	}
	return d
}

// Chained is what a version block says: doc/formats/versions.md. An LSN of 0 with
// a timestamp is the record itself.
type Chained struct {
	Newest  ChainedReference `json:"newest"`
	Null    ChainedReference `json:"null"`
	Lives   bool             `json:"null_lives"`
	Next    uint64           `json:"next"` // LSN of the record to be read after this one; 0: none
	Bound   string           `json:"bound"`
	Entries uint32           `json:"entries"` // records of the chain with this one
	Gap     bool             `json:"gap"`     // damage cut off older ones
	Listed  []ChainedVersion `json:"listed"`
}

// ChainedReference points at a record of the chain.
type ChainedReference struct {
	LSN       uint64 `json:"lsn"`
	Timestamp string `json:"timestamp"`
	VersionID string `json:"version_id"`
}

// ChainedVersion is the shallow header of an older record.
type ChainedVersion struct {
	ChainedReference
	Type string `json:"type"`
	Size uint64 `json:"size"`
}

func describeBlock(x *format.Block) *Chained {
	c := &Chained{
		Newest: describeReference(x.Newest), Null: describeReference(x.Null), Lives: x.NullLives, Next: x.Next,
		Bound: x.Bound.String(), Entries: x.Entries, Gap: x.Gap, Listed: make([]ChainedVersion, 0, len(x.Listed)),
	}
	for i := range x.Listed {
		v := &x.Listed[i]
		c.Listed = append(c.Listed, ChainedVersion{
			describeReference(format.Reference{LSN: v.LSN, Timestamp: v.Timestamp, ID: v.ID}), v.Type.String(), v.Size,
		})
	}
	return c
}

func describeReference(r format.Reference) ChainedReference {
	return ChainedReference{r.LSN, r.Timestamp.String(), hex.EncodeToString(r.ID[:])}
}
