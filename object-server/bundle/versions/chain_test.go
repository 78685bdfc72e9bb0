package versions

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"martlet/object-server/bundle/format"
)

// chainStore keeps the records of a chain as they would lie in a log.
type chainStore struct {
	records map[uint64]storedLink
	head    uint64
	reads   int
	damaged map[uint64]bool
	memory  *Memory
}

type storedLink struct {
	head  format.Header
	block []byte
}

func newChainStore() *chainStore { return &chainStore{records: map[uint64]storedLink{}} }

func (s *chainStore) ReadLink(lsn uint64) (Link, error) {
	s.reads++
	r, ok := s.records[lsn]
	if !ok {
		panic(fmt.Sprintf("record %d does not exist", lsn))
	}
	if s.damaged[lsn] {
		return Link{}, fmt.Errorf("%w: record %d", format.ErrQuarantined, lsn)
	}
	return NewLink(r.head, r.block)
}

func (s *chainStore) chain() *Chain {
	c := &Chain{reader: s, memory: s.memory}
	if s.head != 0 {
		l, err := s.ReadLink(s.head)
		if err != nil {
			panic(err)
		}
		c.head = &l
	}
	s.reads = 0
	return c
}

// plain stores a record without versions.
func (s *chainStore) plain(kind format.Type, t format.Timestamp) {
	s.head++
	s.records[s.head] = storedLink{head: format.Header{Type: kind, LSN: s.head, Timestamp: t, Versions: 1}}
}

// put appends a record, some LSNs behind the one before.
func (s *chainStore) put(a Addition, kind format.Type, id format.VersionID, t format.Timestamp, gap uint64) {
	lsn := s.head + 1 + gap
	h := format.Header{
		Type: kind, Flags: format.FlagVersions | format.FlagBlock, LSN: lsn, VersionID: id, Timestamp: t,
		Previous: a.previous, Versions: a.versions,
	}
	s.records[lsn] = storedLink{h, a.block.Append(nil)}
	s.head = lsn
}

func (s *chainStore) add(t rapid.TB, kind format.Type, id format.VersionID, ts format.Timestamp) {
	t.Helper()
	a, err := s.chain().Add(id, ts)
	check(t, err)
	s.put(a, kind, id, ts, 0)
}

// register is what the model knows of a version id: the last write that counts.
type register struct {
	timestamp format.Timestamp
	lives     bool
	marker    bool
	records   []uint64 // LSNs of its versions, the last one counts
}

// chainModel is the store and what it has to show.
type chainModel struct {
	store     *chainStore
	registers map[format.VersionID]*register
	entries   int
}

func newChainModel() *chainModel {
	return &chainModel{store: newChainStore(), registers: map[format.VersionID]*register{}}
}

// chainOp is a change of a version.
type chainOp struct {
	kind format.Type // TypePut, TypeDeleteMarker, TypeTombstone; TypeMeta is a POST
	id   format.VersionID
	time format.Timestamp
}

// numbered is a version id, and the time that goes with it; several ids share one.
func numbered(n int) (id format.VersionID, t format.Timestamp) {
	binary.BigEndian.PutUint64(id[8:], uint64(n)*0x9e3779b97f4a7c15|1)
	return id, format.Timestamp{Ticks: uint64(n/3+1) * 10, Offset: uint64(n % 2)}
}

// ordered is a version id with a time later than those of all lower numbers.
func ordered(n int) (id format.VersionID, t format.Timestamp) {
	id, _ = numbered(n)
	return id, format.Timestamp{Ticks: uint64(n+1) * 10}
}

// apply makes the change on chain and model, and compares what both say of it.
func (m *chainModel) apply(t *rapid.T, op chainOp, gap uint64) {
	c := m.store.chain()
	r := m.registers[op.id]
	var a Addition
	var err error
	switch op.kind {
	case format.TypePut, format.TypeDeleteMarker:
		a, err = c.Add(op.id, op.time)
	case format.TypeTombstone:
		a, err = c.Remove(op.id, op.time)
	case format.TypeMeta:
		var old format.Reference
		if old, err = c.Find(op.id); errors.Is(err, ErrNoVersion) && (r == nil || !r.lives) {
			return
		}
		if err == nil {
			op.kind, op.time = format.TypePut, old.Timestamp
			if r.marker {
				op.kind = format.TypeDeleteMarker
			}
			if a, err = c.Rewrite(old); err == nil {
				m.put(a, op, gap)
				return
			}
		}
	}
	refused := r != nil && r.timestamp.Compare(op.time) >= 0
	if op.kind == format.TypeTombstone && refused && r.timestamp == op.time && r.lives {
		refused = false // a removal wins against its version
	}
	var older *OlderError
	if errors.As(err, &older) != refused || err != nil && !refused {
		t.Fatalf("%+v on %+v: %v", op, r, err)
	}
	if refused {
		if older.Existing != r.timestamp {
			t.Fatalf("refused for %v, not %v", older.Existing, r.timestamp)
		}
		return
	}
	if lives := r != nil && r.lives; lives != (a.replaced.LSN != 0) ||
		lives && a.replaced.LSN != r.records[len(r.records)-1] {
		t.Fatalf("%+v on %+v replaces %+v", op, r, a.replaced)
	}
	m.put(a, op, gap)
}

