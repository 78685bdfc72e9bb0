package bundle

import (
	"errors"
	"io"
	"path/filepath"
	"slices"
	"testing"

	"martlet/object-server/bundle/format"
	"martlet/object-server/bundle/segment"
	"martlet/object-server/vfs"
)

// lostRange is which records are missing.
type lostRange struct{ first, last uint64 }

// lostBy lists what damages say is missing, in order.
func lostBy(damages []Damage) (all []lostRange) {
	for _, d := range damages {
		if d.LastLSN > 0 {
			all = append(all, lostRange{d.FirstLSN, d.LastLSN})
		}
	}
	slices.SortFunc(all, func(x, y lostRange) int { return int(x.first) - int(y.first) })
	return all
}

// sealedLog is one segment with a footer: the records 1 to n, one of them a PAD.
func sealedLog(t *testing.T, n int) (*vfs.Mem, *openSegment) {
	t.Helper()
	fs := vfs.NewMem("/d")
	b := openLog(t, fs)
	var drafts []*Draft
	for i := 1; i < n; i++ {
		drafts = append(drafts, put(t, i, 1))
	}
	appendBatch(t, b, drafts...)
	appendBatch(t, b, (&Writer{b}).Pad())
	s := b.active
	b.active = nil
	check(t, b.Seal())
	return fs, s
}

// What a footer lists was durable before the footer was written. So a rotten body in
// the last batch of a sealed segment is no torn tail, damaged as the footer may be.
func TestASealProvesItsRecords(t *testing.T) {
	fs := vfs.NewMem("/d")
	b := openLog(t, fs)
	appendBatch(t, b, put(t, 1, 1), put(t, 2, 1), put(t, 3, 1))
	r, _, _ := find(b, name(2))
	end := b.active.tail
	b.active = nil
	check(t, b.Seal())
	alter(t, fs, logSegment, func(f vfs.File) {
		flip(t, f, int64(r.slot.Unit())*format.UnitSize+300)
		flip(t, f, end+10)
	})
	b = openLog(t, fs)
	if report := b.Report(); report.TornTails != 0 || len(report.Footers) != 1 {
		t.Errorf("%+v", report)
	}
	for n, want := range map[int]error{1: nil, 2: format.ErrQuarantined, 3: nil} {
		record, buffer, err := b.Read(name(n))
		if err == nil && record != nil {
			err = record.CheckData()
		}
		buffer.Free()
		if record == nil || want == nil && err != nil || want != nil && !format.IsDamage(err) && !errors.Is(err, want) {
			t.Errorf("record %d: %v, %v", n, record, err)
		}
	}
}

// When all records with a name that a seal counts were met, a lost one has none.
func TestALostRecordWithoutANameLeavesNoDoubt(t *testing.T) {
	fs, s := sealedLog(t, 4)
	alter(t, fs, logSegment, func(f vfs.File) {
		flip(t, f, s.tail-format.HeaderSize+9) // the PAD
		flip(t, f, s.tail+10)                  // the footer
	})
	damages := verified(t, fs)
	if got := lostBy(damages); !slices.Equal(got, []lostRange{{4, 4}}) || damages[0].Unnamed != 0 {
		t.Errorf("%+v", damages)
	}
	b := openLog(t, fs)
	if r, ok, err := find(b, name(1)); err != nil || !ok || r.Doubtful() {
		t.Errorf("%+v, %v", r, err)
	}
	if _, ok, err := find(b, name(9)); err != nil || ok {
		t.Errorf("a name that is not there: %v, %v", ok, err)
	}
}

// The end of a compacted segment may be missing like that of any other. Opening and
// verifying it say so alike, wherever its file is cut off.
func TestACompactedSegmentIsCutOff(t *testing.T) {
	kind := badDiskLogs["compacted"]
	whole, _ := badDiskLog(t, kind.config, kind.batch, true)
	b, err := Open(NewFiles(whole, "/d", 4), logID, kind.config)
	check(t, err)
	path, next := "", uint64(0)
	for _, s := range b.segments.inOrder() {
		if s.generation > 0 && s.named > 2 && path == "" {
			path = b.files.path(s.key(b.id))
		} else if path != "" && next == 0 {
			next = s.base
		}
	}
	if next == 0 {
		t.Fatalf("no compacted segment with a successor: %q", shape(b))
	}
	for _, end := range recordEnds(t, whole, path) {
		fs := whole.KillClone()
		alter(t, fs, path, func(f vfs.File) { check(t, f.Truncate(end.Offset)) })
		want := lostBy([]Damage{{FirstLSN: end.LSN + 1, LastLSN: next - 1}})
		if end.LSN+1 == next {
			want = nil
		}
		if got := lostBy(verified(t, fs)); !slices.Equal(got, want) {
			t.Errorf("cut at %d: verify says %v, lost is %v", end.Offset, got, want)
		}
		opened, err := Open(NewFiles(fs, "/d", 4), logID, kind.config)
		check(t, err)
		if got := lostBy(opened.report.Extents); !slices.Equal(got, want) {
			t.Errorf("cut at %d: opening says %v, lost is %v", end.Offset, got, want)
		}
	}
}

// recordEnds lists where each record of a segment file ends, and its number.
func recordEnds(t *testing.T, fs vfs.FS, path string) (ends []segment.Place) {
	t.Helper()
	file, err := fs.Open(path)
	check(t, err)
	defer file.Close()
	f, _, err := segment.ReadFile(file, filepath.Base(path))
	check(t, err)
	w := f.Walk(segment.NewWindow(file, f.End(), segment.WindowSize), segment.NoLimit)
	defer w.Close()
	for {
		h, err := w.Read()
		if err == io.EOF {
			return ends
		}
		check(t, err)
		ends = append(ends, segment.Place{Offset: w.Next().Offset, LSN: h.LSN})
	}
}

