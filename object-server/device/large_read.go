package device

import (
	"io"
	"sync"
	"time"

	"martlet/object-server/bundle/buffers"
	"martlet/object-server/bundle/format"
	"martlet/object-server/vfs"
)

const (
	// pastCacheMin is the length from which on a read of a large file goes past the page cache. Readers of parts seldom ask
	// for more at a time than those who want all.
	pastCacheMin = 4 << 20
	// readLatelyFor and readLatelyMax are how long it is remembered at least that a part was read, and how many parts at most.
	readLatelyFor = 10 * time.Minute
	readLatelyMax = 4096
)

// readLately remembers which parts of large files were read in the last minutes. What is read once goes past the page
// cache: it would drive small objects out, and the copy costs processor time. What is read again is worth its place there
// (doc/decisions/0027).
type readLately struct {
	mu         sync.Mutex
	now, older map[largePart]struct{} // the parts of two intervals
	began      int64                  // the interval of now; by the clock
}

// largePart is a read of a large file that begins in the given multiple of pastCacheMin.
type largePart struct {
	id    uint64
	index int64
}

// again notes a read, and tells whether it is known.
func (r *readLately) again(part largePart) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if age := clock() - r.began; r.now == nil || age > int64(readLatelyFor) || len(r.now) >= readLatelyMax {
		if r.older = r.now; age > 2*int64(readLatelyFor) {
			r.older = nil
		}
		r.now, r.began = make(map[largePart]struct{}), clock()
	}
	_, isNow := r.now[part]
	_, isOlder := r.older[part]
	r.now[part] = struct{}{}
	return isNow || isOlder
}

// writeLarge reads the touched chunks of the large file, some at a time.
func (o *Object) writeLarge(w io.Writer, off, n int64) error {
	buffer := buffers.Get(largeBuffer)
	defer buffer.Free()
	read := o.readLarge
	if o.isPastCache(off, n, buffer.B) {
		read = o.readPastCache
	}
	for n > 0 {
		first := off / format.ChunkSize * format.ChunkSize
		need := (off + n - first + format.ChunkSize - 1) / format.ChunkSize * format.ChunkSize
		p := buffer.B[:min(largeBuffer, need, o.record.Size()-first)]
		if err := read(p, first); err != nil {
			return err
		}
		if err := o.check(first, p); err != nil {
			return err
		}
		part := p[off-first:]
		part = part[:min(int64(len(part)), n)]
		if _, err := w.Write(part); err != nil {
			return err
		}
		off, n = off+int64(len(part)), n-int64(len(part))
	}
	return nil
}

// readLarge reads from the large file. Nothing is held while the client takes it.
func (o *Object) readLarge(p []byte, offset int64) error {
	if err := o.device.calls.enter(); err != nil {
		return err
	}
	defer o.device.calls.leave()
	if read, err := o.large.ReadAt(p, offset); read < len(p) {
		return o.unreadable(err)
	}
	return nil
}

// isPastCache tells whether a read of the large file into memory goes past the page cache.
func (o *Object) isPastCache(off, n int64, memory []byte) bool {
	if n < pastCacheMin || !vfs.IsAligned(memory) {
		return false
	}
	block := o.large.DirectBlock()
	if block == 0 || format.ChunkSize%block != 0 {
		return false
	}
	return !o.device.readLately.again(largePart{o.record.LargeID, off / pastCacheMin})
}

// readPastCache is readLarge past the page cache. p lies at the start of a buffer for whole chunks. What cannot be read so
// is read through the cache, whose error counts.
func (o *Object) readPastCache(p []byte, offset int64) error {
	if err := o.device.calls.enter(); err != nil {
		return err
	}
	chunks := (len(p) + format.ChunkSize - 1) / format.ChunkSize * format.ChunkSize
	read, _ := o.large.ReadDirect(p[:chunks], offset)
	o.device.calls.leave()
	if read < len(p) {
		return o.readLarge(p, offset)
	}
	return nil
}
