package bundle

import (
	"fmt"
	"maps"
	"testing"

	"martlet/object-server/bundle/format"
	"martlet/object-server/bundle/segment"
	"martlet/object-server/vfs"
)

// tend does what the caretaker of a device does.
func tend(t testing.TB, b *Bundle) {
	t.Helper()
	check(t, b.Seal())
	d, err := b.Checkpoint()
	check(t, err)
	if d != nil {
		appendBatch(t, b, d)
	}
}

var tended = Config{SegmentBytes: 16 << 10, CheckpointBytes: 2500}

// tendedLog is a log of full segments with footers and a last one with
// checkpoints, and how many bytes of it are read to open it.
func tendedLog(t testing.TB) (fs *vfs.Mem, b *Bundle) {
	fs = vfs.NewMem("/d")
	b, err := Open(NewFiles(fs, "/d", 4), logID, tended)
	check(t, err)
	for i := range 250 {
		appendBatch(t, b, put(t, i*7%90, uint64(i+1)))
		tend(t, b)
	}
	return fs, b
}

// reopened is the log as a new process finds it.
func reopened(t testing.TB, fs vfs.FS) *Bundle {
	t.Helper()
	b, err := Open(NewFiles(fs, "/d", 4), logID, tended)
	check(t, err)
	return b
}

func wantSame(t testing.TB, live, rebuilt *Bundle) {
	t.Helper()
	if !maps.Equal(places(live), places(rebuilt)) || live.lastLSN != rebuilt.lastLSN {
		t.Fatalf("%d places up to record %d, rebuilt %d up to %d",
			live.Len(), live.lastLSN, rebuilt.Len(), rebuilt.lastLSN)
	}
	for n, s := range live.segments.table {
		other := rebuilt.segments.table[n]
		if s.units != other.units || s.live != other.live || s.base != other.base || s.last != other.last {
			t.Fatalf("segment %d: %+v, rebuilt %+v", n, s, other)
		}
	}
	for n := range 90 {
		if r, ok, err := find(rebuilt, name(n)); !ok || err != nil || !r.Live() {
			t.Fatal(n, ok, err)
		}
	}
}

// Footers and checkpoints say the same as the records, and opening reads little
// else.
func TestOpeningReadsFooters(t *testing.T) {
	fs, live := tendedLog(t)
	sealed := 0
	for _, s := range live.segments.table {
		if s.sealed {
			sealed++
		}
	}
	if sealed < 3 || sealed != len(live.segments.table)-1 || live.active.checkpoint == 0 {
		t.Fatalf("%d of %d segments sealed", sealed, len(live.segments.table))
	}
	rebuilt := reopened(t, fs)
	wantSame(t, live, rebuilt)
	if len(rebuilt.Report().Damaged) > 0 || rebuilt.Report().TornTails > 0 {
		t.Fatalf("%+v", rebuilt.Report())
	}
	if rebuilt.active == nil || rebuilt.active.checkpoint != live.active.checkpoint || rebuilt.active.resume != live.active.resume {
		t.Fatalf("%+v, live %+v", rebuilt.active, live.active)
	}
	appendBatch(t, rebuilt, put(t, 1, 1000))
	tend(t, rebuilt)
	wantSame(t, rebuilt, reopened(t, fs))
}

// A footer or a checkpoint that is torn or damaged in any byte costs nothing but
// time: the records are read instead.
func TestDamagedFootersAndCheckpoints(t *testing.T) {
	fs, live := tendedLog(t)
	for n, s := range live.segments.table {
		path := live.files.path(s.key(logID))
		info := must(fs.Open(path))
		size := must(info.Size())
		start := s.tail
		if s == live.active {
			start = int64(s.checkpoint) * format.UnitSize
			size = start + 400
		}
		for at := start; at < size; at += 97 {
			damaged := fs.KillClone()
			alter(t, damaged, path, func(f vfs.File) { flip(t, f, at) })
			rebuilt := reopened(t, damaged)
			if s != live.active && n < len(live.segments.table)-1 {
				wantSame(t, live, rebuilt)
				if r := rebuilt.Report(); len(r.Damaged) > 0 { // a crash may leave the same
					t.Fatalf("segment %d, byte %d: %+v", n, at, r)
				}
			} else if rebuilt.Len() != live.Len() && rebuilt.lostThrough == 0 {
				t.Fatalf("segment %d, byte %d: %d of %d names", n, at, rebuilt.Len(), live.Len())
			}
		}
		if s == live.active {
			continue
		}
		for at := start; at < size; at += 301 { // a footer that was not written whole
			torn := fs.KillClone()
			alter(t, torn, path, func(f vfs.File) { check(t, f.Truncate(at)) })
			rebuilt := reopened(t, torn)
			wantSame(t, live, rebuilt)
			tend(t, rebuilt)
			wantSame(t, live, reopened(t, torn))
		}
	}
}

