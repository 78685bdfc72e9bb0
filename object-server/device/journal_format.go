package device

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"

	"martlet/object-server/bundle"
	"martlet/object-server/bundle/format"
)

// The layout is that of doc/formats/journal.md.
const (
	journalBlock      = 4096 // batches start at multiples of it
	journalVersion    = 1
	journalHeaderSize = 64
	journalExtentSize = 32
)

var (
	journalMagic = [4]byte{'m', 'r', 'J', 'B'}
	castagnoli   = crc32.MakeTable(crc32.Castagnoli)

	// errNoBatch: the bytes are not a whole batch.
	errNoBatch = errors.New("device: no batch of the journal")
)

// journalHeader begins each batch in the journal.
//
//	0 magic 4 | version 1 | reserved 1 | flags 2 | number 8
//	16 salt 8 | destaged 8 | length 4 | extents 4 | body CRC 4
//	44 reserved 16 | header CRC 4
type journalHeader struct {
	Number   uint64 // of the batch; they ascend by 1 within a file
	Salt     uint64 // random, drawn when the file was begun anew
	Destaged uint64 // batches up to this number were durable in the bundles
	Length   uint32 // bytes of header, table and extents, without padding
	Extents  uint32
	BodyCRC  uint32 // over table and extents
}

func (h *journalHeader) encode(b []byte) {
	clear(b[:journalHeaderSize])
	le := binary.LittleEndian
	copy(b, journalMagic[:])
	b[4] = journalVersion
	le.PutUint64(b[8:], h.Number)
	le.PutUint64(b[16:], h.Salt)
	le.PutUint64(b[24:], h.Destaged)
	le.PutUint32(b[32:], h.Length)
	le.PutUint32(b[36:], h.Extents)
	le.PutUint32(b[40:], h.BodyCRC)
	le.PutUint32(b[60:], crc32.Checksum(b[:60], castagnoli))
}

// parseJournalHeader reads a header; errNoBatch when there is none, and
// format.ErrUnsupported when a later version wrote it.
func parseJournalHeader(b []byte) (journalHeader, error) {
	le := binary.LittleEndian
	if len(b) < journalHeaderSize || [4]byte(b) != journalMagic ||
		le.Uint32(b[60:]) != crc32.Checksum(b[:60], castagnoli) {
		return journalHeader{}, errNoBatch
	}
	if flags := le.Uint16(b[6:]); b[4] != journalVersion || flags >= 1<<8 {
		return journalHeader{}, fmt.Errorf("%w: journal version %d, flags %#x", format.ErrUnsupported, b[4], flags)
	}
	h := journalHeader{
		Number: le.Uint64(b[8:]), Salt: le.Uint64(b[16:]), Destaged: le.Uint64(b[24:]),
		Length: le.Uint32(b[32:]), Extents: le.Uint32(b[36:]), BodyCRC: le.Uint32(b[40:]),
	}
	if uint64(h.Length) < journalHeaderSize+uint64(h.Extents)*journalExtentSize {
		return journalHeader{}, errNoBatch
	}
	return h, nil
}

// parseBody reads the extents of a batch. They share the memory of body.
func (h *journalHeader) parseBody(body []byte) ([]bundle.Extent, error) {
	if uint64(len(body)) != uint64(h.Length)-journalHeaderSize || crc32.Checksum(body, castagnoli) != h.BodyCRC {
		return nil, errNoBatch
	}
	le := binary.LittleEndian
	table, data := body[:h.Extents*journalExtentSize], body[h.Extents*journalExtentSize:]
	extents := make([]bundle.Extent, h.Extents)
	for i := range extents {
		b := table[i*journalExtentSize:]
		offset, length := le.Uint64(b[16:]), le.Uint32(b[24:])
		if uint64(length) > uint64(len(data)) || offset > math.MaxInt64-uint64(length) {
			return nil, errNoBatch
		}
		extents[i] = bundle.Extent{
			ID:       bundle.ID{Policy: int(le.Uint32(b)), Partition: le.Uint32(b[4:])},
			Sequence: le.Uint32(b[8:]), Offset: int64(offset), Bytes: [][]byte{data[:length:length]},
		}
		data = data[length:]
	}
	if len(data) != 0 {
		return nil, errNoBatch
	}
	return extents, nil
}

// encodeBatch returns the batch as it is to be written: a fresh header with the
// table, the bytes of the extents, and zeros up to the next block.
func encodeBatch(h *journalHeader, extents []bundle.Extent) (buffers [][]byte, length int64) {
	head := make([]byte, journalHeaderSize+len(extents)*journalExtentSize)
	le := binary.LittleEndian
	buffers = append(make([][]byte, 0, 2*len(extents)+2), head)
	length = int64(len(head))
	for i, e := range extents {
		size := int64(0)
		for _, p := range e.Bytes {
			size += int64(len(p))
		}
		b := head[journalHeaderSize+i*journalExtentSize:]
		le.PutUint32(b, uint32(e.Policy))
		le.PutUint32(b[4:], e.Partition)
		le.PutUint32(b[8:], e.Sequence)
		le.PutUint64(b[16:], uint64(e.Offset))
		le.PutUint32(b[24:], uint32(size))
		buffers = append(buffers, e.Bytes...)
		length += size
	}
	h.Length, h.Extents = uint32(length), uint32(len(extents))
	h.BodyCRC = crc32.Checksum(head[journalHeaderSize:], castagnoli)
	for _, p := range buffers[1:] {
		h.BodyCRC = crc32.Update(h.BodyCRC, castagnoli, p)
	}
	h.encode(head)
	padded := journalPadded(length)
	return append(buffers, make([]byte, padded-length)), padded
}

// journalPadded rounds up to whole blocks.
func journalPadded(length int64) int64 {
	return (length + journalBlock - 1) / journalBlock * journalBlock
}

// journalRoom is what a batch takes in the journal at most.
func journalRoom(batch []*write) int64 {
	room := int64(journalHeaderSize)
	for _, w := range batch {
		room += w.draft.Len() + journalExtentSize + format.SegmentHeaderSize
	}
	return journalPadded(room)
}
