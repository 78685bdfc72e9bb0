package bundle

import (
	"errors"
	"fmt"
	"path/filepath"
	"testing"

	"martlet/object-server/bundle/format"
	"martlet/object-server/bundle/segment"
	"martlet/object-server/vfs"
)

// onBadDisk is a file system on which bytes from..to of one segment cannot be read.
func onBadDisk(fs vfs.FS, segment string, from, to int64) vfs.FS {
	return vfs.NewBadSectors(fs, func(name string, at, end int64) bool {
		return filepath.Base(name) == segment && at < to && from < end
	})
}

// badDiskLog is a log with bodies of several sizes, and where each record lies.
func badDiskLog(t *testing.T, config Config, batch int, isCompacted bool) (*vfs.Mem, map[int]recordSpan) {
	t.Helper()
	fs := vfs.NewMem("/d")
	b, err := Open(NewFiles(fs, "/d", 4), logID, config)
	check(t, err)
	for n := 0; n < 48; n += batch {
		var drafts []*Draft
		for i := n; i < n+batch; i++ {
			drafts = append(drafts, putSized(t, i, 1, i%5*300))
		}
		appendBatch(t, b, drafts...)
		if isCompacted {
			appendBatch(t, b, putSized(t, 0, uint64(n+2), 1200))
		}
		tend(t, b)
	}
	if isCompacted && compactAll(t, b, calm()).Segments == 0 {
		t.Fatal("nothing was compacted")
	}
	config.IndexOnDisk = false // in memory it tells where records lie
	b, err = Open(NewFiles(fs, "/d", 4), logID, config)
	check(t, err)
	places := make(map[int]recordSpan)
	for n := range 48 {
		r, ok, err := find(b, name(n))
		if !ok || err != nil {
			t.Fatalf("record %d: %v, %v", n, ok, err)
		}
		s := b.segments.table[r.slot.Segment()]
		from := int64(r.slot.Unit()) * format.UnitSize
		places[n] = recordSpan{filepath.Base(b.files.path(s.key(b.id))), segment.Span{From: from, To: from + int64(r.Head.Units)*format.UnitSize}}
	}
	return fs, places
}

type recordSpan struct {
	segment string
	segment.Span
}

func putSized(t testing.TB, n int, ticks uint64, size int) *Draft {
	t.Helper()
	d := NewDraft(size)
	body := make([]byte, size)
	for i := range body {
		body[i] = byte(n + i*i)
	}
	d.Write(body)
	ts := format.Timestamp{Ticks: ticks}
	m := &format.Metadata{Name: fmt.Sprint("/a/c/", n), Size: int64(size), Timestamp: ts, MetaTimestamp: ts, TypeTimestamp: ts}
	check(t, d.SealPut(name(n), m, nil))
	return d
}

// badDiskLogs are kinds of logs: one segment that grows, with and without a
// CHECKPOINT, one with a last batch that nothing proves, several with footers, and
// compacted ones.
var badDiskLogs = map[string]struct {
	config      Config
	batch       int
	isCompacted bool
}{
	"one segment":   {Config{SegmentBytes: 1 << 20, CheckpointBytes: 1 << 20}, 1, false},
	"one batch":     {Config{SegmentBytes: 1 << 20, CheckpointBytes: 1 << 20}, 48, false},
	"two batches":   {Config{SegmentBytes: 1 << 20, CheckpointBytes: 1 << 20}, 24, false},
	"checkpoints":   {Config{SegmentBytes: 1 << 20, CheckpointBytes: 8 << 10}, 1, false},
	"four segments": {Config{SegmentBytes: 12 << 10, CheckpointBytes: 1 << 20}, 1, false},
	"compacted":     {Config{SegmentBytes: 12 << 10, CheckpointBytes: 1 << 20}, 1, true},
	"index on disk": {Config{SegmentBytes: 12 << 10, CheckpointBytes: 1 << 20, IndexOnDisk: true}, 1, false},
}

// eachBadSpan calls try for each sector and each block of each segment of a log.
func eachBadSpan(t *testing.T, fs *vfs.Mem, try func(segment string, bad segment.Span)) {
	t.Helper()
	entries, err := fs.ReadDir("/d/bundles/7")
	check(t, err)
	for _, e := range entries {
		f, err := fs.Open("/d/bundles/7/" + e.Name())
		check(t, err)
		size, err := f.Size()
		check(t, errors.Join(err, f.Close()))
		for _, length := range []int64{segment.SectorSize, segment.BlockSize} {
			for at := int64(0); at < size; at += length {
				try(e.Name(), segment.Span{From: at, To: at + length})
			}
		}
		try(e.Name(), segment.Span{From: 0, To: size})
	}
}

