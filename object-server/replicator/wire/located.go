package wire

import (
	"encoding/binary"
	"fmt"
	"io"

	"martlet/object-server/bundle"
	"martlet/object-server/bundle/format"
)

// NameLocate is a stream: the request is an ExportRequest, the answer where the records lie.
const NameLocate = "replica.locate"

// The answer is, for each segment, its head and the entries; at the end a head of zeros, and what follows the length of 0 at
// the end of a stream of records. All numbers are little-endian.
//
//	head: number of entries 4 (not 0) | sequence 4 | generation 4 | salt 4 | LSN of the first record 8
//	entry: as in a run, 48
const (
	locatedHeadSize = 24
	entriesAtOnce   = 1024
	// locatedMax bounds the entries of one answer, and with it the memory that it takes.
	locatedMax = 1 << 22
)

// WriteLocated writes where records lie.
func WriteLocated(w io.Writer, all []bundle.Located, done bundle.Exported) error {
	le := binary.LittleEndian
	var b []byte
	for i := range all {
		s := &all[i]
		b = le.AppendUint32(b[:0], uint32(len(s.Entries)))
		b = le.AppendUint32(b, s.Sequence)
		b = le.AppendUint32(b, s.Generation)
		b = le.AppendUint32(b, s.Salt)
		b = le.AppendUint64(b, s.Base)
		b = format.AppendRun(b, s.Base, s.Entries)
		if _, err := w.Write(b); err != nil {
			return err
		}
	}
	if _, err := w.Write(make([]byte, locatedHeadSize-4)); err != nil {
		return err
	}
	return WriteEnd(w, done)
}

// ReadLocated is the inverse of WriteLocated.
func ReadLocated(r io.Reader) (all []bundle.Located, done bundle.Exported, err error) {
	le := binary.LittleEndian
	total := uint32(0)
	for {
		var head [locatedHeadSize]byte
		if _, err := io.ReadFull(r, head[:]); err != nil {
			return nil, done, cut(err)
		}
		count := le.Uint32(head[:])
		if count == 0 {
			done, err = readEnd(r)
			return all, done, err
		}
		if count > locatedMax || total > locatedMax-count {
			return nil, done, fmt.Errorf("%w: more than %d records", ErrMalformed, locatedMax)
		}
		total += count
		s := bundle.Located{
			Sequence: le.Uint32(head[4:]), Generation: le.Uint32(head[8:]), Salt: le.Uint32(head[12:]), Base: le.Uint64(head[16:]),
		}
		if s.Entries, err = readEntries(r, int(count), s.Base); err != nil {
			return nil, done, err
		}
		all = append(all, s)
	}
}

// readEntries takes memory as the entries come.
func readEntries(r io.Reader, count int, base uint64) (entries []format.Entry, err error) {
	b := make([]byte, min(count, entriesAtOnce)*format.EntrySize)
	for count > 0 {
		piece := b[:min(count, entriesAtOnce)*format.EntrySize]
		if _, err := io.ReadFull(r, piece); err != nil {
			return nil, cut(err)
		}
		if entries, err = format.ParseRun(entries, piece, base, 1<<62); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrMalformed, err)
		}
		count -= len(piece) / format.EntrySize
	}
	return entries, nil
}
