package bundle

import (
	"fmt"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"

	"martlet/object-server/bundle/format"
	"martlet/object-server/bundle/index"
	"martlet/object-server/vfs"
)

// ID names a bundle on a device.
type ID struct {
	Policy    int
	Partition uint32
	Power     uint8 // of the partition; 0: the one that the device's first bundles are of, see Split
}

// PolicyDirectory is the folder of a storage policy's bundles under a device's
// root. OpenStack Swift's daemons walk objects[-N], and delete or quarantine what
// they find there, so bundles have folders of their own.
func PolicyDirectory(policy int) string { return ofPolicy("bundles", policy) }

// SwiftDirectory is the folder of OpenStack Swift's own files under a device's root.
func SwiftDirectory(policy int) string { return ofPolicy("objects", policy) }

// QuarantineDirectory is the folder of what was taken out of use, under a device's
// quarantine. It has the name that OpenStack Swift's tools count.
func QuarantineDirectory(policy int) string { return ofPolicy("objects", policy) }

func ofPolicy(name string, policy int) string {
	if policy == 0 {
		return name
	}
	return name + "-" + strconv.Itoa(policy)
}

// Files opens the files of one device and keeps a bounded number of segments
// open. It is safe for concurrent use.
type Files struct {
	FS     vfs.FS
	Root   string // the device
	Direct bool   // append past the page cache, where the file system can
	// Reserve room for segments that grow, where the file system would reserve much more.
	Reserve bool
	Scarce  atomic.Bool // room is: none is reserved ahead
	// Floor tells up to which LSN the records of a bundle were acknowledged, 0: not
	// known. What is missing up to there is damage, never a torn tail. Nil is allowed.
	// The identity is zero where no segment says one.
	Floor func(ID, format.Identity) uint64
	max   int
	pool  *pool // nil: emptied segments are removed

	pages    *index.Pool // of the indexes of all bundles
	sweeping sync.Mutex  // held while large files are set aside

	mu   sync.Mutex
	open map[fileKey]*handle
	idle handle // head of a ring of unpinned handles, least recently used first
}

type fileKey struct {
	ID
	sequence   uint32
	generation uint32
}

// handle is an open segment. It stays open while pins > 0.
type handle struct {
	vfs.File
	files      *Files
	pins       int     // guarded by files.mu
	prev, next *handle // in the idle ring while pins == 0
	key        fileKey
	forgotten  bool // not in files.open any more: closed with the last pin
}

// NewFiles returns an empty cache that keeps at most openMax segments open beside
// those in use at the moment.
func NewFiles(fs vfs.FS, root string, openMax int) *Files {
	f := &Files{FS: fs, Root: root, max: openMax, open: make(map[fileKey]*handle), pages: index.NewPool()}
	f.idle.prev, f.idle.next = &f.idle, &f.idle
	return f
}

func (f *Files) floor(id ID, identity format.Identity) uint64 {
	if f.Floor == nil {
		return 0
	}
	return f.Floor(id, identity)
}

// Directory is where the files of a bundle are.
func (f *Files) Directory(id ID) string {
	return filepath.Join(f.Root, PolicyDirectory(id.Policy), strconv.FormatUint(uint64(id.Partition), 10))
}

func (f *Files) path(key fileKey) string {
	return filepath.Join(f.Directory(key.ID), format.SegmentName(key.sequence, key.generation))
}

// get opens a segment, or pins it if it is open; release must follow.
func (f *Files) get(key fileKey) (*handle, error) {
	f.mu.Lock()
	h := f.pin(key)
	f.mu.Unlock()
	if h != nil {
		return h, nil
	}
	file, err := f.FS.Open(f.path(key))
	if err != nil {
		return nil, fmt.Errorf("bundle: %w", err)
	}
	return f.add(key, file), nil
}

// create makes a new segment file and pins it.
func (f *Files) create(key fileKey) (*handle, error) {
	file, err := f.FS.Create(f.path(key))
	if err != nil {
		return nil, fmt.Errorf("bundle: %w", err)
	}
	return f.add(key, file), nil
}

// pin returns the open handle or nil. f.mu is held.
func (f *Files) pin(key fileKey) *handle {
	h := f.open[key]
	if h == nil {
		return nil
	}
	if h.pins == 0 {
		h.prev.next, h.next.prev = h.next, h.prev
	}
	h.pins++
	return h
}

// add pins a file just opened, unless another goroutine was faster.
func (f *Files) add(key fileKey, file vfs.File) *handle {
	f.mu.Lock()
	if h := f.pin(key); h != nil {
		f.mu.Unlock()
		_ = file.Close() // nothing was written through it
		return h
	}
	h := &handle{File: file, files: f, pins: 1, key: key}
	f.open[key] = h
	evicted := f.evict()
	f.mu.Unlock()
	evicted.close()
	return h
}

// evict takes the handle out that is idle for longest, if more than max are open; nil
// if none is idle or there is room. f.mu is held.
func (f *Files) evict() *handle {
	oldest := f.idle.next
	if len(f.open) <= f.max || oldest == &f.idle {
		return nil
	}
	oldest.prev.next, oldest.next.prev = oldest.next, oldest.prev
	delete(f.open, oldest.key)
	return oldest
}

// close closes the file of a handle that evict took out.
func (h *handle) close() {
	if h != nil {
		_ = h.File.Close() // unpinned: everything written has been flushed
	}
}

// release gives a handle back. More than max may have been pinned at once: each that
// is released then makes one close, so that a peak leaves nothing open.
func (h *handle) release() {
	h.files.put(h).close()
}

// put unpins a handle and returns the one to close for it, or nil.
func (f *Files) put(h *handle) *handle {
	f.mu.Lock()
	defer f.mu.Unlock()
	if h.pins--; h.pins > 0 {
		return nil
	}
	if h.forgotten {
		return h
	}
	h.prev, h.next = f.idle.prev, &f.idle
	h.prev.next, h.next.prev = h, h
	return f.evict()
}

// forget closes a segment that is about to be removed, once it is not in use.
func (f *Files) forget(key fileKey) {
	f.mu.Lock()
	defer f.mu.Unlock()
	h := f.open[key]
	if h == nil {
		return
	}
	delete(f.open, key)
	if h.forgotten = true; h.pins == 0 {
		h.prev.next, h.next.prev = h.next, h.prev
		_ = h.File.Close() // only read from
	}
}

// IndexBytes is the memory that the indexes of all bundles occupy off the Go heap.
func (f *Files) IndexBytes() int { return f.pages.Bytes() }

// Close closes everything, the memory of the indexes included. No handle and no
// bundle may be in use.
func (f *Files) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	var first error
	for key, h := range f.open {
		if err := h.File.Close(); err != nil && first == nil {
			first = err
		}
		delete(f.open, key)
	}
	f.idle.prev, f.idle.next = &f.idle, &f.idle
	if err := f.pages.Close(); err != nil && first == nil {
		first = err
	}
	return first
}
