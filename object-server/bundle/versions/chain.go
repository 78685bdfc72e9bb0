package versions

import (
	"errors"
	"fmt"

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

// Chain is a name with versions as one record, the head, describes it. It stays
// what it is when the name is written to.
type Chain struct {
	reader Reader
	head   *Link  // nil: the name has no record
	gap    bool   // damage has cut off a part of the chain
	cut    bool   // and it was to a record of the name itself
	lost   uint64 // after a gap: what lies up to this LSN may have been replaced or removed by what is lost

	memory *Memory // nil: nothing is remembered
	key    memoryKey
	ahead  *removals // that continue the chain and are not in the log yet
}

// New returns the chain of a name without records. The memory may be nil; opened is
// the number of the bundle's opening, no other has it.
func New(reader Reader, memory *Memory, opened uint64, hash format.Hash) *Chain {
	return &Chain{reader: reader, memory: memory, key: memoryKey{opened, hash}}
}

// Start makes a record the head of the chain. Records of any name up to the LSN lost
// may be lost.
func (c *Chain) Start(l Link, lost uint64) {
	c.head, c.gap, c.cut = &l, l.Block.Gap || l.Head.LSN <= lost, l.Block.Cut
	if c.gap {
		c.lost = lost
	}
}

// Sever says that the head cannot be read, so that nothing is known of the chain;
// ofName says that the damage is to a record of the name itself.
func (c *Chain) Sever(ofName bool) { c.gap, c.cut = true, ofName }

// At returns the chain that the record with an LSN is the head of.
func At(reader Reader, lsn uint64) (*Chain, error) {
	l, err := reader.ReadLink(lsn)
	if err != nil {
		return nil, err
	}
	return &Chain{reader: reader, head: &l, gap: l.Block.Gap, cut: l.Block.Cut}, nil
}

// Walk visits all entries of a chain.
func (c *Chain) Walk(visit func(v *format.Version)) error {
	return c.walk(format.Timestamp{}, func(v *format.Version) bool {
		visit(v)
		return true
	})
}

// Live returns the LSNs of all live versions. ErrQuarantined when damage hides some.
func (c *Chain) Live() (map[uint64]bool, error) {
	if c.gap {
		return nil, c.missing()
	}
	live := make(map[uint64]bool)
	err := c.Each(func(v *format.Version) error {
		live[v.LSN] = true
		return nil
	})
	return live, err
}

// Each calls use for each live version, newest first, until that fails.
// ErrQuarantined where damage hides the rest.
func (c *Chain) Each(use func(v *format.Version) error) error {
	for list := c.list(); ; {
		v, ok, err := list.next()
		if err != nil || !ok {
			return err
		}
		if err := use(&v); err != nil {
			return err
		}
	}
}

// walk visits the entries of a chain from the newest LSN down, until visit
// returns false or no later timestamp than floor can follow.
func (c *Chain) walk(floor format.Timestamp, visit func(v *format.Version) bool) error {
	for l := c.head; l != nil; {
		own := l.version()
		if !visit(&own) {
			return nil
		}
		for i := len(l.Block.Listed) - 1; i >= 0; i-- {
			if !visit(&l.Block.Listed[i]) {
				return nil
			}
		}
		if l.Block.Next == 0 || l.Block.Bound.Compare(floor) < 0 {
			return nil
		}
		n, err := c.reader.ReadLink(l.Block.Next)
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
	knows, err := c.remember(func(m *chainMemory, reader Reader) error {
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

// remember asks the memory of the name. knows is false if there is none, or damage is in its way: a walk is to
// tell then. A chain that one record describes needs none.
func (c *Chain) remember(ask func(m *chainMemory, reader Reader) error) (knows bool, err error) {
	reader, head := c.stored()
	if c.memory == nil || head == nil || head.Block.Next == 0 {
		return false, nil
	}
	m := c.memory.of(c.key)
	knows, err = m.use(reader, head, func() error { return ask(m, reader) })
	if errors.Is(err, format.ErrQuarantined) {
		return false, nil // what it wanted to read next is damaged; a walk may find the answer before it
	}
	return knows, err
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
		if !c.head.Block.NullLives {
			return format.Reference{}, c.missing()
		}
		return c.head.resolve(c.head.Block.Null), nil
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
	return c.head.Block.Null.Timestamp, c.head.Block.NullLives
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
	return int(c.head.Head.Versions)
}

// Incomplete tells whether damage has cut off a part of the chain.
func (c *Chain) Incomplete() bool { return c.gap }
