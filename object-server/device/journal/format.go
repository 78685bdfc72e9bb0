package journal

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
	block      = 4096 // batches start at multiples of it
	version    = 1
	headerSize = 64
	extentSize = 32
)

var (
	magic      = [4]byte{'m', 'r', 'J', 'B'}
	castagnoli = crc32.MakeTable(crc32.Castagnoli)

	// errNoBatch: the bytes are not a whole batch.
	errNoBatch = errors.New("journal: no batch")
)

// Limits of Config.Bytes.
const (
	BytesMin = 2 * block
	BytesMax = 4 << 30 // a batch has its length in 32 bits
)

// header begins each batch in the journal.
//
//	0 magic 4 | version 1 | reserved 1 | flags 2 | number 8
//	16 salt 8 | destaged 8 | length 4 | extents 4 | body CRC 4
//	44 reserved 16 | header CRC 4
type header struct {
	Number   uint64 // of the batch; they ascend by 1 within a file
	Salt     uint64 // random, drawn when the file was begun anew
	Destaged uint64 // batches up to this number were durable in the bundles
	Length   uint32 // bytes of header, table and extents, without padding
	Extents  uint32
	BodyCRC  uint32 // over table and extents
}

func (h *header) encode(b []byte) {
	clear(b[:headerSize])
	le := binary.LittleEndian
	copy(b, magic[:])
	b[4] = version
	le.PutUint64(b[8:], h.Number)
	le.PutUint64(b[16:], h.Salt)
	le.PutUint64(b[24:], h.Destaged)
	le.PutUint32(b[32:], h.Length)
	le.PutUint32(b[36:], h.Extents)
	le.PutUint32(b[40:], h.BodyCRC)
	le.PutUint32(b[60:], crc32.Checksum(b[:60], castagnoli))
}

// parseHeader reads a header; errNoBatch when there is none, and
// format.ErrUnsupported when a later version wrote it.
func parseHeader(b []byte) (header, error) {
	le := binary.LittleEndian
	if len(b) < headerSize || [4]byte(b) != magic ||
		le.Uint32(b[60:]) != crc32.Checksum(b[:60], castagnoli) {
		return header{}, errNoBatch
	}
	if flags := le.Uint16(b[6:]); b[4] != version || flags >= 1<<8 {
		return header{}, fmt.Errorf("%w: journal version %d, flags %#x", format.ErrUnsupported, b[4], flags)
	}
	h := header{
		Number: le.Uint64(b[8:]), Salt: le.Uint64(b[16:]), Destaged: le.Uint64(b[24:]),
		Length: le.Uint32(b[32:]), Extents: le.Uint32(b[36:]), BodyCRC: le.Uint32(b[40:]),
	}
	if uint64(h.Length) < headerSize+uint64(h.Extents)*extentSize {
		return header{}, errNoBatch
	}
	return h, nil
}

// parseBody reads the extents of a batch. They share the memory of body.
func (h *header) parseBody(body []byte) ([]bundle.Extent, error) {
	if uint64(len(body)) != uint64(h.Length)-headerSize || crc32.Checksum(body, castagnoli) != h.BodyCRC {
		return nil, errNoBatch
	}
	le := binary.LittleEndian
	table, data := body[:h.Extents*extentSize], body[h.Extents*extentSize:]
	extents := make([]bundle.Extent, h.Extents)
	for i := range extents {
		b := table[i*extentSize:]
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
func encodeBatch(h *header, extents []bundle.Extent) (buffers [][]byte, length int64) {
	head := make([]byte, headerSize+len(extents)*extentSize)
	le := binary.LittleEndian
	buffers = append(make([][]byte, 0, 2*len(extents)+2), head)
	length = int64(len(head))
	for i, e := range extents {
		size := int64(0)
		for _, p := range e.Bytes {
			size += int64(len(p))
		}
		b := head[headerSize+i*extentSize:]
		le.PutUint32(b, uint32(e.Policy))
		le.PutUint32(b[4:], e.Partition)
		le.PutUint32(b[8:], e.Sequence)
		le.PutUint64(b[16:], uint64(e.Offset))
		le.PutUint32(b[24:], uint32(size))
		buffers = append(buffers, e.Bytes...)
		length += size
	}
	h.Length, h.Extents = uint32(length), uint32(len(extents))
	h.BodyCRC = crc32.Checksum(head[headerSize:], castagnoli)
	for _, p := range buffers[1:] {
		h.BodyCRC = crc32.Update(h.BodyCRC, castagnoli, p)
	}
	h.encode(head)
	whole := padded(length)
	return append(buffers, make([]byte, whole-length)), whole
}

// padded rounds up to whole blocks.
func padded(length int64) int64 {
	return (length + block - 1) / block * block
}

// Room is the most that a batch takes in the journal, of so many records and bytes of
// theirs.
func Room(records int, bytes int64) int64 {
	return padded(headerSize + bytes + int64(records)*(extentSize+format.SegmentHeaderSize))
}