func (m *chainModel) put(a Addition, op chainOp, gap uint64) {
	m.store.put(a, op.kind, op.id, op.time, gap)
	m.entries++
	r := m.registers[op.id]
	if r == nil {
		r = new(register)
		m.registers[op.id] = r
	}
	r.timestamp, r.lives, r.marker = op.time, op.kind != format.TypeTombstone, op.kind == format.TypeDeleteMarker
	if r.lives {
		r.records = append(r.records, m.store.head)
	}
}

// live is the listing that the model expects.
func (m *chainModel) live() []format.Version {
	var all []format.Version
	for id, r := range m.registers {
		if r.lives {
			all = append(all, format.Version{ID: id, Timestamp: r.timestamp, LSN: r.records[len(r.records)-1]})
		}
	}
	slices.SortFunc(all, func(v, u format.Version) int { return -v.Compare(u.Timestamp, u.ID) })
	return all
}

// stub is what compaction leaves of a dead record.
func (m *chainModel) stub(lsn uint64) {
	r := m.store.records[lsn]
	r.head.Type, r.head.Size, r.head.MetadataLength = format.TypeVersionDirectory, 0, 0
	if r.block == nil { // the first record of the name, without versions then
		x := format.Block{Entries: 1}
		r.block, r.head.Flags = x.Append(nil), format.FlagVersions|format.FlagBlock
	}
	m.store.records[lsn] = r
}

func (m *chainModel) compact() {
	for _, r := range m.registers {
		for i, lsn := range r.records {
			if lsn != m.store.head && (!r.lives || i < len(r.records)-1) {
				m.stub(lsn)
			}
		}
	}
}

func (m *chainModel) check(t *rapid.T) {
	if m.store.head == 0 {
		return
	}
	want := m.live()
	c := m.store.chain()
	if n := int(c.head.Head.Versions); n != len(want) {
		t.Fatalf("%d versions counted, want %d", n, len(want))
	}
	if int(c.head.Block.Entries) != m.entries {
		t.Fatalf("%d entries, want %d", c.head.Block.Entries, m.entries)
	}
	newest := c.head.newest()
	switch {
	case len(want) == 0:
		if !newest.Timestamp.IsZero() {
			t.Fatalf("newest %+v of none", newest)
		}
	case newest != format.Reference{LSN: want[0].LSN, Timestamp: want[0].Timestamp, ID: want[0].ID}:
		t.Fatalf("newest %+v, want %+v", newest, want[0])
	}
	m.checkPages(t, c, want)
	for id, r := range m.registers {
		found, err := c.Find(id)
		if r.lives && (err != nil || found.LSN != r.records[len(r.records)-1]) || !r.lives && !errors.Is(err, ErrNoVersion) {
			t.Fatalf("found %+v, %v for %+v", found, err, r)
		}
	}
}

func (m *chainModel) checkPages(t *rapid.T, c *Chain, want []format.Version) {
	limit := rapid.IntRange(1, len(want)+1).Draw(t, "limit")
	var after Marker
	var successor format.Timestamp
	for done := 0; ; {
		m.store.reads = 0
		page, err := c.Page(after, limit)
		if err != nil || len(page) != min(limit, len(want)-done) {
			t.Fatalf("page of %d behind %d of %d: %v", len(page), done, len(want), err)
		}
		if most := m.entries/directoryStride + 16; m.store.reads > most {
			t.Fatalf("%d reads for %d entries", m.store.reads, m.entries)
		}
		for _, v := range page {
			if v.ID != want[done].ID || v.Timestamp != want[done].Timestamp || v.LSN != want[done].LSN ||
				v.Successor != successor {
				t.Fatalf("item %d is %+v, want %+v", done, v, want[done])
			}
			successor, after = v.Timestamp, Marker{v.Timestamp, v.ID}
			done++
		}
		if done == len(want) {
			return
		}
	}
}

