package device

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"

	"martlet/object-server/bundle"
	"martlet/object-server/bundle/buffers"
	"martlet/object-server/bundle/format"
	"martlet/object-server/vfs"
)

const (
	// largeBuffer is written at once; a multiple of the chunk size. It is not smaller, because a disk without a cache of
	// its own may lose a turn with each write.
	largeBuffer = 8 * format.ChunkSize
	// largeFlush bounds the unflushed bytes of one large file, so that a batch of
	// small writes does not wait for gigabytes.
	largeFlush = 32 << 20
)

// largeWriter fills a file that has no name yet, or a temporary one. It takes a place
// among the calls to the disk for each of them, and none while the client sends.
type largeWriter struct {
	device    *Device
	bundle    *bundle.Bundle // that the file was made for; it may be split before the file is linked
	id        uint64
	isNamed   bool // has a temporary name
	file      vfs.File
	buffer    *buffers.Buffer // what has not been written
	table     []byte          // checksums of what has been written
	reserved  int64           // bytes that are known to have room
	size      int64           // written to the file
	unflushed int64
}

// newLargeWriter makes the file; sizeHint bytes are reserved if it is not
// negative, so that a full disk is found before the client has sent them.
func (d *Device) newLargeWriter(at Location, sizeHint int64) (*largeWriter, error) {
	s, err := d.use(at)
	if err != nil {
		return nil, err
	}
	defer s.done()
	var random [8]byte
	if _, err := rand.Read(random[:]); err != nil {
		return nil, fmt.Errorf("device: %w", err)
	}
	w := &largeWriter{device: d, bundle: s.bundle, id: binary.LittleEndian.Uint64(random[:]) | 1} // 0 means none
	err = d.call(func() (err error) {
		w.file, w.isNamed, err = s.bundle.CreateLarge(w.id)
		return err
	})
	if err != nil {
		return nil, err
	}
	w.buffer = buffers.Get(largeBuffer)
	w.buffer.B = w.buffer.B[:0]
	if err := w.allocate(sizeHint); err != nil {
		w.close()
		return nil, err
	}
	return w, nil
}

func (w *largeWriter) allocate(size int64) error {
	if size <= 0 {
		return nil
	}
	if err := w.device.largeCalls.during(func() error { return w.file.Allocate(size) }); err != nil {
		return fmt.Errorf("device: %w", err)
	}
	w.reserved = size
	return nil
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
	if more := w.size + int64(len(w.buffer.B)) - w.reserved; more > 0 { // the sender did not say
		if err := w.device.room.enter(more); err != nil {
			return err
		}
		defer w.device.room.leave(more)
		w.reserved += more
	}
	w.table = format.AppendChunkTable(w.table, w.buffer.B)
	if err := w.write(); err != nil {
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

// write puts the buffer into the file. A full one goes past the page cache: the bytes would drive small objects out of
// it, and the copy costs processor time (doc/decisions/0023).
func (w *largeWriter) write() error {
	p := w.buffer.B
	block := w.file.DirectBlock()
	if len(p) == largeBuffer && block > 0 && largeBuffer%block == 0 && vfs.IsAligned(p) {
		return w.device.largeCalls.during(func() error { return w.file.WriteDirect(p, w.size) })
	}
	return w.device.call(func() error { return w.file.Writev([][]byte{p}, w.size) })
}

func (w *largeWriter) flush() error {
	w.device.counters.flushes.Add(1)
	if err := w.device.largeCalls.during(w.file.Datasync); err != nil {
		w.device.failed(err)
		return fmt.Errorf("device: %w", err)
	}
	w.unflushed = 0
	return nil
}

// finish makes all bytes durable. A crash after it leaves nothing, or a
// temporary name.
func (w *largeWriter) finish() error {
	if err := w.drain(); err != nil {
		return err
	}
	return w.flush()
}

// link names the finished file in a bundle. A crash after it leaves a file that no record
// names.
func (w *largeWriter) link(b *bundle.Bundle, m *format.Metadata) error {
	if err := w.device.calls.enter(); err != nil {
		return err
	}
	defer w.device.calls.leave()
	if err := bundle.WriteCopy(w.file, m); err != nil {
		return err
	}
	if err := b.LinkLarge(w.file, w.id); err != nil {
		w.device.failed(err)
		b.RemoveLarge(w.id)
		return err
	}
	return nil
}

func (w *largeWriter) close() {
	if w.file == nil {
		return
	}
	_ = w.file.Close() // durable by now, or given up
	w.file = nil
	if w.isNamed {
		w.bundle.RemoveLargeTemp(w.id)
	}
	w.buffer.Free()
	w.buffer = nil
}
