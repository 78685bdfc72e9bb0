package bundle

import "martlet/object-server/bundle/format"

// pendingLSN and what follows stand for the records of a batch, until they are
// appended and get LSNs of their own. No log grows as long.
const pendingLSN = 1 << 62

// removals continue a chain by records that are not in the log yet.
type removals struct {
	reader  chainReader // of what is in the log
	stored  *link       // the head there; nil: the name has no record
	links   []link
	removed map[format.VersionID]format.Version
}

// chainRecord implements chainReader.
func (r *removals) chainRecord(lsn uint64) (link, error) {
	if lsn >= pendingLSN {
		return r.links[lsn-pendingLSN], nil
	}
	return r.reader.chainRecord(lsn)
}

// version is the removal of an id. A nil removals has none.
func (r *removals) version(id format.VersionID) (v format.Version, ok bool) {
	if r != nil {
		v, ok = r.removed[id]
	}
	return v, ok
}

// stored is the chain as it is in the log.
func (c *Chain) stored() (chainReader, *link) {
	if c.ahead != nil {
		return c.ahead.reader, c.ahead.stored
	}
	return c.reader, c.head
}

// Precede makes the chain one that goes on behind a removal, which has been sealed
// and is not appended yet. What comes then must be appended in one batch with it,
// see Draft.Then.
func (c *Chain) Precede(d *Draft) {
	if c.ahead == nil {
		c.ahead = &removals{reader: c.reader, stored: c.head, removed: map[format.VersionID]format.Version{}}
		c.reader = c.ahead
	}
	l := link{head: d.head, block: d.chain.block}
	l.head.LSN = pendingLSN + uint64(len(c.ahead.links))
	c.ahead.links = append(c.ahead.links, l)
	c.ahead.removed[l.head.VersionID] = l.version()
	c.head = &c.ahead.links[len(c.ahead.links)-1]
}

// Then appends a record in one batch with others of its name, right behind them:
// d is the first of them, and last the one before, which is d where there is none.
func (d *Draft) Then(last, next *Draft) {
	last.next, next.first = next, d
	d.following += next.length()
}

// settle gives what the record says of the batch before it the LSNs that they got.
func (d *Draft) settle() {
	if d.first == nil {
		return
	}
	first := d.first.head.LSN
	actual := func(lsn uint64) uint64 {
		if lsn >= pendingLSN {
			return first + lsn - pendingLSN
		}
		return lsn
	}
	d.head.Previous = actual(d.head.Previous)
	body := d.buffer.B[d.start+format.HeaderSize:][:d.head.BlockLength+d.head.MetadataLength]
	format.Renumber(body[:d.head.BlockLength], actual)
	d.head.MetadataCRC = format.Checksum(body)
}