// Any history of writes, in any order of their times, shows what a sorted slice
// would, after compaction too.
func TestChainEqualsModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newChainModel()
		if kind := rapid.SampledFrom([]format.Type{0, format.TypePut, format.TypeTombstone}).Draw(t, "first"); kind != 0 {
			m.store.plain(kind, format.Timestamp{Ticks: 35})
			m.entries++
			m.registers[format.VersionID{}] = &register{timestamp: format.Timestamp{Ticks: 35}, lives: kind == format.TypePut}
			if kind == format.TypePut {
				m.registers[format.VersionID{}].records = []uint64{1}
			}
		}
		for i := range rapid.IntRange(0, 140).Draw(t, "in order") {
			id, ts := numbered(i)
			m.apply(t, chainOp{format.TypePut, id, ts}, 0)
		}
		ids := rapid.SampledFrom([]int{5, 30, 200}).Draw(t, "ids")
		kinds := []format.Type{format.TypePut, format.TypePut, format.TypePut, format.TypeDeleteMarker, format.TypeTombstone, format.TypeMeta}
		for range rapid.IntRange(0, 80).Draw(t, "operations") {
			op := chainOp{kind: rapid.SampledFrom(kinds).Draw(t, "kind")}
			op.id, op.time = numbered(rapid.IntRange(0, ids).Draw(t, "version"))
			if rapid.IntRange(0, 9).Draw(t, "null") == 0 {
				op.id = format.VersionID{}
			}
			if op.kind == format.TypePut || op.kind == format.TypeDeleteMarker { // it comes back from another policy
				op.time.Offset += rapid.SampledFrom([]uint64{0, 0, 0, 2, 4}).Draw(t, "again")
			}
			if op.kind == format.TypeTombstone {
				op.time.Ticks += rapid.SampledFrom([]uint64{0, 0, 1, 500}).Draw(t, "later")
			}
			m.apply(t, op, rapid.Uint64Range(0, 3).Draw(t, "gap"))
			if rapid.IntRange(0, 30).Draw(t, "look") == 0 {
				m.check(t)
				m.compact()
			}
		}
		m.check(t)
		m.compact()
		m.check(t)
	})
}

func TestNullIsOldOnceAVersionIsWritten(t *testing.T) {
	at := func(ticks int) format.Timestamp { return format.Timestamp{Ticks: uint64(ticks)} }
	s := newChainStore()
	s.plain(format.TypePut, at(20))
	want := func(ticks int, want bool) {
		t.Helper()
		if got, err := s.chain().NullIsOld(at(ticks)); err != nil || got != want {
			t.Errorf("at %d: %v, %v", ticks, got, err)
		}
	}
	want(100, false)
	s.add(t, format.TypePut, format.VersionID{1}, at(10)) // comes late
	want(100, false)
	for i := range 100 { // by whatever marker, and after many more versions
		id, _ := numbered(i)
		s.add(t, format.TypeDeleteMarker, id, at(30+i))
	}
	want(20, false)
	want(30, false)
	want(31, true)
	want(200, true)
	a, err := s.chain().Remove(format.VersionID{}, at(200))
	check(t, err)
	s.put(a, format.TypeTombstone, format.VersionID{}, at(200), 0)
	want(300, false)
}

// The same writes in two orders give equal listings, counts and newest versions.
func TestChainOrderDoesNotMatter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var ops []chainOp
		used := map[chainOp]bool{}
		for range rapid.IntRange(1, 100).Draw(t, "operations") {
			n := rapid.IntRange(0, 40).Draw(t, "version")
			op := chainOp{kind: format.TypePut}
			op.id, op.time = numbered(n)
			op.time.Offset += rapid.SampledFrom([]uint64{0, 0, 2}).Draw(t, "again")
			if n%5 == 0 {
				op.kind = format.TypeDeleteMarker
			}
			if n%7 == 0 {
				op.id = format.VersionID{}
				op.time = format.Timestamp{Ticks: uint64(n)*7 + 1} // writes of the null version have times of their own
			}
			if rapid.IntRange(0, 3).Draw(t, "remove") == 0 {
				op.kind = format.TypeTombstone
				op.time.Ticks += 1 + rapid.Uint64Range(0, 1).Draw(t, "later")*400
			}
			if !used[op] {
				used[op] = true
				ops = append(ops, op)
			}
		}
		first, second := newChainModel(), newChainModel()
		for _, op := range ops {
			first.apply(t, op, 0)
		}
		for _, op := range rapid.Permutation(ops).Draw(t, "order") {
			second.apply(t, op, 0)
		}
		x, y := first.store.chain(), second.store.chain()
		a, err := x.Page(Marker{}, 1000)
		b, failed := y.Page(Marker{}, 1000)
		if err != nil || failed != nil {
			t.Fatal(err, failed)
		}
		same := slices.EqualFunc(a, b, func(v, u Listed) bool {
			return v.ID == u.ID && v.Timestamp == u.Timestamp && v.Type == u.Type && v.Successor == u.Successor
		})
		n, o := x.head.newest(), y.head.newest()
		if !same || n.ID != o.ID || n.Timestamp != o.Timestamp || x.head.Head.Versions != y.head.Head.Versions {
			t.Fatalf("%v and %v", a, b)
		}
	})
}