// A segment loses what is proven to have been in it. What else is missing before a
// successor whose base is a guess may have been in either.
func TestWhatIsLostBeforeAGuess(t *testing.T) {
	fs := vfs.NewMem("/d")
	b := openLog(t, fs)
	for n := range 6 {
		if n == 3 {
			b.active = nil
		}
		appendBatch(t, b, put(t, n, 1))
	}
	r, _, _ := find(b, name(2))
	alter(t, fs, logSegment, func(f vfs.File) { flip(t, f, int64(r.slot.Unit())*format.UnitSize+9) })
	alter(t, fs, "/d/bundles/7/00000002-0000.bundle", func(f vfs.File) {
		flip(t, f, 30)
		flip(t, f, format.SegmentHeaderSize+9)
	})
	want := []lostRange{{3, 3}, {4, 4}}
	files := NewFiles(fs, "/d", 4)
	files.Floor = func(ID, format.Identity) uint64 { return 3 }
	damages, err := InspectVerify(files, logID)
	check(t, err)
	if got := lostBy(damages); !slices.Equal(got, want) {
		t.Errorf("verify says %v", got)
	}
	b, err = Open(files, logID, logConfig)
	check(t, err)
	if got := lostBy(b.report.Extents); !slices.Equal(got, want) {
		t.Errorf("opening says %v", got)
	}
}

// A seal that is longer than its file has no footer before it: all that is there is
// looked at, and damage lies within the file.
func TestASealThatIsTooLong(t *testing.T) {
	fs := vfs.NewMem("/d")
	b := openLog(t, fs)
	appendBatch(t, b, put(t, 1, 1))
	s := b.active
	footer, err := s.footer(2, make([]format.Entry, 100), nil)
	check(t, err)
	alter(t, fs, logSegment, func(f vfs.File) {
		check(t, f.Writev([][]byte{footer[len(footer)-format.HeaderSize:]}, s.tail))
	})
	damages := verified(t, fs)
	if got := lostBy(damages); !slices.Equal(got, []lostRange{{2, 2}}) {
		t.Errorf("%+v", damages)
	}
	for _, d := range damages {
		if d.Offset < 0 || d.Length < 0 || d.Offset+d.Length > s.tail+format.HeaderSize {
			t.Errorf("outside of the file: %+v", d)
		}
	}
}

// A record is found by its number behind a damaged one that holds a copy of the
// segment, which ends within a record: what was stored as an object was made earlier,
// so its records do not count.
func TestARecordBehindACopyOfItsSegment(t *testing.T) {
	fs := vfs.NewMem("/d")
	b := openLog(t, fs)
	appendBatch(t, b, put(t, 1, 1))
	appendBatch(t, b, putSized(t, 2, 1, 6000))
	r, _, _ := find(b, name(2))
	copied := make([]byte, int(r.slot.Unit())*format.UnitSize+format.HeaderSize)
	alter(t, fs, logSegment, func(f vfs.File) {
		_, err := f.ReadAt(copied, 0)
		check(t, err)
	})
	m := format.Metadata{Name: "/a/c/3", Size: int64(len(copied) + format.UnitSize), Timestamp: format.Timestamp{Ticks: 1}}
	shift := (format.HeaderSize + len(must(m.MarshalMsg(nil)))) % format.UnitSize
	d := NewDraft(int(m.Size))
	d.Write(make([]byte, format.UnitSize-shift))
	d.Write(copied)
	d.Write(make([]byte, shift))
	check(t, d.SealPut(name(3), &m, nil))
	appendBatch(t, b, d)
	appendBatch(t, b, put(t, 4, 1))
	appendBatch(t, b, putSized(t, 5, 1, 8000)) // so that what is copied in part would fit into the segment
	damaged, _, _ := find(b, name(3))
	alter(t, fs, logSegment, func(f vfs.File) { flip(t, f, int64(damaged.slot.Unit())*format.UnitSize+9) })
	record, buffer, err := b.readLSN(4, name(4), false)
	defer buffer.Free()
	if err != nil || record == nil || record.LSN() != 4 {
		t.Errorf("%+v, %v", record, err)
	}
}

// A SEAL among the records is none of them, nor is one that leaves out a number.
func TestWhatIsNotListed(t *testing.T) {
	for what, change := range map[string]func(*format.Header){
		"a SEAL": func(h *format.Header) {
			size := uint64(h.Units)*format.UnitSize - format.HeaderSize - 4 // with the CRC of one chunk
			*h = format.Header{Type: format.TypeSeal, LSN: h.LSN, Salt: h.Salt, Units: h.Units, Size: size}
		},
		"a gap":             func(h *format.Header) { h.LSN++ },
		"another segment's": func(h *format.Header) { h.Salt++ },
	} {
		fs, offsets := threeBatches(t)
		b := openLog(t, fs)
		s := b.active
		alter(t, fs, logSegment, func(f vfs.File) {
			p := make([]byte, format.HeaderSize)
			_, err := f.ReadAt(p, offsets[3])
			check(t, err)
			h, err := format.ParseHeader(p)
			check(t, err)
			change(&h)
			h.Encode(p)
			check(t, f.Writev([][]byte{p}, offsets[3]))
		})
		b.active = nil
		check(t, b.Seal())
		if s.sealed || !s.damaged {
			t.Errorf("%s passes for record 3", what)
		}
	}
}
