package vfs

import (
	"hash/maphash"
	"iter"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"sync"
)

// Recording holds what a Mem was after each operation that changed it, or made
// something durable.
type Recording struct {
	mu    sync.Mutex
	steps []Step
}

// Step is one operation and what it left. State must not be used by a process;
// PowerCuts and KillClone give copies that may.
type Step struct {
	Op, Name string
	State    *Mem
}

// Record starts a recording of all further operations.
func (m *Mem) Record() *Recording {
	r := &Recording{}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.watch = func(op, name string) {
		state := m.clone()
		r.mu.Lock()
		defer r.mu.Unlock()
		r.steps = append(r.steps, Step{op, name, state})
	}
	return r
}

// Len is the number of steps so far.
func (r *Recording) Len() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.steps)
}

// Steps returns the steps so far, in order.
func (r *Recording) Steps() []Step {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.steps)
}

// allSubsets is up to how many changes in flight every subset of them is tried.
const allSubsets = 8

// PowerCuts yields states that a power cut at this moment may leave, about max
// of them at most; some may be equal. A change that is in
// flight, of a name or of bytes, is there or is not: every subset of few
// changes, some subsets of many. Then each write is torn in every way that
// fate knows, with all, none and some of the rest beside it; and then many are
// torn at once.
func (m *Mem) PowerCuts(rng *rand.Rand, max int) iter.Seq[*Mem] {
	return func(yield func(*Mem) bool) {
		m.mu.Lock()
		defer m.mu.Unlock()
		c := m.inFlight()
		left := max
		try := func() bool { left--; return yield(c.state()) }
		if !c.subsets(rng, max/2, try) {
			return
		}
		var torn []int
		for i := range c.writes {
			torn = append(torn, i)
		}
		rng.Shuffle(len(torn), func(i, j int) { torn[i], torn[j] = torn[j], torn[i] })
		for _, i := range torn {
			for _, f := range c.writes[i].fates() {
				for _, rest := range []int{0, 1, 2} {
					if left <= 0 || rest > 0 && len(c.writes)+len(c.names) == 1 {
						break
					}
					c.set(func(int) bool { return rest == 0 || rest == 2 && rng.IntN(2) == 0 })
					c.fates[i] = f
					if !try() {
						return
					}
				}
			}
		}
		for range min(left, 2*(max-left)) * len(c.writes) / (len(c.writes) + 1) {
			if c.scatter(rng); !try() {
				return
			}
		}
	}
}

// scatter tears many writes at once, each of them anyhow.
func (c *cut) scatter(rng *rand.Rand) {
	c.set(func(int) bool { return rng.IntN(4) > 0 })
	for i := range c.writes {
		if w := &c.writes[i]; rng.IntN(2) == 0 && !w.truncate {
			sectors := make([]bool, len(w.data)/sectorSize+2)
			for s := range sectors {
				sectors[s] = rng.IntN(3) > 0
			}
			c.fates[i] = fate{arrived: func(s int) bool { return sectors[s] }, cut: rng.IntN(2) == 0}
		}
	}
}

// cut is a choice of what became of the changes in flight.
type cut struct {
	mem    *Mem
	paths  []string // all there are before or after, parents first
	names  []string // that are in flight
	writes []flying
	kept   map[string]bool // by name
	fates  []fate          // by write
}

// flying is a write in flight.
type flying struct {
	memWrite
	node *memNode
}

// fate says which sectors of a write arrived.
type fate struct {
	arrived func(sector int) bool // counted from the first that the write touches
	cut     bool                  // the length goes only as far as the sectors that arrived
}

var (
	whole = fate{arrived: func(int) bool { return true }}
	lost  = fate{arrived: func(int) bool { return false }, cut: true}
)

func (m *Mem) inFlight() *cut {
	c := &cut{mem: m, kept: map[string]bool{}}
	union := maps.Clone(m.saved)
	maps.Copy(union, m.nodes)
	c.paths = slices.Sorted(maps.Keys(union))
	seen := map[*memNode]bool{}
	for _, path := range c.paths {
		before, after := m.saved[path], m.nodes[path]
		if before != after {
			c.names = append(c.names, path)
		}
		for _, node := range []*memNode{before, after} {
			if node == nil || seen[node] {
				continue
			}
			seen[node] = true
			for _, w := range node.writes {
				c.writes = append(c.writes, flying{w, node})
			}
		}
	}
	c.fates = make([]fate, len(c.writes))
	return c
}

