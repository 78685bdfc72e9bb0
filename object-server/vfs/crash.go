package vfs

import (
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
)

// sectorSize is the unit that a disk writes as a whole.
const sectorSize = 512

// CrashClone returns what a power cut could leave: everything flushed, and of
// everything since then a part that rng chooses. Names not flushed are kept or
// lost one by one; writes not flushed are kept or lost sector by sector, and
// the length of a file may have grown with its bytes still zero.
func (m *Mem) CrashClone(rng *rand.Rand) *Mem {
	m.mu.Lock()
	defer m.mu.Unlock()
	clone := &Mem{nodes: map[string]*memNode{}, limit: m.limit, lacks: m.lacks}
	copies := map[*memNode]*memNode{}
	keep := func(path string, node *memNode) {
		if _, ok := copies[node]; !ok {
			copies[node] = node.crash(rng)
			clone.used += int64(len(copies[node].data))
		}
		clone.nodes[path] = copies[node]
	}
	mode := rng.IntN(3) // all that was in flight, none of it, or some
	chance := func() bool { return mode == 0 || mode == 2 && rng.IntN(2) == 0 }
	union := maps.Clone(m.saved)
	maps.Copy(union, m.nodes)
	for _, path := range slices.Sorted(maps.Keys(union)) { // parents come first
		before, after := m.saved[path], m.nodes[path]
		switch _, hasParent := clone.nodes[filepath.Dir(path)]; {
		case !hasParent && path != "/":
		case before == after:
			keep(path, before)
		case after != nil && chance():
			keep(path, after)
		case before != nil && (after != nil || !chance()):
			keep(path, before)
		}
	}
	clone.saved = maps.Clone(clone.nodes)
	return clone
}

// KillClone returns what the end of the process leaves: all that was written.
func (m *Mem) KillClone() *Mem {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.clone()
}

// clone copies names and what is known of each file, and shares the bytes.
func (m *Mem) clone() *Mem {
	clone := &Mem{
		nodes: make(map[string]*memNode, len(m.nodes)), saved: make(map[string]*memNode, len(m.saved)),
		limit: m.limit, used: m.used, lacks: m.lacks,
	}
	copies := make(map[*memNode]*memNode, len(m.nodes))
	twin := func(node *memNode) *memNode {
		if copies[node] == nil {
			copies[node] = node.twin()
		}
		return copies[node]
	}
	for path, node := range m.nodes {
		clone.nodes[path] = twin(node)
	}
	for path, node := range m.saved {
		clone.saved[path] = twin(node)
	}
	return clone
}

// twin returns a node of the same content. Both go their own ways from here.
func (n *memNode) twin() *memNode {
	n.shared = len(n.data)
	t := *n
	t.locked, t.opens = false, 0
	t.data = n.data[:len(n.data):len(n.data)]
	t.writes = n.writes[:len(n.writes):len(n.writes)]
	return &t
}

// durable returns a node whose content is all durable.
func durable(data []byte, dir bool, xattrs map[string][]byte) *memNode {
	data = data[:len(data):len(data)]
	return &memNode{dir: dir, data: data, shared: len(data), synced: data, xattrs: xattrs}
}

// crash returns the node as a power cut could leave it.
func (n *memNode) crash(rng *rand.Rand) *memNode {
	data, mode := n.synced, rng.IntN(4)
	if len(n.writes) > 0 && mode > 0 {
		data = slices.Clone(data)
	}
	for _, w := range n.writes {
		switch mode {
		case 0: // nothing unflushed reached the disk
		case 1: // all of it did
			data = w.apply(data)
		default:
			data = w.applyTorn(data, rng)
		}
	}
	return durable(data, n.dir, n.xattrs)
}

// applyTorn applies some sectors of a write, cutting the file at a random place
// or leaving zeros where sectors are missing.
func (w memWrite) applyTorn(data []byte, rng *rand.Rand) []byte {
	if w.truncate {
		if rng.IntN(2) == 0 {
			return data
		}
		return w.apply(data)
	}
	end := w.offset + int64(len(w.data))
	if rng.IntN(2) == 0 { // the length did not arrive: a prefix that ends at a sector
		end = w.offset + rng.Int64N(int64(len(w.data))+1)
		end = max(end/sectorSize*sectorSize, w.offset)
	}
	if end <= w.offset {
		return data
	}
	whole := memWrite{offset: w.offset, data: w.data[:end-w.offset]}
	torn := whole.apply(slices.Clone(data))
	for at := w.offset / sectorSize * sectorSize; at < end; at += sectorSize {
		if rng.IntN(4) == 0 { // this sector kept what it had before
			for i := max(at, w.offset); i < min(at+sectorSize, end); i++ {
				if torn[i] = 0; i < int64(len(data)) {
					torn[i] = data[i]
				}
			}
		}
	}
	return torn
}

// DropUnsynced makes a file, or all files of a directory and below, lose what no
// flush has covered, as a failed flush does: readers may still see the bytes, but
// they will never be durable.
func (m *Mem) DropUnsynced(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for path, node := range m.nodes {
		if path == name || strings.HasPrefix(path, strings.TrimSuffix(name, "/")+"/") {
			node.dropped = node.dropped || len(node.writes) > 0
			node.writes = nil
		}
	}
}
