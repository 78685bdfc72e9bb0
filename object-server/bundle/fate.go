package bundle

import (
	"errors"

	"martlet/object-server/bundle/format"
	"martlet/object-server/bundle/versions"
)

// fate is what compaction does with a record.
type fate uint8

const (
	fateDropped fate = iota
	fateEmptied      // its data go; what it says of other versions stays
	fateCopied
	fateNewest // the index points at it: copied too, unless it is a tombstone that has served its time
)

// fatesMax bounds the versions that are remembered.
const fatesMax = 1 << 20

// fates tells what is to become of the records of names with versions. A chain
// loses no entry, so that it stays readable; only the data of versions that were
// removed or replaced go.
type fates struct {
	bundle *Bundle
	known  map[format.Hash]*chainFate
	size   int
}

// chainFate is what counts of one name.
type chainFate struct {
	isChain bool
	isWhole bool            // all of it stays: damage hides what counts
	oldest  uint64          // LSN of the first record of the chain
	live    map[uint64]bool // LSNs
}

// of tells the fate of a record that the index does not point at. Versions that
// are written while segments are copied change nothing: they come later than all
// records of these, and a version that was removed never comes back.
func (f *fates) of(e *format.Entry) (fate, error) {
	c := f.known[e.Hash]
	if c == nil {
		var err error
		if c, err = f.load(e.Hash); err != nil {
			return fateCopied, err
		}
	}
	hasData := e.Type == format.TypePut || e.Type == format.TypeSpill
	switch {
	case c.isWhole:
		return fateCopied, nil
	case !c.isChain, e.LSN < c.oldest: // from before the name had versions
		return fateDropped, nil
	case hasData && !c.live[e.LSN]:
		return fateEmptied, nil
	}
	return fateCopied, nil
}

// load reads the chain of a name. It is not remembered if there is none, for then
// there may be one the next time.
func (f *fates) load(hash format.Hash) (*chainFate, error) {
	c, err := f.bundle.fateOf(hash)
	if err != nil || !c.isChain {
		return c, err
	}
	if f.size += len(c.live); f.known == nil || f.size > fatesMax {
		f.known, f.size = make(map[format.Hash]*chainFate), len(c.live)
	}
	f.known[hash] = c
	return c, nil
}

// fateOf reads what counts of a name. If the head of its chain is damaged later,
// the chain goes on from the record before it (see salvage), so what was live then
// counts as well.
func (b *Bundle) fateOf(hash format.Hash) (*chainFate, error) {
	head, buffer, err := b.ReadHead(hash)
	buffer.Free()
	whole := &chainFate{isChain: true, isWhole: true}
	switch {
	case errors.Is(err, format.ErrQuarantined), head != nil && head.doubtful:
		return whole, nil
	case err != nil:
		return nil, err
	case head == nil || !head.Versioned():
		return &chainFate{}, nil
	}
	c := &chainFate{isChain: true, oldest: head.LSN()}
	chain, err := versions.At(nameReader{b, hash}, head.LSN())
	if err == nil {
		c.live, err = chain.Live()
	}
	if err == nil {
		err = chain.Walk(func(v *format.Version) { c.oldest = min(c.oldest, v.LSN) })
	}
	if previous := head.Head.Previous; err == nil && previous != 0 {
		var before map[uint64]bool
		before, err = b.LiveVersions(hash, previous)
		for lsn := range before {
			c.live[lsn] = true
		}
	}
	if errors.Is(err, format.ErrQuarantined) {
		return whole, nil
	}
	return c, err
}

// empty makes of a chain record, given from its header to the end of its
// metadata, a VERSION DIRECTORY. ok is false if the record is damaged, and stays.
func empty(h *format.Header, p []byte) (directory []byte, ok bool) {
	parts := h.Layout()
	if format.Checksum(p[format.HeaderSize:parts.Data]) != h.MetadataCRC {
		return nil, false
	}
	block := p[format.HeaderSize:parts.Metadata]
	if len(block) == 0 { // the first of the chain, from before the name had versions
		l, err := versions.NewLink(*h, nil)
		if err != nil {
			return nil, false
		}
		block = l.Block.Append(nil)
	}
	return h.Without(format.TypeVersionDirectory, block), true
}
