package bundle

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"martlet/object-server/bundle/format"
)

// The records of a name with versions form a chain, newest LSN first. Entry
// number n of it lists the headers of the entries before it: a multiple of
// directoryStride the whole stride, another multiple of shortStride that one,
// any other those since the last multiple. So adding costs the same however
// long the chain is, and a listing reads one record in directoryStride.
const (
	directoryStride = format.ListedMax + 1
	shortStride     = 8
)

// ErrNoVersion: the name has no live version with that id.
var ErrNoVersion = errors.New("bundle: no such version")

// OlderError refuses a write that is not newer than what is stored.
type OlderError struct{ Existing format.Timestamp }

func (e *OlderError) Error() string {
	return fmt.Sprintf("bundle: not newer than the stored version of %s", e.Existing)
}

// chainReader reads the records of one name's chain.
type chainReader interface {
	// chainRecord returns header and block of a record. Damage is ErrQuarantined.
	chainRecord(lsn uint64) (link, error)
}

// link is a chain record as far as the chain goes.
type link struct {
	head  format.Header
	block format.Block
}

// newLink completes a record. One without a block is a name's only record so
// far: its null version, or the tombstone of that.
func newLink(head format.Header, encoded []byte) (link, error) {
	l := link{head: head}
	if head.Flags&format.FlagBlock != 0 {
		var err error
		l.block, err = format.ParseBlock(encoded, head.LSN)
		return l, err
	}
	self := format.Reference{Timestamp: head.Timestamp}
	l.block = format.Block{Null: self, Entries: 1}
	l.head.Versions = 0
	if head.Type != format.TypeTombstone {
		l.head.Versions, l.block.NullLives, l.block.Newest = 1, true, self
	}
	return l, nil
}

// version is the shallow header of the record itself.
func (l *link) version() format.Version {
	h := &l.head
	return format.Version{
		ID: h.VersionID, Timestamp: h.Timestamp, LSN: h.LSN, Size: h.Size,
		MetadataLength: h.MetadataLength, Type: h.Type, Signature: h.Signature,
	}
}

// resolve gives a reference of the record's block the record's own LSN, if it
// means that.
func (l *link) resolve(r format.Reference) format.Reference {
	if r.LSN == 0 && !r.Timestamp.IsZero() {
		r.LSN = l.head.LSN
	}
	return r
}

// newest refers to the version that counts when no id is given; no timestamp if
// there is none.
func (l *link) newest() format.Reference { return l.resolve(l.block.Newest) }

// latest is the latest timestamp in the chain, of whatever record.
func (l *link) latest() format.Timestamp {
	t := later(l.block.Bound, l.head.Timestamp)
	for i := range l.block.Listed {
		t = later(t, l.block.Listed[i].Timestamp)
	}
	return t
}

func later(t, u format.Timestamp) format.Timestamp {
	if t.Compare(u) < 0 {
		return u
	}
	return t
}

// Chain is a name with versions as one record, the head, describes it. It stays
// what it is when the name is written to.
type Chain struct {
	reader chainReader
	head   *link  // nil: the name has no record
	gap    bool   // damage has cut off a part of the chain
	cut    bool   // and it was to a record of the name itself
	lost   uint64 // after a gap: what lies up to this LSN may have been replaced or removed by what is lost

	memory *VersionMemory // nil: nothing is remembered
	key    memoryKey
	ahead  *removals // that continue the chain and are not in the log yet
}

// Addition is a record that continues a chain.
type Addition struct {
	block    format.Block
	previous uint64         // LSN of the head so far
	versions uint32         // live ones, delete markers included
	replaced format.Version // the version that the record makes dead; LSN 0 if none
	freed    uint32         // units that compaction can take from that version's record, as far as known
}

// Frees says which record Replaced refers to.
func (a *Addition) Frees(r *Record) {
	if r.Live() && r.LSN() == a.replaced.LSN {
		parts := r.Head.Layout()
		a.freed = uint32((parts.End - parts.Metadata) / format.UnitSize)
	}
}

// Replaced refers to the version that the record replaces or removes; LSN 0 if
// none.
func (a *Addition) Replaced() format.Reference {
	return format.Reference{LSN: a.replaced.LSN, Timestamp: a.replaced.Timestamp, ID: a.replaced.ID}
}

