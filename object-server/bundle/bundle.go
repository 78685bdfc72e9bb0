package bundle

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"martlet/object-server/bundle/format"
	"martlet/object-server/bundle/index"
	"martlet/object-server/bundle/versions"
)

// Config tunes a Bundle.
type Config struct {
	SegmentBytes    int64            // a segment that would grow larger is followed by a new one
	CheckpointBytes int64            // a CHECKPOINT is due after as many bytes of records
	IndexOnDisk     bool             // the index of segments with a footer stays there, see index.Filter
	Versions        *versions.Memory // nil: look-ups of versions remember nothing

	// Damaged is told of each record that is found damaged, once, and of each
	// read from a bad sector; nil is allowed.
	Damaged func(err error)
}

// checkpointRecords make a CHECKPOINT due, however short they are.
const checkpointRecords = 100_000

// Bundle is the open log of one partition. Read, ReadHead and Quarantine are
// safe for concurrent use; its Writer appends; Seal and Checkpoint belong to one
// caretaker, Compact to one compactor.
type Bundle struct {
	id        ID
	directory string
	files     *Files
	config    Config
	readOnly  bool   // only looked at: nothing is removed
	opened    uint64 // number of the opening, no other has

	mu          sync.RWMutex
	index       index.Index     // guarded by mu
	segments    segments        // guarded by mu
	damaged     map[uint64]bool // places of records whose bytes were found damaged; guarded by mu
	superseded  superseded      // guarded by mu
	lostThrough uint64          // names unknown up to this LSN are in quarantine; fixed after Open, but for Distrust
	active      *openSegment    // the one that grows, nil: the next append makes one; the Writer changes it, under mu
	turn        bool            // the next append closes it; guarded by mu
	retired     bool            // guarded by mu; see Retire
	identity    format.Identity // guarded by mu
	agreement   agreement       // guarded by mu
	report      Report
	upkeep      atomic.Bool // there may be something to seal or to checkpoint
	hides       atomic.Bool // the last listing has met damage: names are left out of it
	recounting  sync.Mutex  // held while the agreement's table is made anew; taken before mu
	stuck       error       // why nothing can be compacted until the bundle is opened again; the compactor's

	writerTaken atomic.Bool // see TakeWriter

	// The rest belongs to the Writer.
	lastLSN      uint64 // all up to here is durable; the Writer changes it, under mu
	acknowledged uint64 // the same, but for LSNs that only what could not be read may have; the Writer changes it, under mu
	provenLSN    uint64 // watermark in the newest record: durable whatever becomes of the tail
	padded       bool   // the newest record is a PAD
	nextSequence uint32
	void         []fileKey // files in which nothing counts, though something may be found in them
	pending      Appended

	dirMu        sync.Mutex
	dirDurable   bool // directories up to the device are durable; guarded by dirMu
	largeDurable bool // and so is large/; guarded by dirMu
}

// openings numbers the bundles that are opened.
var openings atomic.Uint64

// Report tells what opening a bundle met.
type Report struct {
	Records    int      // records that count and have a name
	TornTails  int      // segments whose unacknowledged end is void
	Damaged    []string // extents in quarantine, for the log
	Extents    []Damage // the same with their places
	LargeAside int      // large files that no record named, now in quarantine
	Aside      string   // the directory there
	Left       string   // why large files that no record names are still where they were; for the log
	Footers    []string // those that could not be used, so that the records were read; for the log
}

// ID is where the bundle belongs.
func (b *Bundle) ID() ID { return b.id }

// Report tells what opening met; it does not change afterwards.
func (b *Bundle) Report() Report { return b.report }

// Len is the number of names in the index, tombstones included.
func (b *Bundle) Len() int {
	b.mu.RLock()
	defer b.mu.RUnlock()
	names := b.index.Len()
	for _, s := range b.segments.table {
		if s != nil && s.filter != nil {
			names += s.filter.Names
		}
	}
	return names
}

// Bytes tells how much of the records the index points at, and how much all of
// them take.
func (b *Bundle) Bytes() (live, all int64) {
	b.mu.RLock()
	defer b.mu.RUnlock()
	for _, s := range b.segments.table {
		if s != nil && !s.hidden {
			live, all = live+s.live*format.UnitSize, all+s.units*format.UnitSize
		}
	}
	return live, all
}

// enter puts a record into the index, in the place of the one it replaces if
// old is not 0. b.mu is held.
func (b *Bundle) enter(s *openSegment, e *format.Entry, old index.Slot, oldUnits uint32) {
	key, n := e.Hash.Key(), s.slotOf(e)
	s.units, s.live, s.named = s.units+int64(e.Units), s.live+int64(e.Units), s.named+1
	switch {
	case old.IsEntry():
		b.index.Insert(key, n)
		b.segments.table[old.Segment()].filter.SetState(old.Unit(), successorState(n.IsChained()))
	case old == 0 || !b.index.Replace(key, old, n):
		b.index.Insert(key, n)
		return
	}
	if oldUnits == 0 {
		oldUnits = old.Units()
	}
	if !n.IsChained() { // a version stays; see versions.Addition.Freed
		b.segments.table[old.Segment()].live -= int64(oldUnits)
	}
	delete(b.damaged, old.At())
}

// superseded has, by place, the names that were written while the record there
// could not be read. It is not theirs any more, if it ever was: it may be that of
// another name, which still counts.
type superseded map[uint64][]format.Hash

// has tells whether the record at a place does not count for a name.
func (s superseded) has(at uint64, hash format.Hash) bool { return slices.Contains(s[at], hash) }

// mark notes that the record of a slot is damaged.
func (b *Bundle) mark(s index.Slot, err error) {
	b.mu.Lock()
	isNew := !b.damaged[s.At()]
	if b.damaged == nil {
		b.damaged = make(map[uint64]bool)
	}
	b.damaged[s.At()] = true
	b.mu.Unlock()
	if isNew {
		b.tell(err)
	}
}

func (b *Bundle) tell(err error) {
	if b.config.Damaged != nil {
		b.config.Damaged(err)
	}
}

// Unreadable tells of a record whose large file the disk cannot read. The record is
// served as before: the next read may succeed.
func (b *Bundle) Unreadable(r *Record, cause error) {
	err := b.placedByLSN(r, cause)
	err.Damage.LargeID = LargeID(r.LargeID)
	b.tell(err)
}

// Quarantine stops a record from being served because its object's bytes, which
// Read does not check, are damaged. It returns the ErrQuarantined that says so. A
// newer write of the name ends it.
func (b *Bundle) Quarantine(r *Record, cause error) error {
	err := b.placedByLSN(r, fmt.Errorf("%w: %s record %d: %w", format.ErrQuarantined, b.directory, r.LSN(), cause))
	if !r.IsHead() { // an older version: each read finds out by itself
		b.tell(err)
		return err
	}
	var space [4]candidate
	found := b.candidates(space[:0], r.Head.Hash)
	defer release(found)
	for _, c := range found {
		if c.slot.At() == r.slot.At() { // not replaced meanwhile
			b.mark(c.slot, err)
		}
	}
	return err
}

func (b *Bundle) lost() error {
	return fmt.Errorf("%w: records up to %d of partition %d are lost", format.ErrQuarantined, b.lostThrough, b.id.Partition)
}
