package bundle

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"

	"martlet/object-server/bundle/format"
	"martlet/object-server/bundle/index"
	"martlet/object-server/bundle/segment"
	"martlet/object-server/vfs"
)

var logID = ID{Partition: 7}

var logConfig = Config{SegmentBytes: 1 << 20, CheckpointBytes: 1 << 20}

const logSegment = "/d/bundles/7/00000001-0000.bundle"

// name is the hash of a numbered object.
func name(n int) (h format.Hash) {
	h[0] = byte(n)
	binary.BigEndian.PutUint64(h[8:], uint64(n)*0x9e3779b97f4a7c15)
	return h
}

// put makes a PUT record of object n with 200 bytes.
func put(t testing.TB, n int, ticks uint64) *Draft {
	d := NewDraft(200)
	d.Write(make([]byte, 200))
	m := format.Metadata{Name: fmt.Sprint("/a/c/", n), Size: 200, Timestamp: format.Timestamp{Ticks: ticks}}
	check(t, d.SealPut(name(n), &m, nil))
	return d
}

// appendBatch writes and publishes a batch.
func appendBatch(t testing.TB, b *Bundle, drafts ...*Draft) {
	t.Helper()
	for _, d := range drafts {
		old, buffer, _ := b.ReadHead(d.head.Hash)
		d.Replaces(old)
		buffer.Free()
	}
	a, err := (&Writer{b}).Append(drafts)
	check(t, err)
	check(t, a.Datasync())
	a.Publish()
}

func openLog(t testing.TB, fs vfs.FS) *Bundle {
	t.Helper()
	b, err := Open(NewFiles(fs, "/d", 4), logID, logConfig)
	check(t, err)
	return b
}

// find reads the header of a name's newest record; false if there is none.
func find(b *Bundle, hash format.Hash) (*Record, bool, error) {
	record, buffer, err := b.ReadHead(hash)
	buffer.Free()
	if record == nil {
		return &Record{}, false, err
	}
	return record, true, err
}

// places lists where the index points.
func places(b *Bundle) map[uint64]bool {
	all := map[uint64]bool{}
	b.index.Each(func(s index.Slot) bool {
		place := uint64(b.segments.table[s.Segment()].sequence)<<32 | uint64(s.Unit())
		all[place] = s.IsChained()
		return true
	})
	return all
}

// threeBatches is a log of the records 1; 2 and 3; 4 and 5, where the end of the
// last batch is proven by nothing. It returns the offset of each record.
func threeBatches(t testing.TB) (*vfs.Mem, []int64) {
	fs := vfs.NewMem("/d")
	b := openLog(t, fs)
	appendBatch(t, b, put(t, 1, 1))
	appendBatch(t, b, put(t, 2, 1), put(t, 3, 1))
	appendBatch(t, b, put(t, 4, 1), put(t, 5, 1))
	offsets := []int64{0}
	for n := 1; n <= 5; n++ {
		r, _, _ := find(b, name(n))
		offsets = append(offsets, int64(r.slot.Unit())*format.UnitSize)
	}
	return fs, append(offsets, b.active.tail)
}

// alter changes a file in place.
func alter(t testing.TB, fs vfs.FS, path string, change func(f vfs.File)) {
	t.Helper()
	f, err := fs.Open(path)
	check(t, err)
	change(f)
	check(t, f.Datasync())
	check(t, f.Close())
}

func flip(t testing.TB, f vfs.File, offset int64) {
	p := make([]byte, 1)
	_, err := f.ReadAt(p, offset)
	check(t, err)
	p[0] ^= 0x40
	check(t, f.Writev([][]byte{p}, offset))
}