// walk visits the entries of a chain from the newest LSN down, until visit
// returns false or no later timestamp than floor can follow.
func (c *Chain) walk(floor format.Timestamp, visit func(v *format.Version) bool) error {
	for l := c.head; l != nil; {
		own := l.version()
		if !visit(&own) {
			return nil
		}
		for i := len(l.block.Listed) - 1; i >= 0; i-- {
			if !visit(&l.block.Listed[i]) {
				return nil
			}
		}
		if l.block.Next == 0 || l.block.Bound.Compare(floor) < 0 {
			return nil
		}
		n, err := c.reader.chainRecord(l.block.Next)
		if err != nil {
			return err
		}
		l = &n
	}
	return nil
}

// last finds the last entry that a version id has, if its timestamp may be floor
// or later. The last one counts: what would not supersede it is refused.
func (c *Chain) last(id format.VersionID, floor format.Timestamp) (found format.Version, ok bool, err error) {
	if v, ok := c.ahead.version(id); ok {
		return v, true, nil
	}
	knows, err := c.remember(func(m *chainMemory, reader chainReader) error {
		var err error
		found, ok, err = m.last(reader, id, floor)
		return err
	})
	if knows || err != nil {
		return found, ok, err
	}
	err = c.walk(floor, func(v *format.Version) bool {
		if v.ID == id && (v.Type.IsVersion() || v.Type == format.TypeTombstone) {
			found, ok = *v, true
		}
		return !ok
	})
	return found, ok, err
}

// remember asks the memory of the name. ok is false if there is none: a walk is to
// tell then. A chain that one record describes needs none.
func (c *Chain) remember(ask func(m *chainMemory, reader chainReader) error) (ok bool, err error) {
	reader, head := c.stored()
	if c.memory == nil || head == nil || head.block.Next == 0 {
		return false, nil
	}
	m := c.memory.of(c.key)
	return m.use(reader, head, func() error { return ask(m, reader) })
}

// Doubts tells whether a version, or its removal, was found that may since have been
// followed by another record, which is lost.
func (c *Chain) Doubts(found format.Reference) bool { return c.lost > 0 && found.LSN <= c.lost }

// Find looks for a live version. ErrNoVersion if there is none; the reference then
// has the time of its removal, if that is known.
func (c *Chain) Find(id format.VersionID) (format.Reference, error) {
	if c.head == nil {
		return format.Reference{}, c.missing()
	}
	if newest := c.head.newest(); newest.ID == id && !newest.Timestamp.IsZero() {
		return newest, nil
	}
	if id.IsNull() {
		if !c.head.block.NullLives {
			return format.Reference{}, c.missing()
		}
		return c.head.resolve(c.head.block.Null), nil
	}
	v, ok, err := c.last(id, format.Timestamp{})
	switch {
	case err == nil && !ok:
		err = c.missing()
	case err == nil && !v.Type.IsVersion():
		err = ErrNoVersion
	}
	return format.Reference{LSN: v.LSN, Timestamp: v.Timestamp, ID: id}, err
}

// missing is the error for a version that is not in the chain.
func (c *Chain) missing() error {
	if c.gap {
		return fmt.Errorf("%w: a part of the versions is lost", format.ErrQuarantined)
	}
	return ErrNoVersion
}

// Newest refers to the version that counts when no id is given; ok is false if
// there is none.
func (c *Chain) Newest() (r format.Reference, ok bool) {
	if c.head == nil {
		return r, false
	}
	r = c.head.newest()
	return r, !r.Timestamp.IsZero()
}

// Null tells when the null version was last written or removed, and whether it
// is there.
func (c *Chain) Null() (t format.Timestamp, lives bool) {
	if c.head == nil {
		return t, false
	}
	return c.head.block.Null.Timestamp, c.head.block.NullLives
}

