package bundle

import (
	"errors"
	"fmt"
	"sync"
	"syscall"
)

// Bundle is the open log of one partition. Lookup, Read and Quarantine are safe
// for concurrent use; Append, Publish and Discard belong to one committer.
type Bundle struct {
	id          ID
	directory   string
	files       *Files
	segmentSize int64

	mu          sync.RWMutex
	index       index  // guarded by mu
	lostThrough uint64 // names unknown up to this LSN are in quarantine; fixed after Open
	report      Report

	// The rest belongs to the committer.
	lastLSN      uint64   // all up to here is durable
	provenLSN    uint64   // watermark in the newest record: durable whatever becomes of the tail
	padded       bool     // the newest record is a PAD
	active       *segment // nil: the next append makes one
	nextSequence uint32
	pending      Appended

	dirMu        sync.Mutex
	dirDurable   bool // directories up to the device are durable; guarded by dirMu
	largeDurable bool // and so is large/; guarded by dirMu
}

// segment is the one that grows.
type segment struct {
	sequence uint32
	salt     uint32
	tail     int64 // end of the durable records
}

// Report tells what opening a bundle met.
type Report struct {
	Records    int      // records that count, of any type
	TornTails  int      // segments whose unacknowledged end is void
	Damaged    []string // extents in quarantine, for the log
	LargeSwept int      // large files that no record named
}

// Report tells what opening met; it does not change afterwards.
func (b *Bundle) Report() Report { return b.report }

// Len is the number of names in the index, tombstones included.
func (b *Bundle) Len() int {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return len(b.index.entries)
}

// Lookup finds the newest record of a name without reading. ok is false if
// there is none; ErrQuarantined if damage makes that uncertain, together with
// what is known.
func (b *Bundle) Lookup(hash Hash) (e Entry, ok bool, err error) {
	b.mu.RLock()
	e, ok = b.index.get(hash)
	b.mu.RUnlock()
	if e.LSN <= b.lostThrough && b.lostThrough > 0 {
		return e, ok, fmt.Errorf("%w: records up to %d of partition %d are lost",
			ErrQuarantined, b.lostThrough, b.id.Partition)
	}
	if e.Quarantined {
		return e, ok, fmt.Errorf("%w: %s record %d", ErrQuarantined, b.directory, e.LSN)
	}
	return e, ok, nil
}

// Read reads the whole record of an entry with one pread and checks all but the
// object's bytes. The record is valid until the buffer is freed. Damage puts
// the name into quarantine and is ErrQuarantined, as is a bad sector.
func (b *Bundle) Read(hash Hash, e *Entry) (*Record, *Buffer, error) {
	buffer, err := b.pread(e, int(e.Units)*unitSize)
	if err != nil {
		return nil, nil, unreadable(err)
	}
	record, err := parseRecord(buffer.B)
	if err == nil {
		err = record.head.matches(hash, e)
	}
	if err != nil {
		buffer.Free()
		return nil, nil, b.damaged(hash, e, err)
	}
	return record, buffer, nil
}

// metadataGuess is what ReadMetadata reads at first: nearly always enough.
const metadataGuess = 2048

// ReadMetadata reads header and metadata of an entry, usually with one pread.
func (b *Bundle) ReadMetadata(hash Hash, e *Entry) (*Metadata, error) {
	size := int(e.Units) * unitSize
	for guess := min(metadataGuess, size); ; {
		buffer, err := b.pread(e, guess)
		if err != nil {
			return nil, unreadable(err)
		}
		m, need, err := parseMetadata(buffer.B, hash, e)
		buffer.Free()
		if err != nil {
			return nil, b.damaged(hash, e, err)
		}
		if m != nil {
			return m, nil
		}
		guess = need
	}
}

// parseMetadata decodes the metadata of the record that starts in p, or returns
// how many bytes it needs.
func parseMetadata(p []byte, hash Hash, e *Entry) (*Metadata, int, error) {
	h, err := parseHeader(p)
	if err != nil {
		return nil, 0, err
	}
	if err := h.matches(hash, e); err != nil {
		return nil, 0, err
	}
	end := headerSize + int(h.MetadataLength)
	if end > len(p) {
		return nil, end, nil
	}
	if checksum(p[headerSize:end]) != h.MetadataCRC {
		return nil, 0, fmt.Errorf("%w: metadata", errDamaged)
	}
	m, err := decodeMetadata(p[headerSize:end])
	return m, end, err
}

// matches tells whether the header is of the record that was looked for.
func (h *header) matches(hash Hash, e *Entry) error {
	if h.Hash != hash || h.LSN != e.LSN || h.Type != e.Type || h.Units != e.Units {
		return fmt.Errorf("%w: record of another name or sequence number", errDamaged)
	}
	return nil
}

func (b *Bundle) pread(e *Entry, length int) (*Buffer, error) {
	h, err := b.files.get(fileKey{b.id, e.Segment})
	if err != nil {
		return nil, err
	}
	defer h.release()
	buffer := GetBuffer(length)
	if n, err := h.ReadAt(buffer.B, int64(e.Unit)*unitSize); n < length {
		buffer.Free()
		return nil, fmt.Errorf("bundle: %s record %d: %w", b.directory, e.LSN, err)
	}
	return buffer, nil
}

// unreadable turns the error of a read from a bad sector into ErrQuarantined,
// for this read alone: the next may succeed.
func unreadable(err error) error {
	if errors.Is(err, syscall.EIO) {
		return fmt.Errorf("%w: %w", ErrQuarantined, err)
	}
	return err
}

// damaged turns the error of a check into ErrQuarantined and marks the name.
// An unsupported record was readable when the bundle was opened, so it counts
// as damage here.
func (b *Bundle) damaged(hash Hash, e *Entry, err error) error {
	if !errors.Is(err, errDamaged) && !errors.Is(err, ErrUnsupported) {
		return err
	}
	b.Quarantine(hash, e.LSN)
	return fmt.Errorf("%w: %s record %d: %w", ErrQuarantined, b.directory, e.LSN, err)
}

// Quarantine stops the record with that LSN from being served; a newer write of
// the name ends it.
func (b *Bundle) Quarantine(hash Hash, lsn uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.index.quarantine(hash, lsn)
}