// What a version costs does not depend on how many there are.
func TestChainCosts(t *testing.T) {
	const count = 20_000
	s := newChainStore()
	largest, reads, bytes := 0, [2]int{}, [2]int{}
	for i := range count {
		id, ts := ordered(i)
		a, err := s.chain().Add(id, ts)
		check(t, err)
		reads[i*2/count] += s.reads
		bytes[i*2/count] += len(a.block.Append(nil))
		largest = max(largest, s.reads)
		s.put(a, format.TypePut, id, ts, 0)
	}
	if largest > 7 || reads[0] != reads[1]+1 && reads[0] != reads[1] || bytes[1] > bytes[0]+1<<14 {
		t.Errorf("reads %v, at most %d; bytes %v", reads, largest, bytes)
	}
	c := s.chain()
	if page, err := c.Page(Marker{}, count); err != nil || len(page) != count || s.reads > count/64+16 {
		t.Errorf("%d of %d versions, %d reads, %v", len(page), count, s.reads, err)
	}
	if page, err := s.chain().Page(Marker{}, 100); err != nil || len(page) != 100 || s.reads > 12 {
		t.Errorf("%d of 100 versions, %d reads, %v", len(page), s.reads, err)
	}
	id, ts := ordered(count - 100)
	ts.Ticks++
	id[0] = 1
	if _, err := s.chain().Add(id, ts); err != nil || s.reads > 12 {
		t.Errorf("a late version: %d reads, %v", s.reads, err)
	}
	newest, _ := ordered(count - 1)
	if _, err := s.chain().Remove(newest, format.Timestamp{Ticks: 1 << 40}); err != nil || s.reads > 8 {
		t.Errorf("removing the newest: %d reads, %v", s.reads, err)
	}
	t.Logf("%d reads and %d bytes of blocks for %d versions", reads[0]+reads[1], bytes[0]+bytes[1], count)
}

// Damage to old records hides what they list, and hinders no write.
func TestChainWithDamage(t *testing.T) {
	s := newChainStore()
	s.damaged = map[uint64]bool{}
	for i := range 300 {
		id, ts := ordered(i)
		s.add(t, format.TypePut, id, ts)
		s.damaged[40], s.damaged[128] = i > 50, i > 150
		if newest := s.chain().head.newest(); newest.LSN != s.head {
			t.Fatalf("newest %+v behind %d", newest, s.head)
		}
	}
	page, err := s.chain().Page(Marker{}, 1000)
	if !errors.Is(err, format.ErrQuarantined) || len(page) != 300-128 {
		t.Fatalf("%d versions, %v", len(page), err)
	}
	delete(s.damaged, 128)
	if page, err = s.chain().Page(Marker{}, 1000); !errors.Is(err, format.ErrQuarantined) || len(page) != 300-40 {
		t.Fatalf("%d versions, %v", len(page), err)
	}
	delete(s.damaged, 40)
	if page, err = s.chain().Page(Marker{}, 1000); err != nil || len(page) != 300 {
		t.Fatalf("%d versions, %v", len(page), err)
	}
}

func FuzzVersionBlock(f *testing.F) {
	s := newChainStore()
	for i := range 64 {
		id, ts := ordered(i)
		s.add(f, format.TypePut, id, ts)
		if r := s.records[s.head]; i == 0 || i == 10 || i == 63 {
			f.Add(r.block, r.head.LSN)
		}
	}
	f.Fuzz(func(t *testing.T, b []byte, lsn uint64) {
		x, err := format.ParseBlock(b, lsn)
		if err != nil {
			return
		}
		if x.Next >= lsn {
			t.Fatal("a chain that does not end")
		}
		encoded := x.Append(nil)
		again, err := format.ParseBlock(encoded, lsn)
		if err != nil || len(encoded) != len(b) || !bytes.Equal(encoded, again.Append(nil)) {
			t.Fatal("a block changes when it is read and written", err)
		}
	})
}