// NullIsOld tells whether the null version was an old one at a time: a version had
// been written since.
func (c *Chain) NullIsOld(at format.Timestamp) (isOld bool, err error) {
	null, lives := c.Null()
	if !lives || null.Compare(at) >= 0 {
		return false, nil
	}
	err = c.walk(null, func(v *format.Version) bool {
		isOld = !v.ID.IsNull() && v.Type.IsVersion() && v.Timestamp.Compare(null) > 0 && v.Timestamp.Compare(at) < 0
		return !isOld
	})
	return isOld, err
}

// Latest is the latest timestamp in the chain, removals included.
func (c *Chain) Latest() format.Timestamp {
	if c.head == nil {
		return format.Timestamp{}
	}
	return c.head.latest()
}

// Len is the number of live versions, delete markers included.
func (c *Chain) Len() int {
	if c.head == nil {
		return 0
	}
	return int(c.head.head.Versions)
}

// Incomplete tells whether damage has cut off a part of the chain.
func (c *Chain) Incomplete() bool { return c.gap }

// Add continues the chain with a version: a PUT, a SPILL or a delete marker.
// *OlderError if the same id has a later or equal timestamp already.
func (c *Chain) Add(id format.VersionID, t format.Timestamp) (Addition, error) {
	return c.add(id, t, false)
}

// AddOver is Add for a version that wins over the live one of the same id and time.
func (c *Chain) AddOver(id format.VersionID, t format.Timestamp) (Addition, error) {
	return c.add(id, t, true)
}

func (c *Chain) add(id format.VersionID, t format.Timestamp, winsTie bool) (Addition, error) {
	a, err := c.start()
	if err != nil {
		return a, err
	}
	self := format.Reference{Timestamp: t, ID: id}
	switch {
	case id.IsNull():
		if err := c.supersedeNull(&a, t, winsTie); err != nil {
			return a, err
		}
		a.block.Null, a.block.NullLives = self, true
	case c.head != nil && t.Compare(c.head.latest()) <= 0: // late: it may be here, or removed
		same, ok, err := c.last(id, t)
		if err != nil {
			return a, err
		}
		if ok && same.Timestamp == t && (winsTie || c.hasLost(same.LSN)) {
			a.replaced, ok = same, false
		}
		if ok && same.Timestamp.Compare(t) >= 0 {
			return a, &OlderError{Existing: same.Timestamp}
		}
	}
	if a.replaced.LSN == 0 {
		a.versions++
	}
	newest := a.block.Newest
	if wrote := (format.Version{ID: id, Timestamp: t}); wrote.Compare(newest.Timestamp, newest.ID) >= 0 {
		a.block.Newest = self
	}
	return a, nil
}

// Rewrite continues the chain with new metadata of a live version.
func (c *Chain) Rewrite(old format.Reference) (Addition, error) {
	a, err := c.start()
	if err != nil {
		return a, err
	}
	self := format.Reference{Timestamp: old.Timestamp, ID: old.ID}
	a.replaced = format.Version{ID: old.ID, Timestamp: old.Timestamp, LSN: old.LSN}
	if a.replaces(a.block.Newest) {
		a.block.Newest = self
	}
	if old.ID.IsNull() {
		a.block.Null = self
	}
	return a, nil
}

// Remove continues the chain with the removal of a version, known or not: a
// version that arrives after its removal is not to come back. It wins over a version
// of the same time. *OlderError if the version is newer than t, or a removal of that
// time is there.
func (c *Chain) Remove(id format.VersionID, t format.Timestamp) (Addition, error) {
	a, err := c.start()
	if err != nil {
		return a, err
	}
	if id.IsNull() {
		err = c.supersedeNull(&a, t, true)
		a.block.Null, a.block.NullLives = format.Reference{Timestamp: t}, false
	} else {
		err = c.supersede(&a, id, t)
	}
	if err != nil || a.replaced.LSN == 0 {
		return a, err
	}
	a.versions--
	if a.replaces(a.block.Newest) {
		a.block.Newest, err = c.newestBut(id, t)
	}
	return a, err
}

func (a *Addition) replaces(r format.Reference) bool {
	return a.replaced.LSN != 0 && a.replaced.LSN == r.LSN
}

