package vfs

import (
	"io"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"sync"
	"time"
)

// Mem is a file system in memory that knows what has been made durable, so that
// a crash can be simulated: see CrashClone.
type Mem struct {
	mu    sync.Mutex
	nodes map[string]*memNode // the tree as processes see it
	saved map[string]*memNode // the names a crash leaves for certain
	limit int64               // bytes that fit; 0 is no limit
	used  int64
	watch func(op, name string) // if set, called after each operation that changes something; mu is held
	lacks Feature
}

// Feature is what not every file system can do; features are added up.
type Feature int

// The features a Mem can be without.
const (
	FeatureTemp  Feature = 1 << iota // CreateTemp
	FeatureClone                     // File.Clone
	FeatureXattr                     // File.SetXattr
)

// Lack takes features away, and gives all others back.
func (m *Mem) Lack(features Feature) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.lacks = features
}

var _ FS = (*Mem)(nil)

// memNode is a file or a directory. Bytes are shared between data and synced
// and between clones, so they are copied before they are overwritten.
type memNode struct {
	dir     bool
	locked  bool
	temp    bool              // has no name yet: vanishes when closed
	opens   int               // descriptors
	data    []byte            // as processes see it
	room    int64             // bytes that Allocate keeps for it
	shared  int               // so many bytes of data, from the start on, have other readers
	synced  []byte            // as the last flush left it; never changed in place
	writes  []memWrite        // since that flush, in order
	dropped bool              // data has changes that are in neither synced nor writes
	xattrs  map[string][]byte // treated as durable at once; replaced, never changed in place
}

// memWrite is one change of a file that no flush has covered.
type memWrite struct {
	offset   int64
	data     []byte
	truncate bool // data is ignored, offset is the new length
	inPlace  bool // past the page cache, to bytes that were durable
}

// NewMem returns a file system that holds only the directories given.
func NewMem(dirs ...string) *Mem {
	m := &Mem{nodes: map[string]*memNode{"/": {dir: true}}}
	for _, dir := range dirs {
		m.nodes[filepath.Clean(dir)] = &memNode{dir: true}
	}
	m.saved = maps.Clone(m.nodes)
	return m
}

// SetLimit bounds the bytes that files may hold together; 0 lifts the bound.
func (m *Mem) SetLimit(bytes int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.limit = bytes
}

// Open implements FS.
func (m *Mem) Open(name string) (File, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	node, ok := m.nodes[filepath.Clean(name)]
	if !ok || node.dir {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	node.opens++
	return &memFile{fs: m, node: node, name: name}, nil
}

// Create implements FS.
func (m *Mem) Create(name string) (File, error) {
	node := &memNode{opens: 1}
	if err := m.add("create", name, node); err != nil {
		return nil, err
	}
	return &memFile{fs: m, node: node, name: name}, nil
}

// CreateTemp implements FS.
func (m *Mem) CreateTemp(dir string) (File, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.lacks&FeatureTemp != 0 {
		return nil, &fs.PathError{Op: "open", Path: dir, Err: ErrNoTemp}
	}
	if node, ok := m.nodes[filepath.Clean(dir)]; !ok || !node.dir {
		return nil, &fs.PathError{Op: "open", Path: dir, Err: fs.ErrNotExist}
	}
	return &memFile{fs: m, node: &memNode{temp: true, opens: 1}, name: dir}, nil
}

// Link implements FS.
func (m *Mem) Link(f File, name string) error {
	file, ok := f.(*memFile)
	if !ok {
		return &fs.PathError{Op: "link", Path: name, Err: fs.ErrInvalid}
	}
	err := m.add("link", name, file.node)
	if err == nil {
		m.mu.Lock()
		file.node.temp = false
		m.mu.Unlock()
	}
	return err
}

// Mkdir implements FS.
func (m *Mem) Mkdir(name string) error { return m.add("mkdir", name, &memNode{dir: true}) }

func (m *Mem) add(op, name string, node *memNode) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	name = filepath.Clean(name)
	if _, ok := m.nodes[name]; ok {
		return &fs.PathError{Op: op, Path: name, Err: fs.ErrExist}
	}
	if parent, ok := m.nodes[filepath.Dir(name)]; !ok || !parent.dir {
		return &fs.PathError{Op: op, Path: name, Err: fs.ErrNotExist}
	}
	m.nodes[name] = node
	m.changed(op, name)
	return nil
}

