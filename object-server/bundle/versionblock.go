package bundle

import (
	"encoding/binary"
	"fmt"
)

// VersionID names a version of an object. The zero id is the null version: what
// a name without versioning has, and what it keeps beside the others afterwards.
type VersionID [16]byte

// IsNull tells whether id is that of the null version.
func (id VersionID) IsNull() bool { return id == VersionID{} }

// Sizes in a version block; on disk, never change.
const (
	chainHeaderSize = 96
	shallowSize     = 64
	listedMax       = 63
	blockSizeMax    = chainHeaderSize + listedMax*shallowSize
)

// Flags of a chain header; on disk, never change.
const (
	nullIsLive = 1 // the last write of the null version is no removal
	hasGap     = 2 // damage cut off a part of the chain; later records repeat it
	isCut      = 4 // the damage was to a record of the name itself; later records repeat it
)

// Version is the shallow header of a chain record: all that a listing needs.
//
//	0 version id 16 | ticks 8 | LSN 8 | size 8 | metadata length 4
//	44 type 1 | reserved 3 | signature 8 | offset 8
type Version struct {
	ID             VersionID
	Timestamp      Timestamp // of the data; of a removal, when it was asked for
	LSN            uint64
	Size           uint64 // bytes of the object
	MetadataLength uint32
	Type           Type
	Signature      uint64
}

func (v *Version) encode(b []byte) {
	le := binary.LittleEndian
	clear(b[:shallowSize])
	copy(b, v.ID[:])
	le.PutUint64(b[16:], v.Timestamp.Ticks)
	le.PutUint64(b[24:], v.LSN)
	le.PutUint64(b[32:], v.Size)
	le.PutUint32(b[40:], v.MetadataLength)
	b[44] = byte(v.Type)
	le.PutUint64(b[48:], v.Signature)
	le.PutUint64(b[56:], v.Timestamp.Offset)
}

func (v *Version) decode(b []byte) {
	le := binary.LittleEndian
	*v = Version{
		ID:             VersionID(b[:16]),
		Timestamp:      Timestamp{Ticks: le.Uint64(b[16:]), Offset: le.Uint64(b[56:])},
		LSN:            le.Uint64(b[24:]),
		Size:           le.Uint64(b[32:]),
		MetadataLength: le.Uint32(b[40:]),
		Type:           Type(b[44]),
		Signature:      le.Uint64(b[48:]),
	}
}

// block is what a chain record says of the records before it.
//
//	0 newest: LSN 8, ticks 8, offset 8, version id 16
//	40 null version: LSN 8, ticks 8, offset 8
//	64 next LSN 8 | bound: ticks 8, offset 8 | entries 4 | flags 4
//	96 shallow headers, 64 each, LSNs ascending
//
// An LSN of 0 with a timestamp is the record that holds the block: when it is
// made, its own LSN is not known.
type block struct {
	newest    Reference // the live version that a GET without id means; no timestamp: there is none
	null      Reference // the last write of the null version, removals included; no timestamp: there was none
	nullLives bool
	next      uint64    // the record just before those listed, to be read after this one; 0: there is none
	bound     Timestamp // no record from next on down has a later timestamp
	entries   uint32    // records of the chain with this one
	gap       bool      // there were more, of which nothing is known
	cut       bool      // the name is sure to have had more
	listed    []Version
}

// Reference points at a record of the chain.
type Reference struct {
	LSN       uint64
	Timestamp Timestamp
	ID        VersionID
}

func (x *block) size() int { return chainHeaderSize + len(x.listed)*shallowSize }

// append encodes the block behind b.
func (x *block) append(b []byte) []byte {
	start := len(b)
	b = append(b, make([]byte, x.size())...)
	p, le := b[start:], binary.LittleEndian
	le.PutUint64(p, x.newest.LSN)
	le.PutUint64(p[8:], x.newest.Timestamp.Ticks)
	le.PutUint64(p[16:], x.newest.Timestamp.Offset)
	copy(p[24:], x.newest.ID[:])
	le.PutUint64(p[40:], x.null.LSN)
	le.PutUint64(p[48:], x.null.Timestamp.Ticks)
	le.PutUint64(p[56:], x.null.Timestamp.Offset)
	le.PutUint64(p[64:], x.next)
	le.PutUint64(p[72:], x.bound.Ticks)
	le.PutUint64(p[80:], x.bound.Offset)
	le.PutUint32(p[88:], x.entries)
	var flags uint32
	if x.nullLives {
		flags |= nullIsLive
	}
	if x.gap {
		flags |= hasGap
	}
	if x.cut {
		flags |= isCut
	}
	le.PutUint32(p[92:], flags)
	for i := range x.listed {
		x.listed[i].encode(p[chainHeaderSize+i*shallowSize:])
	}
	return b
}

// checkBlockSize tells whether a block may have this length in bytes.
func checkBlockSize(n uint64) bool {
	return n >= chainHeaderSize && n <= blockSizeMax && (n-chainHeaderSize)%shallowSize == 0
}

// parseBlock decodes a block, which must fill b, and checks it against the LSN
// of the record that holds it: all that it refers to is older, so that walking
// a chain ends. Damage is errDamaged.
func parseBlock(b []byte, lsn uint64) (block, error) {
	if !checkBlockSize(uint64(len(b))) {
		return block{}, fmt.Errorf("%w: version block of %d bytes", errDamaged, len(b))
	}
	le := binary.LittleEndian
	x := block{
		newest: decodeNewest(b),
		null: Reference{
			LSN:       le.Uint64(b[40:]),
			Timestamp: Timestamp{Ticks: le.Uint64(b[48:]), Offset: le.Uint64(b[56:])},
		},
		next:      le.Uint64(b[64:]),
		bound:     Timestamp{Ticks: le.Uint64(b[72:]), Offset: le.Uint64(b[80:])},
		entries:   le.Uint32(b[88:]),
		nullLives: le.Uint32(b[92:])&nullIsLive != 0,
		gap:       le.Uint32(b[92:])&hasGap != 0,
		cut:       le.Uint32(b[92:])&isCut != 0,
		listed:    make([]Version, (len(b)-chainHeaderSize)/shallowSize),
	}
	last := x.next
	for i := range x.listed {
		v := &x.listed[i]
		v.decode(b[chainHeaderSize+i*shallowSize:])
		if v.LSN <= last {
			return block{}, fmt.Errorf("%w: LSNs of a version block do not ascend", errDamaged)
		}
		last = v.LSN
	}
	if max(last, x.newest.LSN, x.null.LSN) >= lsn || x.entries == 0 {
		return block{}, fmt.Errorf("%w: version block refers to later records", errDamaged)
	}
	return x, nil
}

// HasGap tells whether records of the name were lost before this one was written.
func (r *Record) HasGap() bool { return r.hasFlag(hasGap) }

func (r *Record) hasFlag(flag uint32) bool {
	return len(r.block) >= chainHeaderSize && binary.LittleEndian.Uint32(r.block[92:])&flag != 0
}

// decodeNewest reads the first field of an encoded block.
func decodeNewest(b []byte) Reference {
	le := binary.LittleEndian
	return Reference{
		LSN:       le.Uint64(b),
		Timestamp: Timestamp{Ticks: le.Uint64(b[8:]), Offset: le.Uint64(b[16:])},
		ID:        VersionID(b[24:40]),
	}
}
