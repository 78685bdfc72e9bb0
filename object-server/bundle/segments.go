package bundle

import (
	"fmt"
	"sync/atomic"

	"martlet/object-server/bundle/format"
	"martlet/object-server/bundle/index"
	"martlet/object-server/bundle/segment"
	"martlet/object-server/vfs"
)

// openSegment is one file of the log. What the index points at in it is found by its
// number, which it keeps while it is open; another segment may have it later.
type openSegment struct {
	number     uint16
	sequence   uint32
	through    uint32 // last sequence that it stands for: more than sequence once neighbours were merged
	generation uint32
	salt       uint32
	base       uint64                          // LSN of the first record
	last       uint64                          // LSN of the last one
	tail       int64                           // end of the durable records, in bytes
	units      int64                           // in records with a name, dead or alive
	live       int64                           // in records that the index points at
	sealed     bool                            // has a footer
	damaged    bool                            // records are lost: must be read from end to end when opened
	checkpoint uint32                          // unit of the last CHECKPOINT; 0 if none
	resume     uint32                          // unit of the first record that no CHECKPOINT covers
	covered    uint64                          // last LSN before it
	records    int                             // behind resume, about
	samples    []format.Sample                 // of a segment without footer
	loaded     atomic.Pointer[[]format.Sample] // of one with a footer, once they were needed
	unfit      bool                            // compaction met damage in it: it stays as it is
	run        int64                           // offset of the footer's run, once it has one
	filter     *index.Filter                   // of the footer's run, where the index is on disk; nil: the records are in the index
	isFiling   bool                            // records are being moved from the index to the filter
	named      int                             // records with a name, dead or alive
	hidden     bool                            // is being made by compaction, or was replaced by it
	inherited  bool                            // made before the partition was split off: its sibling may share the file, so neither changes it
	horizon    uint64                          // of its footer: tombstones from before may have been reclaimed, ticks
	foreign    uint32                          // entries of the footer's run before the first of this partition
	pins       atomic.Int32                    // readers
	partial    []byte                          // where writes are direct: what the last block holds, if known
	reserved   int64                           // room up to here is reserved, as far as known
	life       *life                           // of a recycled one that grows, or has no footer yet; else nil
	closed     uint64                          // ticks: no record was appended later; 0 if not known, or it grows
}

func (s *openSegment) key(id ID) fileKey { return fileKey{id, s.sequence, s.generation} }

// origin is what its records have in common.
func (s *openSegment) origin() segment.Origin {
	return segment.Origin{Sequence: s.sequence, Generation: s.generation, Salt: s.salt, Base: s.base}
}

// segments finds the open segments of a bundle by their number. The zero value
// is empty. It is guarded by Bundle.mu.
type segments struct{ table []*openSegment }

// errSegments: a bundle has as many segments as the index can tell apart. It is
// full; that says nothing about the device.
var errSegments = fmt.Errorf("bundle: more than %d segments: %w", index.SegmentsMax, vfs.ErrNoSpace)

// add gives the segment a number. The last one is kept for compaction, which
// makes one of many.
func (t *segments) add(s *openSegment, isLast bool) error {
	most := index.SegmentsMax - 1
	if isLast {
		most = index.SegmentsMax
	}
	for n, other := range t.table[:min(len(t.table), most)] {
		if other == nil {
			s.number, t.table[n] = uint16(n), s
			return nil
		}
	}
	if len(t.table) >= most {
		return errSegments
	}
	s.number = uint16(len(t.table))
	t.table = append(t.table, s)
	return nil
}

func (t *segments) remove(s *openSegment) { t.table[s.number] = nil }

// pin keeps the segment's file until unpin.
func (t *segments) pin(number uint16) *openSegment {
	s := t.table[number]
	s.pins.Add(1)
	return s
}

func (s *openSegment) unpin() { s.pins.Add(-1) }

// withLSN is the segment that a record with that LSN lies in, if it is there at
// all; nil if none.
func (t *segments) withLSN(lsn uint64) *openSegment {
	for _, s := range t.table {
		if s != nil && !s.hidden && s.base <= lsn && lsn <= s.last {
			return s
		}
	}
	return nil
}

// slotOf is the slot for a record of the segment.
func (s *openSegment) slotOf(e *format.Entry) index.Slot {
	return index.NewSlot(s.number, e)
}
