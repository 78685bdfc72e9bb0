package versions

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"martlet/object-server/bundle/format"
)

// OlderError refuses a write that is not newer than what is stored.
type OlderError struct{ Existing format.Timestamp }

// Error names the time of what is stored.
func (e *OlderError) Error() string {
	return fmt.Sprintf("bundle: not newer than the stored version of %s", e.Existing)
}

// Addition is a record that continues a chain.
type Addition struct {
	block    format.Block
	previous uint64         // LSN of the head so far
	versions uint32         // live ones, delete markers included
	replaced format.Version // the version that the record makes dead; LSN 0 if none
	gone     format.Entry   // of its record, without the place; no type as long as that is not known
	freed    uint32         // units that compaction can take from that version's record, as far as known
}

// Frees says which record Replaced refers to: what compaction can take from it, and
// what leaves the set that replicas compare.
func (a *Addition) Frees(r *format.Record) {
	if r.LSN() != a.replaced.LSN {
		return
	}
	a.gone = r.Head.Entry(0)
	if r.Live() {
		parts := r.Head.Layout()
		a.freed = uint32((parts.End - parts.Metadata) / format.UnitSize)
	}
}

// Gone is the record that does not count any more for its version, without its place;
// no type if there is none. ok is false where it could not be read, or where damage
// keeps from being known which one it is.
func (a *Addition) Gone() (gone format.Entry, ok bool) {
	return a.gone, (a.replaced.LSN == 0 || a.gone.Type != 0) && !a.block.Gap
}

// Replaced refers to the version that the record replaces or removes; LSN 0 if
// none.
func (a *Addition) Replaced() format.Reference {
	return format.Reference{LSN: a.replaced.LSN, Timestamp: a.replaced.Timestamp, ID: a.replaced.ID}
}

// Continue makes a header that of a record which continues the chain, and appends the
// encoded version block to b, which is empty.
func (a *Addition) Continue(h *format.Header, b []byte) []byte {
	b = a.block.Append(b)
	h.Flags |= format.FlagVersions | format.FlagBlock
	h.Previous, h.Versions = a.previous, a.versions
	h.BlockLength = uint32(len(b))
	return b
}

// Freed is how many units compaction can take from the record with that LSN.
func (a *Addition) Freed() (lsn uint64, units uint32) { return a.replaced.LSN, a.freed }

// Add continues the chain with a version: a PUT, a SPILL or a delete marker.
// *OlderError if the same id has a later or equal timestamp already. An id has the same ticks at all times. Its offset
// grows when it is moved to and fro between policies: the version of the greater one replaces the other.
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
	case c.head != nil && t.Ticks <= c.head.latest().Ticks: // late: it may be here, or removed, or moved away before
		same, ok, err := c.last(id, format.Timestamp{Ticks: t.Ticks})
		if err != nil {
			return a, err
		}
		isAgain := ok && same.Type.IsVersion() && same.Timestamp.Compare(t) < 0
		if isAgain || ok && same.Timestamp == t && (winsTie || c.hasLost(same.LSN)) {
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

// Revive continues the chain with a version that its lock keeps: what was written for its
// id later, a removal or another null version, does not count.
func (c *Chain) Revive(id format.VersionID, t format.Timestamp) (Addition, error) {
	a, err := c.start()
	if err != nil {
		return a, err
	}
	self := format.Reference{Timestamp: t, ID: id}
	if id.IsNull() {
		c.replaceNull(&a)
		a.block.Null, a.block.NullLives = self, true
	}
	if a.replaced.LSN == 0 {
		a.versions++
	} else if a.replaces(a.block.Newest) {
		if a.block.Newest, err = c.newestBut(id, t); err != nil {
			return a, err
		}
	}
	newest := a.block.Newest
	if wrote := (format.Version{ID: id, Timestamp: t}); wrote.Compare(newest.Timestamp, newest.ID) >= 0 {
		a.block.Newest = self
	}
	return a, nil
}

// LastWrite refers to the last write or removal of a version; ok is false if there is none.
func (c *Chain) LastWrite(id format.VersionID) (r format.Reference, ok bool, err error) {
	if c.head == nil {
		return r, false, nil
	}
	if id.IsNull() {
		r = c.head.resolve(c.head.Block.Null)
		return r, r.LSN != 0, nil
	}
	v, ok, err := c.last(id, format.Timestamp{})
	return format.Reference{LSN: v.LSN, Timestamp: v.Timestamp, ID: id}, ok, err
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
	null := c.head.resolve(c.head.Block.Null)
	isAgain := null.Timestamp == t && c.head.Block.NullLives && (winsTie || c.hasLost(null.LSN))
	if !null.Timestamp.IsZero() && null.Timestamp.Compare(t) >= 0 && !isAgain {
		return &OlderError{Existing: null.Timestamp}
	}
	c.replaceNull(a)
	return nil
}

// replaceNull notes what a write of the null version replaces.
func (c *Chain) replaceNull(a *Addition) {
	if c.head == nil {
		return
	}
	null := c.head.resolve(c.head.Block.Null)
	if c.head.Block.NullLives {
		a.replaced = format.Version{Timestamp: null.Timestamp, LSN: null.LSN}
	} else if !null.Timestamp.IsZero() {
		removal := format.Header{Type: format.TypeTombstone, Hash: c.head.Head.Hash, Timestamp: null.Timestamp}
		a.gone = removal.Entry(0)
	}
}

// hasLost tells whether the data of a version that counts were lost: a replica may
// write it again.
func (c *Chain) hasLost(lsn uint64) bool {
	l, err := c.reader.ReadLink(lsn)
	return err == nil && l.Head.Type == format.TypeVersionDirectory
}

// newestBut finds the newest live version when one is removed.
func (c *Chain) newestBut(id format.VersionID, t format.Timestamp) (found format.Reference, err error) {
	knows, err := c.remember(func(m *chainMemory, reader Reader) error {
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
	was := &c.head.Block
	if was.Entries == math.MaxUint32 {
		return Addition{}, fmt.Errorf("%w: chain of %d records", format.ErrTooLarge, was.Entries)
	}
	a := Addition{previous: c.head.Head.LSN, versions: c.head.Head.Versions}
	a.block = format.Block{
		Newest: c.head.newest(), Null: c.head.resolve(was.Null), NullLives: was.NullLives, Entries: was.Entries + 1,
		Gap: c.gap, Cut: c.cut,
	}
	switch {
	case a.block.Entries%directoryStride == 0:
		return a, c.gather(&a.block)
	case was.Entries%shortStride == 0:
		a.block.Next, a.block.Bound = c.head.Head.LSN, c.head.latest()
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
		for i := len(l.Block.Listed) - 1; i >= 0; i-- {
			listed = append(listed, l.Block.Listed[i])
		}
		x.Next, x.Bound = l.Block.Next, l.Block.Bound
		if x.Next == 0 || len(listed) >= format.ListedMax {
			break
		}
		n, err := c.reader.ReadLink(x.Next)
		if errors.Is(err, format.ErrQuarantined) || err == nil && len(listed)+1+len(n.Block.Listed) > format.ListedMax {
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
