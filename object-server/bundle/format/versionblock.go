package format

import (
	"bytes"
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
	ListedMax       = 63
	BlockSizeMax    = chainHeaderSize + ListedMax*shallowSize
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

// Compare orders versions by age, then id.
func (v *Version) Compare(t Timestamp, id VersionID) int {
	if c := v.Timestamp.Compare(t); c != 0 {
		return c
	}
	return bytes.Compare(v.ID[:], id[:])
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

// Block is what a chain record says of the records before it.
//
//	0 newest: LSN 8, ticks 8, offset 8, version id 16
//	40 null version: LSN 8, ticks 8, offset 8
//	64 next LSN 8 | bound: ticks 8, offset 8 | entries 4 | flags 4
//	96 shallow headers, 64 each, LSNs ascending
//
// An LSN of 0 with a timestamp is the record that holds the block: when it is
// made, its own LSN is not known.
type Block struct {
	Newest    Reference // the live version that a GET without id means; no timestamp: there is none
	Null      Reference // the last write of the null version, removals included; no timestamp: there was none
	NullLives bool
	Next      uint64    // the record just before those listed, to be read after this one; 0: there is none
	Bound     Timestamp // no record from next on down has a later timestamp
	Entries   uint32    // records of the chain with this one
	Gap       bool      // there were more, of which nothing is known
	Cut       bool      // the name is sure to have had more
	Listed    []Version
}

// Reference points at a record of the chain.
type Reference struct {
	LSN       uint64
	Timestamp Timestamp
	ID        VersionID
}

// size is the length of the encoded block in bytes.
func (x *Block) size() int { return chainHeaderSize + len(x.Listed)*shallowSize }

// Append encodes the block behind b.
func (x *Block) Append(b []byte) []byte {
	start := len(b)
	b = append(b, make([]byte, x.size())...)
	p, le := b[start:], binary.LittleEndian
	le.PutUint64(p, x.Newest.LSN)
	le.PutUint64(p[8:], x.Newest.Timestamp.Ticks)
	le.PutUint64(p[16:], x.Newest.Timestamp.Offset)
	copy(p[24:], x.Newest.ID[:])
	le.PutUint64(p[40:], x.Null.LSN)
	le.PutUint64(p[48:], x.Null.Timestamp.Ticks)
	le.PutUint64(p[56:], x.Null.Timestamp.Offset)
	le.PutUint64(p[64:], x.Next)
	le.PutUint64(p[72:], x.Bound.Ticks)
	le.PutUint64(p[80:], x.Bound.Offset)
	le.PutUint32(p[88:], x.Entries)
	var flags uint32
	if x.NullLives {
		flags |= nullIsLive
	}
	if x.Gap {
		flags |= hasGap
	}
	if x.Cut {
		flags |= isCut
	}
	le.PutUint32(p[92:], flags)
	for i := range x.Listed {
		x.Listed[i].encode(p[chainHeaderSize+i*shallowSize:])
	}
	return b
}

// Renumber changes the LSNs of the records that an encoded block refers to.
func Renumber(b []byte, actual func(lsn uint64) uint64) {
	le := binary.LittleEndian
	fields := []int{0, 40, 64} // newest, null, next
	for at := chainHeaderSize + 24; at < len(b); at += shallowSize {
		fields = append(fields, at)
	}
	for _, at := range fields {
		le.PutUint64(b[at:], actual(le.Uint64(b[at:])))
	}
}

// checkBlockSize tells whether a block may have this length in bytes.
func checkBlockSize(n uint64) bool {
	return n >= chainHeaderSize && n <= BlockSizeMax && (n-chainHeaderSize)%shallowSize == 0
}

// ParseBlock decodes a block, which must fill b, and checks it against the LSN
// of the record that holds it: all that it refers to is older, so that walking
// a chain ends. Damage is ErrDamaged.
func ParseBlock(b []byte, lsn uint64) (Block, error) {
	if !checkBlockSize(uint64(len(b))) {
		return Block{}, fmt.Errorf("%w: version block of %d bytes", ErrDamaged, len(b))
	}
	le := binary.LittleEndian
	x := Block{
		Newest: decodeNewest(b),
		Null: Reference{
			LSN:       le.Uint64(b[40:]),
			Timestamp: Timestamp{Ticks: le.Uint64(b[48:]), Offset: le.Uint64(b[56:])},
		},
		Next:      le.Uint64(b[64:]),
		Bound:     Timestamp{Ticks: le.Uint64(b[72:]), Offset: le.Uint64(b[80:])},
		Entries:   le.Uint32(b[88:]),
		NullLives: le.Uint32(b[92:])&nullIsLive != 0,
		Gap:       le.Uint32(b[92:])&hasGap != 0,
		Cut:       le.Uint32(b[92:])&isCut != 0,
		Listed:    make([]Version, (len(b)-chainHeaderSize)/shallowSize),
	}
	last := x.Next
	for i := range x.Listed {
		v := &x.Listed[i]
		v.decode(b[chainHeaderSize+i*shallowSize:])
		if v.LSN <= last {
			return Block{}, fmt.Errorf("%w: LSNs of a version block do not ascend", ErrDamaged)
		}
		last = v.LSN
	}
	if max(last, x.Newest.LSN, x.Null.LSN) >= lsn || x.Entries == 0 {
		return Block{}, fmt.Errorf("%w: version block refers to later records", ErrDamaged)
	}
	return x, nil
}

// HasGap tells whether records of the name were lost before this one was written.
func (r *Record) HasGap() bool { return r.hasFlag(hasGap) }

// WasCut tells whether it was damage to a record of the name itself that lost some.
func (r *Record) WasCut() bool { return r.hasFlag(isCut) }

func (r *Record) hasFlag(flag uint32) bool {
	return len(r.Block) >= chainHeaderSize && binary.LittleEndian.Uint32(r.Block[92:])&flag != 0
}

// Newest refers to the version that counts of a name with versions whose head
// the record is. ok is false if there is none. It costs no read.
func (r *Record) Newest() (v Reference, ok bool) {
	v = decodeNewest(r.Block)
	if v.LSN == 0 {
		v.LSN = r.Head.LSN
	}
	return v, !v.Timestamp.IsZero()
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
