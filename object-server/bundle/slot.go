package bundle

import (
	"fmt"
	"math/bits"
)

// slot is what the index knows of a name: where its newest record may lie. Only
// the record's header proves that it is the name's.
//
//	63        40 39       30 29   23 22   21 20    0
//	unit 24     | segment 10 | class 7 | state 2 | tag 21
//
// The unit is the record's offset in its segment, the segment is the number of
// an open one, the class its length rounded up. The tag belongs to the index.
// Zero is no slot: a tag is never zero.
type slot uint64

// State of a slot.
const (
	slotLive      = iota // PUT
	slotTombstone        // DELETE
	slotSpill            // object in a large file
	slotVersioned        // head of a chain of versions
)

const (
	slotUnits    = 1 << 24 // units of a segment that a slot can tell apart
	slotSegments = 1 << 10 // segments of a bundle that may be open at once

	tagBits  = 20 // of the hash; the sentinel above them makes it 21
	tagMask  = 1<<(tagBits+1) - 1
	stateBit = tagBits + 1
	classBit = stateBit + 2
	placeBit = classBit + 7
)

// newSlot makes a slot without a tag. The record has the given length in units.
func newSlot(segment uint16, unit, units uint32, state uint8) slot {
	if segment >= slotSegments || unit >= slotUnits || state > slotVersioned {
		panic(fmt.Sprintf("no slot for segment %d, unit %d, state %d", segment, unit, state))
	}
	place := uint64(unit)<<10 | uint64(segment)
	return slot(place<<placeBit | uint64(classOf(units))<<classBit | uint64(state)<<stateBit)
}

// newEntrySlot makes a slot for a record that a filter knows by its entry's
// position in the footer of its segment, in the place of the unit. It poses as
// a tombstone of 28 MiB, which no record is. It is never in a packedIndex.
func newEntrySlot(segment uint16, position uint32) slot {
	return slot((uint64(position)<<10|uint64(segment))<<placeBit | entryMark)
}

const entryMark = classLonger<<classBit | slotTombstone<<stateBit

// isEntry tells whether newEntrySlot made the slot.
func (s slot) isEntry() bool { return s&(classLonger<<classBit|3<<stateBit) == entryMark }

func (s slot) unit() uint32    { return uint32(s >> (placeBit + 10)) }
func (s slot) segment() uint16 { return uint16(s>>placeBit) % slotSegments }
func (s slot) state() uint8    { return uint8(s>>stateBit) & 3 }

// units is the length of the record, rounded up by at most an eighth (and to 8
// units); 0 if it is longer than a class says: then read the header first.
func (s slot) units() uint32 { return classUnits(uint8(s>>classBit) & classLonger) }

// at is unit and segment: equal for two slots if they mean the same record.
func (s slot) at() uint64 {
	at := uint64(s >> placeBit)
	if s.isEntry() {
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
func fullTag(key uint64, level uint8) slot {
	return slot(key<<level>>(64-tagBits) | 1<<tagBits)
}

// matches tells whether the slot's tag agrees with the full one of a key. A tag
// made when the table had fewer groups knows fewer bits; only these compare.
func (s slot) matches(full slot) bool {
	tag := uint32(s) & tagMask
	return uint32(full)>>(tagBits+1-bits.Len32(tag)) == tag && tag != 0
}

// descend returns the slot as its group becomes two: the top bit of the tag says
// which of them is its own, and leaves the tag.
func (s slot) descend() (child int, below slot) {
	top := bits.Len32(uint32(s)&tagMask) - 2 // below the sentinel
	child = int(s>>top) & 1
	return child, s&^(3<<top) | 1<<top
}
