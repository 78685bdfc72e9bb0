package format

import (
	"encoding/binary"
	"slices"
)

// AppendChunkTable appends one checksum for each chunk of data to table. All
// chunks but the last of an object must be whole.
func AppendChunkTable(table, data []byte) []byte {
	for chunk := range slices.Chunk(data, ChunkSize) {
		table = binary.LittleEndian.AppendUint32(table, Checksum(chunk))
	}
	return table
}
