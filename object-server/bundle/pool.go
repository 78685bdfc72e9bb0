package bundle

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"martlet/object-server/bundle/segment"
	"martlet/object-server/vfs"
)

// PoolDirectory is the folder of emptied segment files under a device's root.
const PoolDirectory = "recycled"

const (
	poolSuffix   = ".free"
	poolFilesMax = 1024
	poolLeast    = 256 << 10 // bytes for records, where segments are of the usual size
)

// pool keeps files of segments that compaction has emptied, until they become
// segments again: what is written to blocks that were written before costs a file
// system nothing but these bytes. It has the only copy of nothing. See
// doc/decisions/0011-recycled-segments.md. It is safe for concurrent use.
type pool struct {
	files *Files
	most  int64 // bytes
	least int64 // bytes for records in a file that is worth it

	mu     sync.Mutex
	free   []pooled // guarded by mu
	bytes  int64    // guarded by mu
	number uint64   // of the last file, which is its name; guarded by mu
}

type pooled struct {
	number   uint64
	capacity int64
}

// LoadPool takes over the emptied segments that an earlier process has left. At
// most so many bytes are kept from now on; 0: none, and those there are removed.
// What the file system holds must be durable. It is called once, before any bundle is opened.
func (f *Files) LoadPool(most, segmentBytes int64) error {
	p := &pool{files: f, most: most, least: max(min(poolLeast, segmentBytes/4), segment.BlockSize)}
	entries, err := f.FS.ReadDir(filepath.Join(f.Root, PoolDirectory))
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	if err != nil {
		return fmt.Errorf("bundle: %w", err)
	}
	for _, entry := range entries {
		number, err := strconv.ParseUint(strings.TrimSuffix(entry.Name(), poolSuffix), 16, 64)
		if err != nil || filepath.Base(p.path(number)) != entry.Name() {
			continue
		}
		p.number = max(p.number, number)
		if e, ok := p.look(number); ok && p.admit(e.capacity) {
			p.free = append(p.free, e)
		} else {
			p.remove(number)
		}
	}
	if most > 0 {
		f.pool = p
	}
	return nil
}

// look tells what a file of the pool is good for. A crash may have left it with its
// name as a segment, or before it was cut.
func (p *pool) look(number uint64) (e pooled, ok bool) {
	file, err := p.files.FS.Open(p.path(number))
	if err != nil {
		return e, false
	}
	defer file.Close() // only looked at
	size, err := file.Size()
	if err != nil || !segment.IsRecycled(size) {
		return e, false
	}
	ok, err = file.Sole()
	return pooled{number, size - segment.RecycledTail}, ok && err == nil
}

func (p *pool) path(number uint64) string {
	return filepath.Join(p.files.Root, PoolDirectory, fmt.Sprintf("%016x%s", number, poolSuffix))
}

// remove takes a file away. If that fails, the next start finds it.
func (p *pool) remove(number uint64) { _ = p.files.FS.Remove(p.path(number)) }

// admit makes room for a file with so many bytes for records.
func (p *pool) admit(capacity int64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.files.Scarce.Load() || capacity < p.least || len(p.free) >= poolFilesMax || p.bytes+capacity > p.most {
		return false
	}
	p.bytes += capacity
	return true
}

// Drain removes all emptied segments: others need the room.
func (f *Files) Drain() {
	if f.pool == nil {
		return
	}
	p := f.pool
	p.mu.Lock()
	free := p.free
	for _, e := range free {
		p.bytes -= e.capacity
	}
	p.free = nil
	p.mu.Unlock()
	for _, e := range free {
		p.remove(e.number)
	}
}

// giveBack removes the file of a segment that nothing refers to any more, or puts it
// into the pool. If that fails the file stays, until the bundle is next opened.
func (f *Files) giveBack(key fileKey, isShared bool) {
	f.forget(key)
	if f.pool == nil || isShared || !f.pool.put(key) {
		_ = f.FS.Remove(f.path(key))
	}
}

// put moves the file of a segment into the pool. The name that it has must be gone
// for good before its bytes change, and no reader may be left: in this process
// or in another one.
func (p *pool) put(key fileKey) bool {
	name := p.files.path(key)
	file, err := p.files.FS.Open(name)
	if err != nil {
		return false
	}
	defer file.Close() // all is flushed
	size, err := file.Size()
	capacity := segment.RecycledCapacity(size)
	if err != nil || !p.admit(capacity) {
		return false
	}
	p.mu.Lock()
	p.number++
	e := pooled{p.number, capacity}
	p.mu.Unlock()
	if err := p.move(file, key, e); err != nil {
		p.remove(e.number)
		p.mu.Lock()
		p.bytes -= capacity
		p.mu.Unlock()
		return false
	}
	return true
}

// errShared says that another has the file.
var errShared = errors.New("bundle: a file is not for one alone")

func (p *pool) move(file vfs.File, key fileKey, e pooled) error {
	files := p.files.FS
	if err := files.Mkdir(filepath.Join(p.files.Root, PoolDirectory)); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if err := files.Link(file, p.path(e.number)); err != nil {
		return err
	}
	if err := files.Remove(p.files.path(key)); err != nil {
		return err
	}
	if err := files.SyncDir(p.files.Directory(key.ID)); err != nil {
		return err
	}
	if sole, err := file.Sole(); err != nil || !sole {
		return errors.Join(err, errShared)
	}
	if err := complete(file, e.capacity+segment.RecycledTail); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.free = append(p.free, e)
	return nil
}

// take takes a file out that has room for least bytes: the smallest that has as much
// as is wanted and not much more, or else the largest.
func (p *pool) take(least, wanted int64) (best pooled, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	at, wanted := -1, max(wanted, p.least)
	for i, e := range p.free {
		if e.capacity < least || e.capacity > 3*wanted {
			continue
		}
		isBetter := e.capacity > best.capacity
		if best.capacity >= wanted {
			isBetter = e.capacity >= wanted && e.capacity < best.capacity
		}
		if isBetter {
			best, at = e, i
		}
	}
	if at < 0 {
		return best, false
	}
	p.free[at] = p.free[len(p.free)-1]
	p.free = p.free[:len(p.free)-1]
	p.bytes -= best.capacity
	return best, true
}
