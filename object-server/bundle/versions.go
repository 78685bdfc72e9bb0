package bundle

import (
	"errors"
	"fmt"

	"martlet/object-server/bundle/buffers"
	"martlet/object-server/bundle/format"
	"martlet/object-server/bundle/versions"
)

// nameReader reads the chain of one name.
type nameReader struct {
	bundle *Bundle
	hash   format.Hash
}

func (r nameReader) ReadLink(lsn uint64) (versions.Link, error) {
	record, buffer, err := r.bundle.readLinked(r.hash, lsn, true)
	if err != nil {
		return versions.Link{}, err
	}
	defer buffer.Free()
	l, err := versions.NewLink(record.Head, record.Block)
	if err != nil {
		return l, fmt.Errorf("%w: %s record %d: %w", format.ErrQuarantined, r.bundle.directory, lsn, err)
	}
	return l, nil
}

// Chain is the chain of versions that a record is the head of. It takes what
// Read or ReadHead returned: the record, nil for none, and the damage, nil for
// none. Where the record is damaged the chain is taken from the one before it;
// where that cannot be told the chain is Incomplete.
func (b *Bundle) Chain(hash format.Hash, record *Record, damage error) (*versions.Chain, error) {
	reader := nameReader{b, hash}
	c := versions.New(reader, b.config.Versions, b.opened, hash)
	if record == nil && damage == nil {
		return c, nil
	}
	var l versions.Link
	var err error
	if damage == nil {
		if l, err = versions.NewLink(record.Head, record.Block); err != nil {
			damage = err
		}
	}
	if damage != nil {
		l, err = b.salvage(reader, record)
	}
	if err == nil {
		c.Start(l, b.lostThrough)
		return c, nil
	}
	if !errors.Is(err, format.ErrQuarantined) {
		return nil, err
	}
	c.Sever(record != nil)
	return c, nil
}

// isLost tells whether records of any name up to the LSN may be lost.
func (b *Bundle) isLost(lsn uint64) bool { return lsn <= b.lostThrough }

// salvage makes the link of a record that cannot be read, or that may not be the
// newest: its block is what follows from the record before it.
func (b *Bundle) salvage(reader versions.Reader, record *Record) (versions.Link, error) {
	if record == nil || record.LSN() == 0 {
		return versions.Link{}, fmt.Errorf("%w: head of a chain", format.ErrQuarantined)
	}
	l, err := reader.ReadLink(record.LSN())
	if err == nil || !errors.Is(err, format.ErrQuarantined) {
		return l, err
	}
	return versions.Rebuild(reader, record.Head)
}

// LiveVersions returns the LSNs of all live versions of a name with that head.
// ErrQuarantined when damage hides some.
func (b *Bundle) LiveVersions(hash format.Hash, head uint64) (map[uint64]bool, error) {
	c, err := versions.At(nameReader{b, hash}, head)
	if err != nil {
		return nil, err
	}
	return c.Live()
}

// readLinked is readLSN for a record that another one refers to, so that it
// must be there.
func (b *Bundle) readLinked(hash format.Hash, lsn uint64, headOnly bool) (*Record, *buffers.Buffer, error) {
	record, buffer, err := b.readLSN(lsn, hash, headOnly)
	if err == nil && record == nil {
		buffer.Free()
		return nil, nil, fmt.Errorf("%w: %s record %d is not there", format.ErrQuarantined, b.directory, lsn)
	}
	return record, buffer, err
}

// ReadVersion reads the whole record of a version, as Read does.
func (b *Bundle) ReadVersion(hash format.Hash, v format.Reference) (*Record, *buffers.Buffer, error) {
	return b.readLinked(hash, v.LSN, false)
}

// ReadVersionHead is ReadVersion without the object's bytes and their checksums.
func (b *Bundle) ReadVersionHead(hash format.Hash, v format.Reference) (*Record, *buffers.Buffer, error) {
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