// set keeps or loses each change as a whole; they are counted names first.
func (c *cut) set(kept func(i int) bool) {
	for i, name := range c.names {
		c.kept[name] = kept(i)
	}
	for i := range c.writes {
		if c.fates[i] = lost; kept(len(c.names) + i) {
			c.fates[i] = whole
		}
	}
}

// subsets tries all subsets, or all, none and some.
func (c *cut) subsets(rng *rand.Rand, some int, try func() bool) bool {
	n := len(c.names) + len(c.writes)
	if n <= allSubsets {
		for set := range 1 << n {
			if c.set(func(i int) bool { return set>>i&1 != 0 }); !try() {
				return false
			}
		}
		return true
	}
	for i := range some {
		percent := []int{0, 100, 10, 50, 90}[min(i, 2+i%3)]
		if c.set(func(int) bool { return rng.IntN(100) < percent }); !try() {
			return false
		}
	}
	return true
}

// fates lists the ways a write may be torn: cut after each sector, with each
// sector missing, and with nothing but the length.
func (w *flying) fates() []fate {
	if w.truncate || len(w.data) == 0 {
		return nil
	}
	all := []fate{{arrived: lost.arrived}}
	sectors := int((w.offset+int64(len(w.data))-1)/sectorSize - w.offset/sectorSize + 1)
	for i := range sectors {
		if i > 0 {
			all = append(all, fate{arrived: func(s int) bool { return s < i }, cut: true})
		}
		if sectors > 1 {
			all = append(all, fate{arrived: func(s int) bool { return s != i }})
		}
	}
	return all
}

// state makes the file system that the choice leaves.
func (c *cut) state() *Mem {
	s := &Mem{nodes: make(map[string]*memNode, len(c.paths)), limit: c.mem.limit, lacks: c.mem.lacks}
	copies := make(map[*memNode]*memNode, len(c.paths))
	for _, path := range c.paths {
		node := c.mem.saved[path]
		if after := c.mem.nodes[path]; after != node && c.kept[path] {
			node = after
		}
		if _, hasParent := s.nodes[filepath.Dir(path)]; node == nil || !hasParent && path != "/" {
			continue
		}
		if copies[node] == nil {
			copies[node] = durable(c.content(node), node.dir, node.xattrs)
			s.used += int64(len(copies[node].data))
		}
		s.nodes[path] = copies[node]
	}
	s.saved = maps.Clone(s.nodes)
	return s
}

// content is what the choice leaves of a file.
func (c *cut) content(node *memNode) []byte {
	if len(node.writes) == 0 {
		return node.synced
	}
	data := slices.Clone(node.synced)
	for i := range c.writes {
		if w := &c.writes[i]; w.node == node {
			data = w.land(data, c.fates[i])
		}
	}
	return data
}

// land applies the sectors of a write that arrived; the others keep what they
// had, or are zero.
func (w *flying) land(data []byte, f fate) []byte {
	if w.truncate || len(w.data) == 0 {
		if f.arrived(0) {
			return w.apply(data)
		}
		return data
	}
	end := w.offset + int64(len(w.data))
	if grows := end - int64(len(data)); grows > 0 && !f.cut {
		data = append(data, make([]byte, grows)...)
	}
	first := w.offset / sectorSize
	for at := first * sectorSize; at < end; at += sectorSize {
		if from, to := max(at, w.offset), min(at+sectorSize, end); f.arrived(int(at/sectorSize - first)) {
			data = memWrite{offset: from, data: w.data[from-w.offset : to-w.offset]}.apply(data)
		}
	}
	return data
}

var digestSeed = maphash.MakeSeed()

// Digest tells file systems apart by names and content, within one process.
func (m *Mem) Digest() uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	var sum uint64
	var h maphash.Hash
	h.SetSeed(digestSeed)
	for path, node := range m.nodes { // in any order: the sum does not care
		h.Reset()
		_, _ = h.WriteString(path) // it cannot fail
		_ = h.WriteByte(0)
		_, _ = h.Write(node.data)
		sum += h.Sum64()
		for name, value := range node.xattrs {
			h.Reset()
			_, _ = h.WriteString(path + "\x00" + name + "\x00")
			_, _ = h.Write(value)
			sum += h.Sum64()
		}
	}
	return sum
}
