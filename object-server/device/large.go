package device

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"

	"martlet/object-server/bundle"
	"martlet/object-server/vfs"
)

const (
	// largeBuffer is written at once; a multiple of the chunk size.
	largeBuffer = 4 * bundle.ChunkSize
	// largeFlush bounds the unflushed bytes of one large file, so that a batch of
	// small writes does not wait for gigabytes.
	largeFlush = 32 << 20
	// metadataXattr holds a copy of the metadata of a large file.
	metadataXattr = "user.martlet.metadata"
	// xattrMax is what every supported file system can store.
	xattrMax = 2 << 10
)

// largeWriter fills a file that has no name yet.
type largeWriter struct {
	device    *Device
	file      vfs.File
	buffer    *bundle.Buffer // what has not been written
	table     []byte         // checksums of what has been written
	size      int64          // written to the file
	unflushed int64
}

// newLargeWriter makes the file; sizeHint bytes are reserved if it is not
// negative, so that a full disk is found before the client has sent them.
func (d *Device) newLargeWriter(sizeHint int64) (*largeWriter, error) {
	file, err := d.fs.CreateTemp(d.root)
	if err != nil {
		return nil, fmt.Errorf("device: %w", err)
	}
	w := &largeWriter{device: d, file: file, buffer: bundle.GetBuffer(largeBuffer)}
	w.buffer.B = w.buffer.B[:0]
	if sizeHint > 0 {
		if err := file.Allocate(sizeHint); err != nil {
			w.close()
			return nil, fmt.Errorf("device: %w", err)
		}
	}
	return w, nil
}

// Write collects whole buffers and writes them.
func (w *largeWriter) Write(p []byte) error {
	for len(p) > 0 {
		n := min(len(p), largeBuffer-len(w.buffer.B))
		w.buffer.B = append(w.buffer.B, p[:n]...)
		p = p[n:]
		if len(w.buffer.B) == largeBuffer {
			if err := w.drain(); err != nil {
				return err
			}
		}
	}
	return nil
}

// drain writes the buffer and checksums it.
func (w *largeWriter) drain() error {
	if len(w.buffer.B) == 0 {
		return nil
	}
	w.table = bundle.AppendChunkTable(w.table, w.buffer.B)
	if err := w.file.Writev([][]byte{w.buffer.B}, w.size); err != nil {
		w.device.failed(err)
		return fmt.Errorf("device: %w", err)
	}
	w.device.counters.bytesWritten.Add(uint64(len(w.buffer.B)))
	w.size += int64(len(w.buffer.B))
	w.unflushed += int64(len(w.buffer.B))
	w.buffer.B = w.buffer.B[:0]
	if w.unflushed >= largeFlush {
		return w.flush()
	}
	return nil
}

func (w *largeWriter) flush() error {
	w.device.counters.flushes.Add(1)
	if err := w.file.Datasync(); err != nil {
		w.device.failed(err)
		return fmt.Errorf("device: %w", err)
	}
	w.unflushed = 0
	return nil
}

// finish makes all bytes durable. A crash after it leaves nothing: the file has
// no name.
func (w *largeWriter) finish() error {
	if err := w.drain(); err != nil {
		return err
	}
	return w.flush()
}

// link names the finished file. A crash after it leaves a file that no record
// names.
func (w *largeWriter) link(b *bundle.Bundle, m *bundle.Metadata) (id uint64, err error) {
	if err := copyMetadata(w.file, m); err != nil {
		return 0, err
	}
	var random [8]byte
	if _, err := rand.Read(random[:]); err != nil {
		return 0, fmt.Errorf("device: %w", err)
	}
	id = binary.LittleEndian.Uint64(random[:]) | 1 // 0 means none
	if err := b.LinkLarge(w.file, id); err != nil {
		w.device.failed(err)
		b.RemoveLarge(id)
		return 0, err
	}
	return id, nil
}

func (w *largeWriter) close() {
	if w.file == nil {
		return
	}
	_ = w.file.Close() // durable by now, or given up
	w.file = nil
	w.buffer.Free()
	w.buffer = nil
}

// copyMetadata stores the metadata beside the bytes, for people and tools that
// look at the file. It is left out where it does not fit.
func copyMetadata(file vfs.File, m *bundle.Metadata) error {
	encoded, err := m.MarshalMsg(nil)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrTooLarge, err)
	}
	if len(encoded) > xattrMax {
		return nil
	}
	if err := file.SetXattr(metadataXattr, encoded); err != nil && !errors.Is(err, vfs.ErrNoXattr) {
		return fmt.Errorf("device: %w", err)
	}
	return nil
}
