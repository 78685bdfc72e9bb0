package versions

import (
	"container/list"
	"sync"

	"martlet/object-server/bundle/format"
)

// Memory remembers what look-ups have read of the chains of a device, so
// that the next one reads on where the last one stopped. It holds nothing that
// the log does not: a name that was dropped is read again.
type Memory struct {
	limit int64

	mu     sync.Mutex
	names  map[memoryKey]*list.Element // of *chainMemory; guarded by mu
	recent list.List                   // last used first; guarded by mu
	bytes  int64                       // guarded by mu
}

// memoryKey is a name in an open bundle. One that is opened again has a new
// number, since its LSNs may have other meanings after a repair.
type memoryKey struct {
	opened uint64
	hash   format.Hash
}

// NewMemory makes a memory of at most limit bytes; none if that is not
// positive.
func NewMemory(limit int64) *Memory {
	if limit <= 0 {
		return nil
	}
	return &Memory{limit: limit, names: make(map[memoryKey]*list.Element)}
}

// Bytes is what the memory takes now.
func (m *Memory) Bytes() int64 {
	if m == nil {
		return 0
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.bytes
}

// of returns the memory of a name, and makes an empty one at its first use.
func (m *Memory) of(key memoryKey) *chainMemory {
	m.mu.Lock()
	defer m.mu.Unlock()
	if e := m.names[key]; e != nil {
		m.recent.MoveToFront(e)
		return e.Value.(*chainMemory)
	}
	c := &chainMemory{owner: m, key: key, limit: m.limit}
	m.names[key] = m.recent.PushFront(c)
	m.count(c, c.size())
	return c
}

// settle notes how large a name's memory has become, and drops those that were
// not used for the longest time where all are too large.
func (m *Memory) settle(c *chainMemory, size int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if e := m.names[c.key]; e == nil || e.Value != any(c) {
		return // dropped meanwhile
	}
	m.count(c, size)
	for m.bytes > m.limit && m.recent.Len() > 0 {
		oldest := m.recent.Remove(m.recent.Back()).(*chainMemory)
		delete(m.names, oldest.key)
		m.count(oldest, 0)
	}
}

// count notes the size of a name's memory. m.mu is held.
func (m *Memory) count(c *chainMemory, size int64) {
	m.bytes += size - c.counted
	c.counted = size
}

// Memory of one name, and of each of its versions, in bytes.
const (
	chainMemorySize = 400
	knownSize       = 48
)

// chainMemory is what is known of a chain from its head down to the record that
// is to be read next. Of each version id the entry with the highest LSN counts,
// so what is met further down changes nothing of it.
type chainMemory struct {
	owner   *Memory
	key     memoryKey
	limit   int64
	counted int64 // guarded by owner.mu

	mu       sync.Mutex
	tooLarge bool             // the rest is empty: look-ups walk
	top      uint64           // LSN of the newest entry; 0: nothing is known
	entries  uint32           // its number
	unread   uint64           // LSN of the record to read next; 0: all is known
	bound    format.Timestamp // nothing unread is later
	known    []knownVersion
	table    []uint32 // finds ids: places in known, 1 for the first; 0 is free
	live     []uint32 // a heap of places in known, the newest version first
}

// knownVersion is the last entry of one version id.
type knownVersion struct {
	id        format.VersionID
	timestamp format.Timestamp // of a removal, when it was asked for
	lsn       uint64
	place     int32 // in the heap of live versions; -1: it is removed
}

// size is what the memory takes, in bytes.
func (m *chainMemory) size() int64 {
	return chainMemorySize + int64(cap(m.known))*knownSize + 4*int64(cap(m.table)+cap(m.live))
}

// use brings the memory up to the head and calls do with the lock held. ok is
// false if the memory is of no use; then do was not called.
func (m *chainMemory) use(reader Reader, head *Link, do func() error) (ok bool, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if ok = !m.tooLarge && m.follow(reader, head); ok {
		err = do()
	}
	m.owner.settle(m, m.size())
	return ok && !m.tooLarge, err
}

// follow learns what came since the last use. A head that is older than what is
// known comes from a reader that a write has overtaken: it gets to see that write.
// False if damage is in the way: a walk finds what lies before it.
func (m *chainMemory) follow(reader Reader, head *Link) bool {
	if head.Head.LSN <= m.top {
		return true
	}
	if m.top == 0 || int64(head.Block.Entries)-int64(m.entries) > int64(len(m.known))+directoryStride {
		return m.restart(head) // there is more to read than to lose
	}
	var since []format.Version // newest LSN first
	meets := false
	c := Chain{reader: reader, head: head}
	err := c.walk(format.Timestamp{}, func(v *format.Version) bool {
		if meets = v.LSN == m.top; v.LSN > m.top {
			since = append(since, *v)
		}
		return v.LSN > m.top
	})
	if err != nil {
		return false
	}
	if !meets { // damage has cut the chain off: it is another one
		return m.restart(head)
	}
	for i := len(since) - 1; i >= 0; i-- {
		m.learn(&since[i], true)
	}
	m.top, m.entries = head.Head.LSN, head.Block.Entries
	return m.fits()
}

// restart forgets all but what the head says.
func (m *chainMemory) restart(head *Link) bool {
	m.known, m.table, m.live = nil, nil, nil
	m.grow()
	m.top, m.entries = head.Head.LSN, head.Block.Entries
	m.take(head)
	return m.fits()
}

// fits gives the memory up if it has become too large.
func (m *chainMemory) fits() bool {
	if m.size() > m.limit {
		m.tooLarge, m.known, m.table, m.live = true, nil, nil, nil
	}
	return !m.tooLarge
}

// take learns what a record says that lies below all that is known.
func (m *chainMemory) take(l *Link) {
	own := l.version()
	m.learn(&own, false)
	for i := len(l.Block.Listed) - 1; i >= 0; i-- {
		m.learn(&l.Block.Listed[i], false)
	}
	m.unread, m.bound = l.Block.Next, l.Block.Bound
}

// more reads the next record. more is false at the end, and where the memory
// becomes too large.
func (m *chainMemory) more(reader Reader) (more bool, err error) {
	if m.unread == 0 {
		return false, nil
	}
	l, err := reader.ReadLink(m.unread)
	if err != nil {
		return false, err
	}
	m.take(&l)
	return m.fits(), nil
}

// learn notes an entry, in place of what is known of its id if it is newer.
func (m *chainMemory) learn(v *format.Version, isNewer bool) {
	if !v.Type.IsVersion() && v.Type != format.TypeTombstone {
		return
	}
	if 4*(len(m.known)+1) > 3*len(m.table) {
		m.grow()
	}
	at := m.probe(v.ID)
	i := m.table[at]
	switch {
	case i == 0:
		m.known = append(m.known, knownVersion{id: v.ID, place: -1})
		i = uint32(len(m.known))
		m.table[at] = i
	case !isNewer:
		return
	}
	k := &m.known[i-1]
	if k.place >= 0 {
		m.bury(k.place)
	}
	k.timestamp, k.lsn = v.Timestamp, v.LSN
	if v.Type.IsVersion() {
		m.live = append(m.live, i-1)
		m.up(int32(len(m.live) - 1))
	}
}

// last finds the last entry of an id. It reads on as long as the entry may be of
// the time floor or later.
func (m *chainMemory) last(reader Reader, id format.VersionID, floor format.Timestamp) (v format.Version, ok bool, err error) {
	for {
		if i := m.table[m.probe(id)]; i > 0 {
			return m.known[i-1].version(), true, nil
		}
		if m.bound.Compare(floor) < 0 {
			return v, false, nil
		}
		if more, err := m.more(reader); err != nil || !more {
			return v, false, err
		}
	}
}

// version is the entry as a listing has it, as far as it is known.
func (k *knownVersion) version() format.Version {
	v := format.Version{ID: k.id, Timestamp: k.timestamp, LSN: k.lsn, Type: format.TypeTombstone}
	if k.place >= 0 {
		v.Type = format.TypeVersionDirectory // a version of whatever type
	}
	return v
}

// newestBut finds the newest live version, but for those that are hidden.
func (m *chainMemory) newestBut(reader Reader, hidden func(format.VersionID) bool) (format.Reference, error) {
	for {
		i, ok := m.best(hidden)
		if ok && (m.unread == 0 || m.known[i].timestamp.Compare(m.bound) > 0) {
			k := &m.known[i]
			return format.Reference{LSN: k.lsn, Timestamp: k.timestamp, ID: k.id}, nil
		}
		if more, err := m.more(reader); err != nil || !more {
			return format.Reference{}, err
		}
	}
}

// probe is where the table has an id, or would have it.
func (m *chainMemory) probe(id format.VersionID) uint32 {
	mask := uint32(len(m.table) - 1)
	at := spread(id) & mask
	for m.table[at] != 0 && m.known[m.table[at]-1].id != id {
		at = (at + 1) & mask
	}
	return at
}

// grow doubles the table.
func (m *chainMemory) grow() {
	m.table = make([]uint32, max(2*len(m.table), 32))
	for i := range m.known {
		m.table[m.probe(m.known[i].id)] = uint32(i) + 1
	}
}
