package bundle

import (
	"errors"
	"fmt"

	"martlet/object-server/bundle/format"
)

// nameReader reads the chain of one name.
type nameReader struct {
	bundle *Bundle
	hash   format.Hash
}

func (r nameReader) chainRecord(lsn uint64) (link, error) {
	record, buffer, err := r.bundle.readLinked(r.hash, lsn, true)
	if err != nil {
		return link{}, err
	}
	defer buffer.Free()
	l, err := newLink(record.Head, record.Block)
	if err != nil {
		return l, fmt.Errorf("%w: %s record %d: %w", format.ErrQuarantined, r.bundle.directory, lsn, err)
	}
	return l, nil
}

// Chain is the chain of versions that a record is the head of. It takes what
// Read or ReadHead returned: the record, nil for none, and the damage, nil for
// none. Where the record is damaged the chain is taken from the one before it;
// where that cannot be told the chain is Incomplete.
func (b *Bundle) Chain(hash format.Hash, record *Record, damage error) (*Chain, error) {
	c := &Chain{reader: nameReader{b, hash}, memory: b.config.Versions, key: memoryKey{b.opened, hash}}
	if record == nil && damage == nil {
		return c, nil
	}
	var l link
	var err error
	if damage == nil {
		if l, err = newLink(record.Head, record.Block); err != nil {
			damage = err
		}
	}
	if damage != nil {
		l, err = b.salvage(c.reader, record)
	}
	if err == nil {
		c.head, c.gap, c.cut = &l, l.block.Gap || b.isLost(l.head.LSN), l.block.Cut
		if c.gap {
			c.lost = b.lostThrough
		}
		return c, nil
	}
	if !errors.Is(err, format.ErrQuarantined) {
		return nil, err
	}
	c.gap, c.cut = true, record != nil
	return c, nil
}

// isLost tells whether records of any name up to the LSN may be lost.
func (b *Bundle) isLost(lsn uint64) bool { return lsn <= b.lostThrough }

// salvage makes the link of a record that cannot be read, or that may not be the
// newest: its block is what follows from the record before it.
func (b *Bundle) salvage(reader chainReader, record *Record) (link, error) {
	if record == nil || record.LSN() == 0 {
		return link{}, fmt.Errorf("%w: head of a chain", format.ErrQuarantined)
	}
	l, err := reader.chainRecord(record.LSN())
	if err == nil || !errors.Is(err, format.ErrQuarantined) {
		return l, err
	}
	return rebuild(reader, record.Head)
}

// rebuild makes the link of a record from its header and the record before it.
func rebuild(reader chainReader, h format.Header) (link, error) {
	if h.Flags&format.FlagBlock == 0 {
		return newLink(h, nil)
	}
	c := Chain{reader: reader}
	if h.Previous != 0 {
		before, err := reader.chainRecord(h.Previous)
		if err != nil {
			return link{}, err
		}
		c.head, c.gap, c.cut = &before, before.block.Gap, before.block.Cut
	}
	a, err := c.repeat(&h)
	var older *OlderError
	if errors.As(err, &older) {
		err = fmt.Errorf("%w: head of a chain: %w", format.ErrQuarantined, err)
	}
	return link{head: h, block: a.block}, err
}

// repeat continues the chain with a record as it was once continued.
func (c *Chain) repeat(h *format.Header) (Addition, error) {
	if h.Type == format.TypeTombstone {
		return c.Remove(h.VersionID, h.Timestamp)
	}
	old, err := c.Find(h.VersionID)
	switch {
	case err == nil && old.Timestamp == h.Timestamp:
		return c.Rewrite(old)
	case err != nil && !errors.Is(err, ErrNoVersion):
		return Addition{}, err
	}
	return c.Add(h.VersionID, h.Timestamp)
}

// liveVersions returns the LSNs of all live versions of a name with that head.
// ErrQuarantined when damage hides some.
func (b *Bundle) liveVersions(hash format.Hash, head uint64) (map[uint64]bool, error) {
	reader := nameReader{b, hash}
	l, err := reader.chainRecord(head)
	if err != nil {
		return nil, err
	}
	if l.block.Gap {
		return nil, fmt.Errorf("%w: a part of the versions is lost", format.ErrQuarantined)
	}
	c := Chain{reader: reader, head: &l}
	live := make(map[uint64]bool)
	for list := c.list(); ; {
		v, ok, err := list.next()
		if err != nil || !ok {
			return live, err
		}
		live[v.LSN] = true
	}
}

// readLinked is readLSN for a record that another one refers to, so that it
// must be there.
func (b *Bundle) readLinked(hash format.Hash, lsn uint64, headOnly bool) (*Record, *Buffer, error) {
	record, buffer, err := b.readLSN(lsn, hash, headOnly)
	if err == nil && record == nil {
		buffer.Free()
		return nil, nil, fmt.Errorf("%w: %s record %d is not there", format.ErrQuarantined, b.directory, lsn)
	}
	return record, buffer, err
}

// ReadVersion reads the whole record of a version, as Read does.
func (b *Bundle) ReadVersion(hash format.Hash, v format.Reference) (*Record, *Buffer, error) {
	return b.readLinked(hash, v.LSN, false)
}

// ReadVersionHead is ReadVersion without the object's bytes and their checksums.
func (b *Bundle) ReadVersionHead(hash format.Hash, v format.Reference) (*Record, *Buffer, error) {
	return b.readLinked(hash, v.LSN, true)
}

// Doubts tells whether the version that a record of the name refers to as the newest
// may not be it: others were lost that were written after the record; or before it,
// and the version, or that there is none, is from before them; or there is none, where
// the name had others that cannot be read.
func (b *Bundle) Doubts(r *Record, newest format.Reference) bool {
	if newest.Timestamp.IsZero() {
		newest.LSN = 0
		if r.WasCut() {
			return true
		}
	}
	return r.doubtful || r.HasGap() && b.lostThrough > 0 && newest.LSN <= b.lostThrough
}