func TestTornTails(t *testing.T) {
	_, at := threeBatches(t)
	flipAt := func(offset int64) func(testing.TB, vfs.File) {
		return func(t testing.TB, f vfs.File) { flip(t, f, offset) }
	}
	cut := func(size int64) func(testing.TB, vfs.File) {
		return func(t testing.TB, f vfs.File) { check(t, f.Truncate(size)) }
	}
	cases := []struct {
		name    string
		corrupt func(testing.TB, vfs.File)
		live    []int // records that count
		lost    bool  // others are in quarantine, not absent
		torn    int
	}{
		{"nothing", func(testing.TB, vfs.File) {}, []int{1, 2, 3, 4, 5}, false, 0},
		{"last record one byte short", cut(at[6] - 1), []int{1, 2, 3, 4}, false, 1},
		{"last record is a header", cut(at[5] + format.HeaderSize), []int{1, 2, 3, 4}, false, 1},
		{"last record is a piece of header", cut(at[5] + 17), []int{1, 2, 3, 4}, false, 1},
		{"last record gone", cut(at[5]), []int{1, 2, 3, 4}, false, 0},
		{"last batch gone", cut(at[4]), []int{1, 2, 3}, false, 0},
		{"zeros behind the end", cut(at[6] + 5000), []int{1, 2, 3, 4, 5}, false, 1},
		{"body of the last record", flipAt(at[6] - 100), []int{1, 2, 3, 4}, false, 1},
		{"header of the last record", flipAt(at[5] + 40), []int{1, 2, 3, 4}, false, 1},
		{"last batch, first record torn, second whole", flipAt(at[4] + 40), []int{1, 2, 3}, false, 1},
		{"last batch, first body torn, second whole", flipAt(at[5] - 100), []int{1, 2, 3}, false, 1},
		{"header in a proven batch", flipAt(at[2] + 40), []int{3, 4, 5}, true, 0},
		{"header before the last batch", flipAt(at[3] + 40), []int{4, 5}, true, 0},
		{"first header", flipAt(at[1] + 40), []int{2, 3, 4, 5}, true, 0},
		{"segment header", flipAt(30), []int{1, 2, 3, 4, 5}, false, 0},
		{"segment header and first record", func(t testing.TB, f vfs.File) { flip(t, f, 30); flip(t, f, at[1]+40) },
			[]int{2, 3, 4, 5}, true, 0},
		{"cut inside proven records", cut(at[3] + 10), []int{1, 2}, false, 1}, // no later record can prove it
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			fs, _ := threeBatches(t)
			alter(t, fs, logSegment, func(f vfs.File) { c.corrupt(t, f) })
			for round := range 3 { // the same when opened again, and after a write
				b := openLog(t, fs)
				checkLive(t, b, c.live, c.lost)
				if torn := b.Report().TornTails; round < 2 && torn != c.torn {
					t.Fatalf("round %d: %d torn tails", round, torn)
				}
				if damaged := len(b.Report().Damaged) > 0; damaged != (c.lost || c.name == "segment header") {
					t.Fatalf("round %d: damage %v", round, b.Report().Damaged)
				}
				if round == 1 {
					before := size(t, fs)
					appendBatch(t, b, put(t, 9, 1))
					if closed := c.torn > 0 || len(b.Report().Damaged) > 0; closed && size(t, fs) != before {
						t.Fatal("a damaged segment was written to")
					}
				}
			}
		})
	}
}

func size(t testing.TB, fs vfs.FS) (size int64) {
	alter(t, fs, logSegment, func(f vfs.File) {
		n, err := f.Size()
		check(t, err)
		size = n
	})
	return size
}

func checkLive(t *testing.T, b *Bundle, live []int, lost bool) {
	t.Helper()
	for n := 1; n <= 5; n++ {
		r, ok, err := find(b, name(n))
		switch want := slices.Contains(live, n); {
		case lost && r.LSN() <= b.lostThrough:
			if ok && (err != nil || !r.Doubtful()) || !ok && !errors.Is(err, format.ErrQuarantined) {
				t.Fatalf("record %d: doubtful %v, %v", n, r.Doubtful(), err)
			}
		case err != nil || ok != want:
			t.Fatalf("record %d: found %v, want %v, %v", n, ok, want, err)
		}
	}
	if lost == (b.lostThrough == 0) {
		t.Fatalf("lost through %d", b.lostThrough)
	}
}

// The index that a restart builds equals the live one (I5), over many segments.
func TestRebuiltIndexEqualsLive(t *testing.T) {
	fs := vfs.NewMem("/d")
	files := NewFiles(fs, "/d", 2)
	small := Config{SegmentBytes: 4 << 10, CheckpointBytes: 1 << 20}
	live, err := Open(files, logID, small)
	check(t, err)
	for i := range 200 {
		appendBatch(t, live, put(t, i*7%50, uint64(i*31%97+1)))
	}
	rebuilt, err := Open(NewFiles(fs, "/d", 2), logID, small)
	check(t, err)
	if !maps.Equal(places(live), places(rebuilt)) || live.lastLSN != rebuilt.lastLSN {
		t.Fatal("the rebuilt index differs")
	}
	if live.nextSequence < 10 || len(files.open) > 3 {
		t.Fatalf("%d segments, %d files open", live.nextSequence-1, len(files.open))
	}
}

