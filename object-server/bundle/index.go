package bundle

// Entry says where the newest record of a name lies, and what a write must know
// to be refused without reading it.
type Entry struct {
	Timestamp   Timestamp
	LSN         uint64
	Large       uint64 // large file id of a SPILL
	Segment     uint32 // sequence of the segment
	Unit        uint32 // offset in it
	Units       uint32 // length of the record
	Type        Type
	Quarantined bool // its bytes were found damaged
}

// Live tells whether the entry is an object, not a tombstone.
func (e *Entry) Live() bool { return e.Type == TypePut || e.Type == TypeSpill }

// replacedBy tells whether a record with entry n supersedes e, in whatever order
// the two are met.
func (e *Entry) replacedBy(n *Entry) bool {
	if c := e.Timestamp.Compare(n.Timestamp); c != 0 {
		return c < 0
	}
	return e.LSN < n.LSN
}

// index maps names to entries. Neither keys nor values hold pointers, so the
// garbage collector does not walk them. It is not safe for concurrent use.
type index struct{ entries map[Hash]Entry }

func newIndex() index { return index{entries: make(map[Hash]Entry)} }

func (x *index) get(hash Hash) (Entry, bool) {
	e, ok := x.entries[hash]
	return e, ok
}

// put adds an entry unless a newer one is there.
func (x *index) put(hash Hash, n Entry) {
	if e, ok := x.entries[hash]; ok && !e.replacedBy(&n) {
		return
	}
	x.entries[hash] = n
}

// quarantine marks the entry for the record with the given LSN as damaged.
func (x *index) quarantine(hash Hash, lsn uint64) {
	if e, ok := x.entries[hash]; ok && e.LSN == lsn {
		e.Quarantined = true
		x.entries[hash] = e
	}
}
