package versions

import "martlet/object-server/bundle/format"

// Reader reads the records of one name's chain.
type Reader interface {
	// ReadLink returns header and block of a record. Damage is ErrQuarantined.
	ReadLink(lsn uint64) (Link, error)
}

// Link is a chain record as far as the chain goes.
type Link struct {
	Head  format.Header
	Block format.Block
}

// NewLink completes a record. One without a block is a name's only record so
// far: its null version, or the tombstone of that.
func NewLink(head format.Header, encoded []byte) (Link, error) {
	l := Link{Head: head}
	if head.Flags&format.FlagBlock != 0 {
		var err error
		l.Block, err = format.ParseBlock(encoded, head.LSN)
		return l, err
	}
	self := format.Reference{Timestamp: head.Timestamp}
	l.Block = format.Block{Null: self, Entries: 1}
	l.Head.Versions = 0
	if head.Type != format.TypeTombstone {
		l.Head.Versions, l.Block.NullLives, l.Block.Newest = 1, true, self
	}
	return l, nil
}

// version is the shallow header of the record itself.
func (l *Link) version() format.Version {
	h := &l.Head
	return format.Version{
		ID: h.VersionID, Timestamp: h.Timestamp, LSN: h.LSN, Size: h.Size,
		MetadataLength: h.MetadataLength, Type: h.Type, Signature: h.Signature,
	}
}

// resolve gives a reference of the record's block the record's own LSN, if it
// means that.
func (l *Link) resolve(r format.Reference) format.Reference {
	if r.LSN == 0 && !r.Timestamp.IsZero() {
		r.LSN = l.Head.LSN
	}
	return r
}

// newest refers to the version that counts when no id is given; no timestamp if
// there is none.
func (l *Link) newest() format.Reference { return l.resolve(l.Block.Newest) }

// latest is the latest timestamp in the chain, of whatever record.
func (l *Link) latest() format.Timestamp {
	t := later(l.Block.Bound, l.Head.Timestamp)
	for i := range l.Block.Listed {
		t = later(t, l.Block.Listed[i].Timestamp)
	}
	return t
}

func later(t, u format.Timestamp) format.Timestamp {
	if t.Compare(u) < 0 {
		return u
	}
	return t
}