// changed calls the function that watches, if there is one.
func (m *Mem) changed(op, name string) {
	if m.watch != nil {
		m.watch(op, name)
	}
}

// Remove implements FS.
func (m *Mem) Remove(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	name = filepath.Clean(name)
	node, ok := m.nodes[name]
	if !ok {
		return &fs.PathError{Op: "remove", Path: name, Err: fs.ErrNotExist}
	}
	delete(m.nodes, name)
	m.changed("remove", name)
	for _, other := range m.nodes {
		if other == node { // a further name of the file
			return nil
		}
	}
	m.used -= node.takes()
	return nil
}

// ReadDir implements FS.
func (m *Mem) ReadDir(name string) ([]fs.DirEntry, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	name = filepath.Clean(name)
	if node, ok := m.nodes[name]; !ok || !node.dir {
		return nil, &fs.PathError{Op: "readdir", Path: name, Err: fs.ErrNotExist}
	}
	var entries []fs.DirEntry
	for path, node := range m.nodes {
		if filepath.Dir(path) == name && path != "/" {
			entries = append(entries, memEntry{filepath.Base(path), node})
		}
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int {
		if a.Name() < b.Name() {
			return -1
		}
		return 1
	})
	return entries, nil
}

// SyncDir implements FS.
func (m *Mem) SyncDir(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	name = filepath.Clean(name)
	if node, ok := m.nodes[name]; !ok || !node.dir {
		return &fs.PathError{Op: "fsync", Path: name, Err: fs.ErrNotExist}
	}
	m.syncNames(func(path string) bool { return filepath.Dir(path) == name })
	m.changed("syncdir", name)
	return nil
}

func (m *Mem) syncNames(chosen func(path string) bool) {
	maps.DeleteFunc(m.saved, func(path string, _ *memNode) bool { return path != "/" && chosen(path) })
	for path, node := range m.nodes {
		if chosen(path) {
			m.saved[path] = node
		}
	}
}