// After a failed flush the next segment voids what lies behind the durable end,
// whole as it may be.
func TestDiscardedBatchIsVoid(t *testing.T) {
	fs := vfs.NewMem("/d")
	b := openLog(t, fs)
	appendBatch(t, b, put(t, 1, 1))
	a, err := (&Writer{b}).Append([]*Draft{put(t, 2, 1), put(t, 3, 1)})
	check(t, err)
	a.Discard()
	appendBatch(t, b, put(t, 4, 1))
	for range 2 {
		checkLive(t, b, []int{1, 4}, false)
		b = openLog(t, fs)
	}
}

// What a later version wrote is refused, and not touched.
func TestUnsupported(t *testing.T) {
	seal := func(b []byte) {
		binary.LittleEndian.PutUint32(b[124:], format.Checksum(b[:124]))
	}
	cases := map[string]func(b []byte){
		"record version":     func(b []byte) { b[128+4] = 2; seal(b[128:]) },
		"record type":        func(b []byte) { b[128+5] = byte(format.TypeMeta); seal(b[128:]) },
		"record flag":        func(b []byte) { b[128+7] = 1; seal(b[128:]) },
		"segment version":    func(b []byte) { b[4] = 2; seal(b) },
		"segment flag":       func(b []byte) { b[7] = 2; seal(b) },
		"segment generation": func(b []byte) { b[20] = 1; seal(b) },
		"another partition":  func(b []byte) { b[12]++; seal(b) },
	}
	for what, change := range cases {
		fs, _ := threeBatches(t)
		alter(t, fs, logSegment, func(f vfs.File) {
			p := make([]byte, 256)
			_, err := f.ReadAt(p, 0)
			check(t, err)
			change(p)
			check(t, f.Writev([][]byte{p}, 0))
		})
		if _, err := Open(NewFiles(fs, "/d", 4), logID, logConfig); !errors.Is(err, format.ErrUnsupported) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// Names that are none of ours are left alone.
func TestForeignNames(t *testing.T) {
	fs, _ := threeBatches(t)
	for _, foreign := range []string{"README", "1-0.bundle", "00000002-0000.bundle.bak", "0000000G-0000.bundle", "hashes.pkl"} {
		plant(t, fs, "/d/bundles/7/"+foreign, []byte("x"))
	}
	check(t, fs.Mkdir("/d/bundles/7/abc"))
	checkLive(t, openLog(t, fs), []int{1, 2, 3, 4, 5}, false)
	entries, err := fs.ReadDir("/d/bundles/7")
	check(t, err)
	if len(entries) != 7 {
		t.Fatalf("%d entries", len(entries))
	}
}

// A block that was written to the wrong place is damage, and no reason to refuse
// the partition; a file that was moved is refused.
func TestMisdirectedHeader(t *testing.T) {
	for _, block := range []int{512, 4096, -512} { // a negative one: the zeros of direct writes follow
		fs := vfs.NewMem("/d")
		files := NewFiles(fs, "/d", 4)
		files.Direct, block = block < 0, max(block, -block)
		mine, other := must(Open(files, logID, logConfig)), must(Open(files, ID{Partition: 8}, logConfig))
		for n := range 40 {
			appendBatch(t, mine, put(t, n, 1))
			appendBatch(t, other, put(t, n+40, 1))
		}
		alter(t, fs, logSegment, func(f vfs.File) {
			p := make([]byte, block)
			alter(t, fs, "/d/bundles/8/00000001-0000.bundle", func(g vfs.File) { check(t, segment.ReadFull(g, p, 0)) })
			check(t, f.Writev([][]byte{p}, 0))
		})
		b := openLog(t, fs)
		if r, ok, err := find(b, name(39)); !ok || err != nil || r.LSN() != 40 {
			t.Errorf("block of %d: %v, %v", block, ok, err)
		}
		if _, _, err := find(b, name(0)); !errors.Is(err, format.ErrQuarantined) {
			t.Errorf("block of %d: the first record: %v", block, err)
		}
		if _, _, err := find(b, name(40)); !errors.Is(err, format.ErrQuarantined) {
			t.Errorf("block of %d: a record of the other partition: %v", block, err)
		}
	}
}
