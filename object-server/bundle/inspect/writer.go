package inspect

import (
	"fmt"

	"martlet/object-server/bundle/format"
	"martlet/object-server/vfs"
)

// segmentWriter writes a segment that is complete from the start.
type segmentWriter struct {
	file    vfs.File
	salt    uint32
	buffer  []byte
	offset  int64 // of the buffer
	entries []format.Entry
}

// add appends a copy of a record, which becomes one of this segment.
func (w *segmentWriter) add(record []byte, h format.Header) error {
	at := len(w.buffer)
	w.entries = append(w.entries, h.Entry(uint32((w.offset+int64(at))/format.UnitSize)))
	w.buffer = append(w.buffer, record...)
	format.Restamp(w.buffer[at:], w.salt)
	if len(w.buffer) < pieceBytes {
		return nil
	}
	return w.flush()
}

func (w *segmentWriter) flush() error {
	if err := w.file.Writev([][]byte{w.buffer}, w.offset); err != nil {
		return fmt.Errorf("bundle: %w", err)
	}
	w.offset += int64(len(w.buffer))
	w.buffer = w.buffer[:0]
	return nil
}

// finish writes the footer and makes the file durable. A PAD with the last LSN
// ends the records, as compaction has it.
func (w *segmentWriter) finish(base, last uint64, through uint32) error {
	if n := len(w.entries); (n == 0 || w.entries[n-1].LSN < last) && last >= base {
		at := len(w.buffer)
		w.buffer = append(w.buffer, make([]byte, format.HeaderSize)...)
		h := format.Header{Type: format.TypePad, Units: format.HeaderSize / format.UnitSize, LSN: last, Salt: w.salt}
		h.Encode(w.buffer[at:])
	}
	samples := format.SamplesOf(w.entries, base)
	format.SortRun(w.entries)
	seal := format.Seal{Salt: w.salt, Base: base, Last: last, Through: through}
	footer, err := seal.Encode(w.entries, samples)
	if err != nil {
		return err
	}
	w.buffer = append(w.buffer, footer...)
	if err := w.flush(); err != nil {
		return err
	}
	if err := w.file.Datasync(); err != nil {
		return fmt.Errorf("bundle: %w", err)
	}
	return nil
}
