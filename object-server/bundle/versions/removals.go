package versions

import "martlet/object-server/bundle/format"

// pendingLSN and what follows stand for the records of a batch, until they are
// appended and get LSNs of their own. No log grows as long.
const pendingLSN = 1 << 62

// removals continue a chain by records that are not in the log yet.
type removals struct {
	reader  Reader // of what is in the log
	stored  *Link  // the head there; nil: the name has no record
	links   []Link
	removed map[format.VersionID]format.Version
}

// ReadLink implements Reader.
func (r *removals) ReadLink(lsn uint64) (Link, error) {
	if lsn >= pendingLSN {
		return r.links[lsn-pendingLSN], nil
	}
	return r.reader.ReadLink(lsn)
}

// version is the removal of an id. A nil removals has none.
func (r *removals) version(id format.VersionID) (v format.Version, ok bool) {
	if r != nil {
		v, ok = r.removed[id]
	}
	return v, ok
}

// stored is the chain as it is in the log.
func (c *Chain) stored() (Reader, *Link) {
	if c.ahead != nil {
		return c.ahead.reader, c.ahead.stored
	}
	return c.reader, c.head
}

// Precede makes the chain one that goes on behind a removal, which is not appended
// yet: the header of the record, and the addition that it was made with. What comes
// then must be appended in one batch with it.
func (c *Chain) Precede(h *format.Header, a *Addition) {
	if c.ahead == nil {
		c.ahead = &removals{reader: c.reader, stored: c.head, removed: map[format.VersionID]format.Version{}}
		c.reader = c.ahead
	}
	l := Link{Head: *h, Block: a.block}
	l.Head.LSN = pendingLSN + uint64(len(c.ahead.links))
	c.ahead.links = append(c.ahead.links, l)
	c.ahead.removed[l.Head.VersionID] = l.version()
	c.head = &c.ahead.links[len(c.ahead.links)-1]
}

// Settle gives what an encoded block says of the batch before it the LSNs that the
// records got: that of the first one is given.
func Settle(b []byte, first uint64) {
	format.Renumber(b, func(lsn uint64) uint64 { return Settled(lsn, first) })
}

// Settled is the LSN that a record of a batch got, or the LSN itself if it is none.
func Settled(lsn, first uint64) uint64 {
	if lsn >= pendingLSN {
		return first + lsn - pendingLSN
	}
	return lsn
}