// OpenDir implements FS.
func (m *Mem) OpenDir(name string) (Dir, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	node, ok := m.nodes[filepath.Clean(name)]
	if !ok || !node.dir {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	return &memDir{fs: m, node: node}, nil
}

type memDir struct {
	fs   *Mem
	node *memNode
	held bool
}

func (d *memDir) Lock() error {
	d.fs.mu.Lock()
	defer d.fs.mu.Unlock()
	if d.node.locked {
		return ErrLocked
	}
	d.node.locked, d.held = true, true
	return nil
}

func (d *memDir) SyncFS() error {
	d.fs.mu.Lock()
	defer d.fs.mu.Unlock()
	d.fs.syncNames(func(string) bool { return true })
	for _, node := range d.fs.nodes {
		node.sync()
	}
	d.fs.changed("syncfs", "")
	return nil
}

func (d *memDir) Usage() (Usage, error) {
	d.fs.mu.Lock()
	defer d.fs.mu.Unlock()
	size := d.fs.limit
	if size == 0 {
		size = 1 << 40
	}
	return Usage{Bytes: uint64(size), BytesFree: uint64(max(size-d.fs.used, 0))}, nil
}

func (d *memDir) Close() error {
	d.fs.mu.Lock()
	defer d.fs.mu.Unlock()
	if d.held {
		d.node.locked, d.held = false, false
	}
	return nil
}

type memFile struct {
	fs     *Mem
	node   *memNode
	name   string
	anchor int64 // length that Anchor found
}

func (f *memFile) ReadAt(p []byte, offset int64) (int, error) {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if offset >= int64(len(f.node.data)) {
		return 0, io.EOF
	}
	n := copy(p, f.node.data[offset:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

func (f *memFile) Writev(buffers [][]byte, offset int64) error {
	return f.write(slices.Concat(buffers...), offset, false) // a copy: the caller reuses its buffers
}

func (f *memFile) write(data []byte, offset int64, isDirect bool) error {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	room := int64(len(data))
	if f.fs.limit > 0 {
		grows := max(offset+room-f.node.takes(), 0)
		room = min(room, max(f.fs.limit-f.fs.used, 0)+room-grows)
	}
	isInPlace := isDirect && offset+room <= int64(len(f.node.synced))
	f.fs.apply(f.node, memWrite{offset: offset, data: data[:room], inPlace: isInPlace})
	f.fs.changed("write", f.name)
	if room < int64(len(data)) {
		return &fs.PathError{Op: "pwritev", Path: f.name, Err: ErrNoSpace}
	}
	return nil
}

func (f *memFile) DirectBlock() int { return sectorSize }

func (f *memFile) ReadDirect(p []byte, offset int64) (int, error) {
	if offset%sectorSize != 0 || len(p)%sectorSize != 0 {
		return 0, &fs.PathError{Op: "pread", Path: f.name, Err: fs.ErrInvalid}
	}
	return f.ReadAt(p, offset)
}

func (f *memFile) WriteDirect(p []byte, offset int64) error {
	if offset%sectorSize != 0 || len(p)%sectorSize != 0 {
		return &fs.PathError{Op: "pwrite", Path: f.name, Err: fs.ErrInvalid}
	}
	return f.write(slices.Clone(p), offset, true)
}

// Anchor implements File.
func (f *memFile) Anchor() (bool, error) {
	err := f.Datasync()
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	f.anchor = int64(len(f.node.synced))
	return err == nil, err
}

// InPlace implements File.
func (f *memFile) InPlace(_, to int64) bool {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	return to <= f.anchor && !slices.ContainsFunc(f.node.writes, func(w memWrite) bool { return !w.inPlace })
}

// Sole implements File.
func (f *memFile) Sole() (bool, error) {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	names := 0
	for _, node := range f.fs.nodes {
		if node == f.node {
			names++
		}
	}
	return names == 1 && f.node.opens == 1, nil
}

// takes is how many bytes of the file system a file uses.
func (n *memNode) takes() int64 { return max(int64(len(n.data)), n.room) }

// apply changes what processes see and remembers the change as not durable.
func (m *Mem) apply(node *memNode, w memWrite) {
	before := node.takes()
	if w.truncate {
		node.room = min(node.room, w.offset)
	}
	if !w.truncate && w.offset < int64(node.shared) {
		node.data, node.shared = slices.Clone(node.data), 0
	}
	node.data = w.apply(node.data)
	node.shared = min(node.shared, len(node.data))
	m.used += node.takes() - before
	node.writes = append(node.writes, w)
}

// apply overwrites data in place where it can. What a truncation cuts off stays
// as it is for readers that still see it.
func (w memWrite) apply(data []byte) []byte {
	if w.truncate && w.offset <= int64(len(data)) {
		return data[:w.offset:w.offset]
	}
	if gap := w.offset - int64(len(data)); gap > 0 {
		data = append(data, make([]byte, gap)...)
	}
	n := copy(data[w.offset:], w.data)
	return append(data, w.data[n:]...)
}

// sync makes the writes since the last flush durable. Those that DropUnsynced
// took away stay lost, though processes still see them.
func (n *memNode) sync() {
	if len(n.writes) == 0 {
		return
	}
	if n.dropped {
		data := slices.Clone(n.synced)
		for _, w := range n.writes {
			data = w.apply(data)
		}
		n.synced = data
	} else {
		n.synced = n.data[:len(n.data):len(n.data)]
		n.shared = len(n.data)
	}
	n.writes = nil
}

func (f *memFile) Datasync() error {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	f.node.sync()
	for _, node := range f.fs.nodes { // the disk's write cache is flushed
		if !slices.ContainsFunc(node.writes, func(w memWrite) bool { return !w.inPlace }) {
			node.sync()
		}
	}
	f.fs.changed("datasync", f.name)
	return nil
}

func (f *memFile) Allocate(size int64) error {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	more := max(size-f.node.takes(), 0)
	if f.fs.limit > 0 && f.fs.used+more > f.fs.limit {
		return &fs.PathError{Op: "fallocate", Path: f.name, Err: ErrNoSpace}
	}
	f.node.room = max(f.node.room, size)
	f.fs.used += more
	return nil
}

func (f *memFile) Truncate(size int64) error {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	f.fs.apply(f.node, memWrite{offset: size, truncate: true})
	f.fs.changed("truncate", f.name)
	return nil
}

func (f *memFile) Size() (int64, error) {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	return int64(len(f.node.data)), nil
}

func (f *memFile) SetXattr(name string, value []byte) error {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if f.fs.lacks&FeatureXattr != 0 {
		return &fs.PathError{Op: "fsetxattr", Path: f.name, Err: ErrNoXattr}
	}
	xattrs := maps.Clone(f.node.xattrs)
	if xattrs == nil {
		xattrs = map[string][]byte{}
	}
	xattrs[name] = slices.Clone(value)
	f.node.xattrs = xattrs
	f.fs.changed("setxattr", f.name)
	return nil
}

func (f *memFile) GetXattr(name string) ([]byte, error) {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	value, ok := f.node.xattrs[name]
	if !ok {
		err := ErrNoXattr
		if f.fs.lacks&FeatureXattr != 0 {
			err = ErrXattrUnsupported
		}
		return nil, &fs.PathError{Op: "fgetxattr", Path: f.name, Err: err}
	}
	return slices.Clone(value), nil
}

func (f *memFile) RemoveXattr(name string) error {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if _, ok := f.node.xattrs[name]; !ok {
		return &fs.PathError{Op: "fremovexattr", Path: f.name, Err: ErrNoXattr}
	}
	xattrs := maps.Clone(f.node.xattrs)
	delete(xattrs, name)
	f.node.xattrs = xattrs
	f.fs.changed("removexattr", f.name)
	return nil
}

// Clone counts no space as used: the files share it.
func (f *memFile) Clone(source File) error {
	from, ok := source.(*memFile)
	if !ok {
		return &fs.PathError{Op: "clone", Path: f.name, Err: fs.ErrInvalid}
	}
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if f.fs.lacks&FeatureClone != 0 {
		return &fs.PathError{Op: "clone", Path: f.name, Err: ErrNoClone}
	}
	used := f.fs.used
	f.fs.apply(f.node, memWrite{data: slices.Clone(from.node.data)})
	f.fs.used = used
	f.fs.changed("clone", f.name)
	return nil
}

func (f *memFile) Close() error {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	f.node.opens--
	if f.node.temp {
		f.node.temp = false
		f.fs.used -= f.node.takes()
	}
	return nil
}

type memEntry struct {
	name string
	node *memNode
}

func (e memEntry) Name() string               { return e.name }
func (e memEntry) IsDir() bool                { return e.node.dir }
func (e memEntry) Info() (fs.FileInfo, error) { return e, nil }
func (e memEntry) Size() int64                { return int64(len(e.node.data)) }
func (e memEntry) ModTime() time.Time         { return time.Time{} }
func (e memEntry) Sys() any                   { return nil }

// Mode and Type tell directories from files.
func (e memEntry) Mode() fs.FileMode {
	if e.node.dir {
		return fs.ModeDir
	}
	return 0
}
func (e memEntry) Type() fs.FileMode { return e.Mode() }
