package index

import (
	"fmt"
	"math/bits"

	"martlet/object-server/bundle/format"
)

// Slot is what the index knows of a name: where its newest record may lie. Only
// the record's header proves that it is the name's.
//
//	63        40 39       30 29   23 22   21 20    0
//	unit 24     | segment 10 | class 7 | state 2 | tag 21
//
// The unit is the record's offset in its segment, the segment is the number of
// an open one, the class its length rounded up. The tag belongs to the index.
// Zero is no slot: a tag is never zero.
type Slot uint64

// State of a slot.
const (
	slotLive      = iota // PUT
	slotTombstone        // DELETE
	slotSpill            // object in a large file
	slotVersioned        // head of a chain of versions
)

const (
	UnitsMax    = 1 << 24 // units of a segment that a slot can tell apart
	SegmentsMax = 1 << 10 // segments of a bundle that may be open at once

	tagBits  = 20 // of the hash; the sentinel above them makes it 21
	tagMask  = 1<<(tagBits+1) - 1
	stateBit = tagBits + 1
	classBit = stateBit + 2
	placeBit = classBit + 7
)

// makeSlot makes a slot without a tag. The record has the given length in units.
func makeSlot(segment uint16, unit, units uint32, state uint8) Slot {
	if segment >= SegmentsMax || unit >= UnitsMax || state > slotVersioned {
		panic(fmt.Sprintf("no slot for segment %d, unit %d, state %d", segment, unit, state))
	}
	place := uint64(unit)<<10 | uint64(segment)
	return Slot(place<<placeBit | uint64(classOf(units))<<classBit | uint64(state)<<stateBit)
}

// NewSlot makes the slot for a record of a segment, without a tag.
func NewSlot(segment uint16, e *format.Entry) Slot {
	return makeSlot(segment, e.Unit, e.Units, stateOf(e))
}

// stateOf is the state of a record in the index.
func stateOf(e *format.Entry) uint8 {
	switch {
	case e.IsChained():
		return slotVersioned
	case e.Type == format.TypeTombstone:
		return slotTombstone
	case e.Type == format.TypeSpill:
		return slotSpill
	}
	return slotLive
}

// NewEntrySlot makes a slot for a record that a filter knows by its entry's
// position in the footer of its segment, in the place of the unit. It poses as
// a tombstone of 28 MiB, which no record is. It is never in an Index.
func NewEntrySlot(segment uint16, position uint32) Slot {
	return Slot((uint64(position)<<10|uint64(segment))<<placeBit | entryMark)
}

const entryMark = classLonger<<classBit | slotTombstone<<stateBit

// IsEntry tells whether NewEntrySlot made the slot.
func (s Slot) IsEntry() bool { return s&(classLonger<<classBit|3<<stateBit) == entryMark }

// IsChained tells whether the record is the head of a chain of versions.
func (s Slot) IsChained() bool { return s.state() == slotVersioned }

// Unit is the offset of the record in its segment; of an entry, its position.
func (s Slot) Unit() uint32 { return uint32(s >> (placeBit + 10)) }

// Segment is the number of the segment.
func (s Slot) Segment() uint16 { return uint16(s>>placeBit) % SegmentsMax }
func (s Slot) state() uint8    { return uint8(s>>stateBit) & 3 }

// Units is the length of the record, rounded up by at most an eighth (and to 8
// units); 0 if it is longer than a class says: then read the header first.
func (s Slot) Units() uint32 { return classUnits(uint8(s>>classBit) & classLonger) }

// At is unit and segment: equal for two slots if they mean the same record.
func (s Slot) At() uint64 {
	at := uint64(s >> placeBit)
	if s.IsEntry() {
		at |= 1 << (64 - placeBit)
	}
	return at
}

// Length classes: class 8*e+m stands for (8+m)<<e units.
const (
	classLonger   = 127      // longer than any other class
	classUnitsMax = 14 << 15 // of class 126: 28 MiB
)

// classOf is the smallest class that holds as many units.
func classOf(units uint32) uint8 {
	if units <= 8 {
		return 0
	}
	if units > classUnitsMax {
		return classLonger
	}
	e := bits.Len32(units-1) - 4
	return uint8(uint32(8*e) + (units-1)>>e - 7)
}

// classUnits is the longest record of a class; 0 for classLonger.
func classUnits(class uint8) uint32 {
	if class >= classLonger {
		return 0
	}
	return (8 + uint32(class)%8) << (class / 8)
}

// fullTag is the tag of a key in a table of 2^level groups: the bits of the key
// below those that choose the group, and the sentinel above them.
func fullTag(key uint64, level uint8) Slot {
	return Slot(key<<level>>(64-tagBits) | 1<<tagBits)
}

// matches tells whether the slot's tag agrees with the full one of a key. A tag
// made when the table had fewer groups knows fewer bits; only these compare.
func (s Slot) matches(full Slot) bool {
	tag := uint32(s) & tagMask
	return uint32(full)>>(tagBits+1-bits.Len32(tag)) == tag && tag != 0
}

// descend returns the slot as its group becomes two: the top bit of the tag says
// which of them is its own, and leaves the tag.
func (s Slot) descend() (child int, below Slot) {
	top := bits.Len32(uint32(s)&tagMask) - 2 // below the sentinel
	child = int(s>>top) & 1
	return child, s&^(3<<top) | 1<<top
}