// Bytes that the disk cannot read while a log is opened are damage like any other:
// records that lie elsewhere are served, none of those that lie there is said not to
// exist, and writes go on.
func TestOpenOnBadSectors(t *testing.T) {
	for what, kind := range badDiskLogs {
		t.Run(what, func(t *testing.T) {
			mem, places := badDiskLog(t, kind.config, kind.batch, kind.isCompacted)
			eachBadSpan(t, mem, func(segment string, bad segment.Span) {
				where := fmt.Sprintf("%s %d to %d", segment, bad.From, bad.To)
				fs := onBadDisk(mem.KillClone(), segment, bad.From, bad.To)
				for range 2 {
					b, err := Open(NewFiles(fs, "/d", 4), logID, kind.config)
					if err != nil {
						t.Fatalf("%s: %v", where, err)
					}
					wantAllButBad(t, b, places, segment, bad, where)
				}
				b, err := Open(NewFiles(fs, "/d", 4), logID, kind.config)
				check(t, err)
				appendBatch(t, b, put(t, 100, 1), put(t, 0, 2))
				b, err = Open(NewFiles(fs, "/d", 4), logID, kind.config)
				check(t, err)
				for _, n := range []int{0, 100} {
					if r, ok, err := find(b, name(n)); err != nil || !ok || r.Doubtful() {
						t.Fatalf("%s: written since: %d: %v, %v", where, n, r, err)
					}
				}
				delete(places, 0)
				wantAllButBad(t, b, places, segment, bad, where+", written to")
			})
		})
	}
}

// readWhole reads all of a name's newest record.
func readWhole(b *Bundle, hash format.Hash) (*Record, bool, error) {
	record, buffer, err := b.Read(hash)
	buffer.Free()
	return record, record != nil, err
}

// wantAllButBad demands all records but those that touch the bad segment.Span.
func wantAllButBad(t *testing.T, b *Bundle, places map[int]recordSpan, segment string, bad segment.Span, where string) {
	t.Helper()
	for n, p := range places {
		r, ok, err := readWhole(b, name(n))
		switch isBad := p.segment == segment && p.From < bad.To && bad.From < p.To; {
		case isBad && !errors.Is(err, format.ErrQuarantined) && !(ok && r.Doubtful()):
			t.Fatalf("%s: record %d at %d to %d: %v, %v", where, n, p.From, p.To, r, err)
		case !isBad && (err != nil || !ok || r.Head.Size != uint64(n%5*300) && n > 0):
			t.Fatalf("%s: record %d at %s %d to %d: %v, %v", where, n, p.segment, p.From, p.To, r, err)
		}
	}
}

// A partition with bad sectors can be verified and repaired: what can be read is
// kept, and the disk need not be read there any more.
func TestRepairOfBadSectors(t *testing.T) {
	for what, kind := range badDiskLogs {
		t.Run(what, func(t *testing.T) {
			mem, places := badDiskLog(t, kind.config, kind.batch, kind.isCompacted)
			eachBadSpan(t, mem, func(segment string, bad segment.Span) {
				where := fmt.Sprintf("%s %d to %d", segment, bad.From, bad.To)
				fs := onBadDisk(mem.KillClone(), segment, bad.From, bad.To)
				damages, err := InspectVerify(NewFiles(fs, "/d", 4), logID)
				if err != nil || len(damages) == 0 && touches(places, segment, bad) {
					t.Fatalf("%s: %+v, %v", where, damages, err)
				}
				if _, err := InspectRepair(NewFiles(fs, "/d", 4), logID, "/d/quarantined/x"); err != nil {
					t.Fatalf("%s: %v", where, err)
				}
				b, err := Open(NewFiles(fs, "/d", 4), logID, kind.config)
				if err != nil || len(damages) > 0 && (len(b.report.Damaged) > 0 || b.lostThrough > 0) {
					t.Fatalf("%s: %v, %v", where, b.report, err)
				}
				for n, p := range places {
					r, ok, err := readWhole(b, name(n))
					isBad := p.segment == segment && p.From < bad.To && bad.From < p.To
					if err != nil || ok == isBad && n > 0 {
						t.Fatalf("%s: record %d at %d to %d: %v, %v", where, n, p.From, p.To, r, err)
					}
				}
			})
		})
	}
}

func touches(places map[int]recordSpan, segment string, bad segment.Span) bool {
	for _, p := range places {
		if p.segment == segment && p.From < bad.To && bad.From < p.To {
			return true
		}
	}
	return false
}

// A compacted segment that cannot be read may end behind all that it replaced, also
// behind one that was compacted before and whose footer cannot be read.
func TestRestsBehindAReplacedSegment(t *testing.T) {
	at := func(sequence, generation uint32, base uint64) SegmentFile {
		return SegmentFile{File: segment.File{Origin: segment.Origin{Sequence: sequence, Generation: generation, Base: base}}}
	}
	obscure, replaced, grows := at(1, 2, 0), at(1, 1, 1), at(9, 0, 19)
	obscure.Headless, obscure.Unreadable = true, true
	all := withRests([]SegmentFile{obscure, replaced, grows})
	if len(all) != 4 || !all[2].IsBlank() || all[2].Generation != 2 || all[3].Base != 19 {
		t.Errorf("%+v", all)
	}
	// One that was never compacted may have lost its footer, too.
	replaced = at(1, 0, 1)
	if all = withRests([]SegmentFile{obscure, replaced}); len(all) != 3 || !all[2].IsBlank() {
		t.Errorf("%+v", all)
	}
	if all = withRests([]SegmentFile{obscure, replaced, at(2, 0, 4), grows}); len(all) != 5 || !all[3].IsBlank() || all[4].Base != 19 {
		t.Errorf("%+v", all)
	}
}
