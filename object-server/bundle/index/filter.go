package index

import (
	"encoding/binary"
	"math/bits"
	"unsafe"

	"martlet/object-server/bundle/format"
)

// Filter is what stays in memory of a sealed segment's index where the index is
// on disk: for each entry of the footer's run, in the run's order, some bits of
// the name's hash and whether the entry still counts. Which entries may be a
// name's is told without a read; one read of the entry then tells where the
// record lies. It takes 1.8 bytes an entry, in pages of a pool.
//
// The run is sorted by hash. The bits of a hash behind those that all entries
// share, the partition's, choose a group of 4 to 8 neighbours, and 11 bits of the
// other half of the hash are compared: a look-up of an absent name meets a false
// candidate in one of 350 segments.
//
// It is not safe for concurrent use, but Find and State may run together.
type Filter struct {
	pool    *Pool
	fields  []uint32 // pages of a field for each entry
	shelves []uint32 // pages of the positions where groups begin
	count   int
	Names   int   // entries that are the Newest of their names; only read by others
	skip    uint8 // leading bits of a hash that all entries share
	level   uint8 // 2^level groups
}

// What became of an entry.
const (
	Dead   = iota // replaced, or reclaimed
	Newest        // the newest record of its name
	Linked        // not the newest record, but a link of its name's chain of versions
)

const (
	stateBits       = 2
	fingerprintBits = 11
	fieldBits       = stateBits + fingerprintBits
	fieldsInPage    = pageSize * 8 / fieldBits
	groupMost       = 8 // average length of a group, at most

	// A shelf has the position where the first of its groups begins, 4 bytes, and
	// for each group how far behind it that begins, a byte: 255 if further.
	shelfGroups   = 16
	shelfSize     = 4 + shelfGroups
	shelvesInPage = pageSize / shelfSize
	shelfReach    = 255
)

// NewFilter makes the filter of a sorted run. All entries are dead at first.
func NewFilter(pool *Pool, run []format.Entry) *Filter {
	f := &Filter{pool: pool, count: len(run)}
	if len(run) == 0 {
		return f
	}
	first, last := prefix(run[0].Hash), prefix(run[len(run)-1].Hash)
	f.skip = uint8(bits.LeadingZeros64(first ^ last))
	for len(run)>>f.level > groupMost {
		f.level++
	}
	f.fields = make([]uint32, (len(run)+fieldsInPage-1)/fieldsInPage)
	f.shelves = make([]uint32, (1<<f.level/shelfGroups+shelvesInPage)/shelvesInPage)
	pool.alloc(f.fields)
	pool.alloc(f.shelves)
	group := 0
	for i := range run {
		for ; group <= f.group(run[i].Hash); group++ {
			f.setStart(group, i)
		}
		f.setField(i, fingerprint(run[i].Hash)<<stateBits)
	}
	for ; group <= 1<<f.level; group++ {
		f.setStart(group, len(run))
	}
	return f
}

// prefix is the half of a hash that the run is sorted by, fingerprint bits of
// the other one.
func prefix(h format.Hash) uint64      { return binary.BigEndian.Uint64(h[:8]) }
func fingerprint(h format.Hash) uint64 { return h.Key() >> (64 - fingerprintBits) }

func (f *Filter) group(h format.Hash) int { return int(prefix(h) << f.skip >> 1 >> (63 - f.level)) }

// Find appends the positions of the entries that may be the name's newest record.
func (f *Filter) Find(positions []uint32, h format.Hash) []uint32 {
	if f.count == 0 {
		return positions
	}
	group, want := f.group(h), fingerprint(h)<<stateBits|Newest
	for i, end := f.start(group), f.end(group); i < end; i++ {
		if f.field(i) == want {
			positions = append(positions, uint32(i))
		}
	}
	return positions
}

// State tells what became of the entry at a position.
func (f *Filter) State(position uint32) uint8 {
	return uint8(f.field(int(position)) & (1<<stateBits - 1))
}

// SetState notes what became of the entry at a position.
func (f *Filter) SetState(position uint32, state uint8) {
	i := int(position)
	if f.State(position) == Newest {
		f.Names--
	}
	if state == Newest {
		f.Names++
	}
	f.setField(i, f.field(i)&^(1<<stateBits-1)|uint64(state))
}

// Free gives the pages back.
func (f *Filter) Free() {
	f.pool.release(f.fields)
	f.pool.release(f.shelves)
	*f = Filter{pool: f.pool}
}

// place is where the bits of an entry are: page, word, and bit of the word.
func (f *Filter) place(i int) (p *page, word, bit int) {
	at := i % fieldsInPage * fieldBits
	return f.pool.get(f.fields[i/fieldsInPage]), at / 64, at % 64
}

func (f *Filter) field(i int) uint64 {
	p, word, bit := f.place(i)
	v := uint64(p[word]) >> bit
	if bit > 64-fieldBits {
		v |= uint64(p[word+1]) << (64 - bit)
	}
	return v & (1<<fieldBits - 1)
}

func (f *Filter) setField(i int, v uint64) {
	const mask = 1<<fieldBits - 1
	p, word, bit := f.place(i)
	p[word] = p[word]&^Slot(uint64(mask)<<bit) | Slot(v<<bit)
	if bit > 64-fieldBits {
		p[word+1] = p[word+1]&^Slot(uint64(mask)>>(64-bit)) | Slot(v>>(64-bit))
	}
}

// shelf is that of a group.
func (f *Filter) shelf(group int) []byte {
	n := group / shelfGroups
	p := (*[pageSize]byte)(unsafe.Pointer(f.pool.get(f.shelves[n/shelvesInPage])))
	return p[n%shelvesInPage*shelfSize:][:shelfSize]
}

// setStart must be called for each group in turn, and for the end of the last.
func (f *Filter) setStart(group, position int) {
	shelf, n := f.shelf(group), group%shelfGroups
	if n == 0 {
		binary.LittleEndian.PutUint32(shelf, uint32(position))
	}
	shelf[4+n] = byte(min(position-int(binary.LittleEndian.Uint32(shelf)), shelfReach))
}

// start is where a group begins, or a position before it.
func (f *Filter) start(group int) int {
	shelf := f.shelf(group)
	return int(binary.LittleEndian.Uint32(shelf)) + int(shelf[4+group%shelfGroups])
}

// end is where a group ends, or a position behind that.
func (f *Filter) end(group int) int {
	next := group + 1
	if shelf := f.shelf(next); shelf[4+next%shelfGroups] < shelfReach {
		return f.start(next)
	}
	if next = (next/shelfGroups + 1) * shelfGroups; next < 1<<f.level {
		return f.start(next)
	}
	return f.count
}