// A segment whose header is damaged is known by its footer.
func TestSealedSegmentWithoutHeader(t *testing.T) {
	fs, live := tendedLog(t)
	for _, s := range live.segments.table[:2] {
		damaged := fs.KillClone()
		alter(t, damaged, live.files.path(s.key(logID)), func(f vfs.File) { flip(t, f, 30) })
		rebuilt := reopened(t, damaged)
		wantSame(t, live, rebuilt)
		if len(rebuilt.Report().Damaged) != 1 {
			t.Fatalf("%+v", rebuilt.Report())
		}
	}
}

// A segment with lost records gets no footer: it would hide the loss.
func TestDamagedSegmentIsNotSealed(t *testing.T) {
	fs := vfs.NewMem("/d")
	b := reopened(t, fs)
	for i := range 90 { // more than one segment
		appendBatch(t, b, put(t, i, 1))
	}
	r, _, err := find(b, name(10))
	check(t, err)
	alter(t, fs, logSegment, func(f vfs.File) { flip(t, f, int64(r.slot.Unit())*format.UnitSize+40) })
	first := reopened(t, fs)
	lost := first.lostThrough
	if lost != r.LSN() || !first.segments.table[0].damaged {
		t.Fatalf("lost through %d, damage is to record %d", lost, r.LSN())
	}
	for range 2 {
		tend(t, first)
		if first = reopened(t, fs); first.lostThrough != lost {
			t.Fatalf("lost through %d, was %d", first.lostThrough, lost)
		}
	}
}

// An object that ends like a sealed segment is none.
func TestForgedSeal(t *testing.T) {
	fs, live := tendedLog(t)
	path := live.files.path(live.segments.table[0].key(logID))
	f := must(fs.Open(path))
	stolen := make([]byte, must(f.Size()))
	check(t, segment.ReadFull(f, stolen, 0))
	for shift := range 3 {
		fs := vfs.NewMem("/d")
		b := reopened(t, fs)
		d := NewDraft(len(stolen))
		d.Write(stolen)
		m := format.Metadata{Name: fmt.Sprint("/a/c/", 1), Size: int64(len(stolen)), Timestamp: format.Timestamp{Ticks: 1}}
		check(t, d.SealPut(name(1), &m, nil))
		appendBatch(t, b, d)
		// A crash may cut the file so that the forged footer ends it.
		at := 2*format.HeaderSize + int64(d.head.MetadataLength) + int64(len(stolen)) + int64(shift*4)
		alter(t, fs, logSegment, func(f vfs.File) { check(t, f.Truncate(at)) })
		rebuilt := reopened(t, fs)
		if _, ok, _ := find(rebuilt, name(1)); ok || rebuilt.Len() != 0 {
			t.Fatalf("%d names", rebuilt.Len())
		}
	}
}

// Every record is found by its number, in segments with and without a footer.
func TestReadLSN(t *testing.T) {
	fs, live := tendedLog(t)
	for _, b := range []*Bundle{live, reopened(t, fs)} {
		hit := 0
		for lsn := uint64(1); lsn <= b.lastLSN; lsn++ {
			for n := range 90 { // the name it may have
				record, buffer, err := b.readLSN(lsn, name(n), false)
				check(t, err)
				if record == nil {
					continue
				}
				if record.LSN() != lsn || record.Head.Hash != name(n) || len(record.Data) != 200 {
					t.Fatalf("record %d: %+v", lsn, record.Head)
				}
				buffer.Free()
				hit++
			}
		}
		if hit != 250 {
			t.Fatalf("%d records found", hit)
		}
		if r, _, err := b.readLSN(b.lastLSN+1, name(1), false); r != nil || err != nil {
			t.Fatal(r, err)
		}
	}
}