// supersede refuses a removal that is too old, and notes what it removes.
func (c *Chain) supersede(a *Addition, id format.VersionID, t format.Timestamp) error {
	v, ok, err := c.last(id, format.Timestamp{})
	switch {
	case err != nil || !ok:
		return err
	case v.Timestamp.Compare(t) > 0 || v.Timestamp == t && !v.Type.IsVersion():
		return &OlderError{Existing: v.Timestamp}
	case v.Type.IsVersion():
		a.replaced = v
	}
	return nil
}

// supersedeNull does the same for the null version, which every write replaces.
// winsTie says that the write replaces a live one of its time.
func (c *Chain) supersedeNull(a *Addition, t format.Timestamp, winsTie bool) error {
	if c.head == nil {
		return nil
	}
	null := c.head.resolve(c.head.block.Null)
	isAgain := null.Timestamp == t && c.head.block.NullLives && (winsTie || c.hasLost(null.LSN))
	if !null.Timestamp.IsZero() && null.Timestamp.Compare(t) >= 0 && !isAgain {
		return &OlderError{Existing: null.Timestamp}
	}
	if c.head.block.NullLives {
		a.replaced = format.Version{Timestamp: null.Timestamp, LSN: null.LSN}
	}
	return nil
}

// hasLost tells whether the data of a version that counts were lost: a replica may
// write it again.
func (c *Chain) hasLost(lsn uint64) bool {
	l, err := c.reader.chainRecord(lsn)
	return err == nil && l.head.Type == format.TypeVersionDirectory
}

// newestBut finds the newest live version when one is removed.
func (c *Chain) newestBut(id format.VersionID, t format.Timestamp) (found format.Reference, err error) {
	knows, err := c.remember(func(m *chainMemory, reader chainReader) error {
		found, err = m.newestBut(reader, func(other format.VersionID) bool {
			_, isAhead := c.ahead.version(other)
			return isAhead || other == id
		})
		return err
	})
	if knows || err != nil {
		return found, err
	}
	l := lister{chain: c}
	l.remove(id, t)
	l.take(c.head)
	v, ok, err := l.next()
	if err != nil || !ok {
		return format.Reference{}, err
	}
	return format.Reference{LSN: v.LSN, Timestamp: v.Timestamp, ID: v.ID}, nil
}

// start fills what every addition has in common: the entries it lists, and the
// state of the chain so far.
func (c *Chain) start() (Addition, error) {
	if c.head == nil {
		return Addition{block: format.Block{Entries: 1, Gap: c.gap, Cut: c.cut}}, nil
	}
	was := &c.head.block
	if was.Entries == math.MaxUint32 {
		return Addition{}, fmt.Errorf("%w: chain of %d records", format.ErrTooLarge, was.Entries)
	}
	a := Addition{previous: c.head.head.LSN, versions: c.head.head.Versions}
	a.block = format.Block{
		Newest: c.head.newest(), Null: c.head.resolve(was.Null), NullLives: was.NullLives, Entries: was.Entries + 1,
		Gap: c.gap, Cut: c.cut,
	}
	switch {
	case a.block.Entries%directoryStride == 0:
		return a, c.gather(&a.block)
	case was.Entries%shortStride == 0:
		a.block.Next, a.block.Bound = c.head.head.LSN, c.head.latest()
	default:
		a.block.Next, a.block.Bound = was.Next, was.Bound
		a.block.Listed = append(slices.Clone(was.Listed), c.head.version())
	}
	return a, nil
}

// gather lists the whole stride before a directory. Where damage prevents that
// the rest is left to the record that it is met in: the chain stays usable.
func (c *Chain) gather(x *format.Block) error {
	var listed []format.Version // newest LSN first
	for l := c.head; ; {
		listed = append(listed, l.version())
		for i := len(l.block.Listed) - 1; i >= 0; i-- {
			listed = append(listed, l.block.Listed[i])
		}
		x.Next, x.Bound = l.block.Next, l.block.Bound
		if x.Next == 0 || len(listed) >= format.ListedMax {
			break
		}
		n, err := c.reader.chainRecord(x.Next)
		if errors.Is(err, format.ErrQuarantined) || err == nil && len(listed)+1+len(n.block.Listed) > format.ListedMax {
			break
		}
		if err != nil {
			return err
		}
		l = &n
	}
	slices.Reverse(listed)
	x.Listed = listed
	return nil
}
