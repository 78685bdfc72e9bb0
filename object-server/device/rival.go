package device

import (
	"errors"
	"fmt"
	"io"
	"syscall"
	"time"

	"martlet/object-server/bundle"
	"martlet/object-server/bundle/buffers"
	"martlet/object-server/bundle/format"
	"martlet/object-server/bundle/versions"
)

// rival is a PUT or a DELETE as far as it is compared with what is stored. The
// object's lock is held.
type rival struct {
	bundle   *bundle.Bundle
	hash     format.Hash
	kind     format.Type // PUT, TOMBSTONE or DELETE MARKER
	metadata *format.Metadata
	isLost   func(lsn uint64) bool // of a record whose data are known to be damaged; nil: none is
	isOfPeer bool                  // it is a record of another replica
	now      uint64                // ticks, by the clock of this host; 0 for a record of a peer
	moves    bool                  // it is the removal of a version that was moved to another policy
	revives  bool                  // its lock wins over what is stored, set by previous and by add
}

// winsTie tells whether the write replaces a record of the same time: a delete
// replaces data, and of two data the same ones win on every replica. A replica may
// repair a damaged record with its own copy of the same write. Of two null delete
// markers, one that clients see is replaced by one that they do not see.
func (w *rival) winsTie(record *bundle.Record, damage error) bool {
	if w.kind != format.TypePut {
		isSeen := record.VersionID().IsNull() && isMarker(record)
		return record.Live() || damage != nil || isSeen && !w.metadata.MarksNull()
	}
	if !record.Live() || damage != nil {
		return record.Live()
	}
	stored, err := record.Metadata()
	if err != nil {
		return true
	}
	c := w.metadata.CompareData(stored)
	return c > 0 || c == 0 && (w.metadata.CompareMeta(stored) > 0 || w.metadata.CompareType(stored) > 0)
}

// mends tells whether the write is the one whose data are lost with a record.
func (w *rival) mends(record *bundle.Record) bool {
	if w.isLost == nil || w.kind != format.TypePut || !record.Live() || !w.isLost(record.LSN()) {
		return false
	}
	stored, err := record.Metadata()
	return err == nil && w.metadata.CompareData(stored) == 0
}

// add continues a chain with the write as a version.
func (w *rival) add(c *versions.Chain) (versions.Addition, error) {
	id, t := w.metadata.VersionID, w.metadata.Timestamp
	a, refused := c.Add(id, t)
	var older *OlderError
	if errors.As(refused, &older) {
		isLocked, err := w.outlasts(c)
		if err != nil {
			return a, err
		}
		if isLocked {
			w.revives = true
			return c.Revive(id, t)
		}
	}
	if older == nil || older.Existing != t {
		return a, refused
	}
	stored, err := c.Find(id)
	if err != nil || stored.Timestamp != t { // it was removed, or cannot be told
		return a, refused
	}
	record, buffer, damage := w.bundle.ReadVersionHead(w.hash, stored)
	defer buffer.Free()
	if damage == nil && w.isLost != nil && w.isLost(stored.LSN) {
		damage = ErrQuarantined
	}
	if record == nil || record.LSN() == 0 || !w.winsTie(record, damage) {
		return a, refused
	}
	return c.AddOver(id, t)
}

// Reads that fail may succeed when they are repeated.
const (
	readAttempts = 3
	readPause    = 20 * time.Millisecond
)

// readStored reads the newest record of a name for a write that is about to replace
// it. ErrUnknown if its header cannot be read, and the next read may succeed, and show
// that the record is newer than the write; or if the header is damaged, and the record
// may be newer than a write of the time t.
func readStored(b *bundle.Bundle, hash format.Hash, t format.Timestamp) (record *bundle.Record, buffer *buffers.Buffer, damage, err error) {
	for n := 1; ; n++ {
		record, buffer, damage = b.ReadHead(hash)
		if damage != nil && !errors.Is(damage, ErrQuarantined) {
			return record, buffer, nil, damage
		}
		isUnread := isUnread(record, damage)
		if !isUnread && (damage == nil || record == nil || record.LSN() != 0 || b.IsLater(record, t)) {
			return record, buffer, damage, nil
		}
		if !isUnread || n == readAttempts {
			return record, buffer, damage, fmt.Errorf("%w: %v", ErrUnknown, damage)
		}
		buffer.Free()
		time.Sleep(readPause)
	}
}

// isUnread tells whether a bad sector, or the end of a file that was cut off, kept
// the header of a record from being read.
func isUnread(record *bundle.Record, damage error) bool {
	return record != nil && record.LSN() == 0 &&
		(errors.Is(damage, syscall.EIO) || errors.Is(damage, io.EOF) || errors.Is(damage, io.ErrUnexpectedEOF))
}
