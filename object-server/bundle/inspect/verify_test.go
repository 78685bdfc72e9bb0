package inspect

import (
	"bytes"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"martlet/object-server/bundle"
	"martlet/object-server/bundle/format"
	"martlet/object-server/bundle/segment"
	"martlet/object-server/vfs"
)

func TestGoldenIsVerifiedButForItsLargeFile(t *testing.T) {
	fs := vfs.NewMem("/d", "/d/bundles-1", "/d/bundles-1/600")
	plant(t, fs, "/d/bundles-1/600/00000001-0000.bundle", readGolden(t, "00000001-0000.bundle"))
	v := verified(t, fs, goldenID)
	if v.Records != 3 || len(v.Damages) != 1 || v.Damages[0].LargeID != 0x0123456789abcdef || v.Damages[0].FirstLSN != 2 {
		t.Fatalf("%+v", v)
	}
	if line := v.Damages[0].String(); !strings.Contains(line, "missing") || !strings.Contains(line, "/AUTH_test/photos/crane") {
		t.Error(line)
	}
}

func TestALogWithFootersAndCheckpointsIsVerified(t *testing.T) {
	fs, b := tendedLog(t)
	v := wantClean(t, fs)
	if v.Segments != len(segmentPaths(t, fs)) || v.Records != 250 {
		t.Errorf("%+v", v)
	}
	survey, err := Look(bundle.NewFiles(fs, "/d", 4), logID)
	check(t, err)
	records := 0
	for _, s := range survey.Segments {
		records += s.Records
	}
	live, all := b.Bytes()
	if survey.Names != 90 || records != 250 || survey.DeadBytes != all-live || len(survey.Segments) != v.Segments {
		t.Errorf("%+v", survey)
	}
}

// A torn end is no damage, as opening says too.
func TestATornTailIsNoDamage(t *testing.T) {
	fs, places := threeBatches(t)
	for _, at := range []int64{places[4] + 20, places[5] + 200} {
		alter(t, fs, logSegment, func(f vfs.File) { flip(t, f, at) })
		if v := wantClean(t, fs); v.TornTails != 1 {
			t.Errorf("flipped at %d: %+v", at, v)
		}
		alter(t, fs, logSegment, func(f vfs.File) { flip(t, f, at) })
	}
}

func TestDamageIsNamed(t *testing.T) {
	for _, test := range []struct {
		part   string
		offset int64 // from the start of record 2
	}{{"header", 30}, {"metadata", 132}, {"data", 300}} {
		fs, places := threeBatches(t)
		alter(t, fs, logSegment, func(f vfs.File) { flip(t, f, places[2]+test.offset) })
		v := verified(t, fs, logID)
		if len(v.Damages) != 1 {
			t.Fatalf("%s: %+v", test.part, v.Damages)
		}
		d := v.Damages[0]
		if d.FirstLSN != 2 || d.LastLSN != 2 || d.Offset != places[2] || len(d.Lost) != 1 {
			t.Errorf("%s: %+v", test.part, d)
		}
		if test.part != "metadata" && d.Lost[0].Name != "/a/c/2" {
			t.Errorf("%s: %s", test.part, &d)
		}
	}
}

// A segment has one end, however many records of it are torn.
func TestATornSegmentIsCountedOnce(t *testing.T) {
	fs, places := threeBatches(t)
	alter(t, fs, logSegment, func(f vfs.File) {
		flip(t, f, places[4]+200)
		check(t, f.Writev([][]byte{bytes.Repeat([]byte{1}, 128)}, places[5]))
	})
	if v := wantClean(t, fs); v.TornTails != 1 {
		t.Errorf("%+v", v)
	}
}

// The zeros that direct writes leave behind the last record are a clean end.
func TestDirectWritesAreVerified(t *testing.T) {
	fs := vfs.NewMem("/d")
	files := bundle.NewFiles(fs, "/d", 4)
	files.Direct = true
	b, err := bundle.Open(files, logID, logConfig)
	check(t, err)
	log := openedLog{b, b.TakeWriter()}
	for n := range 10 {
		log.append(t, put(t, n, 1))
		if v := wantClean(t, fs); v.Records != n+1 || v.TornTails != 0 {
			t.Fatalf("after %d: %+v", n+1, v)
		}
	}
	if size := len(contents(t, fs, logSegment)); size%segment.SectorSize != 0 {
		t.Errorf("%d bytes: the writes were not direct", size)
	}
}

// While a server writes and compacts, the check meets half-written ends again and
// again, and segments vanish.
func TestVerifyWhileWritten(t *testing.T) {
	fs := vfs.NewMem("/d")
	b := openWith(t, fs, tended)
	done, replaced := make(chan struct{}), 0
	go func() {
		defer close(done)
		for i := range 1500 {
			b.append(t, put(t, i%50, uint64(i+1)), put(t, 50+i%50, uint64(i+1)))
			b.tend(t)
			if i%20 == 0 {
				replaced += b.compact(t)
			}
		}
	}()
	for n := 0; ; n++ {
		wantClean(t, fs)
		select {
		case <-done:
			if v := wantClean(t, fs); v.Records < 100 || n == 0 || replaced < 10 {
				t.Errorf("after %d times, %d segments replaced: %+v", n, replaced, v)
			}
			return
		default:
		}
	}
}

// seen is what a reader gets of a name.
type seen struct {
	lsn  uint64
	data string
}

func objects(b *bundle.Bundle) map[int]seen {
	all := make(map[int]seen)
	for n := range 90 {
		record, buffer, err := b.Read(name(n))
		if err == nil && record != nil && record.CheckData() == nil {
			all[n] = seen{record.LSN(), string(record.Data)}
		}
		buffer.Free()
	}
	return all
}

// Whatever is flipped: after the repair the partition opens clean, and each
// object is what it was, or is told to be lost.
func TestRepairEndsDamage(t *testing.T) {
	template, live := tendedLog(t)
	before := objects(live.Bundle)
	var names []string
	segments := make(map[string]string)
	for _, path := range segmentPaths(t, template) {
		names, segments[path] = append(names, path), contents(t, template, path)
	}
	rapid.Check(t, func(rt *rapid.T) {
		fs := vfs.NewMem("/d", "/d/bundles", "/d/bundles/7")
		for path, bytes := range segments {
			plant(t, fs, path, []byte(bytes))
		}
		for range rapid.IntRange(1, 3).Draw(rt, "flips") {
			alterSomewhere(rt, fs, rapid.SampledFrom(names).Draw(rt, "segment"))
		}
		files := bundle.NewFiles(fs, "/d", 4)
		defer files.Close()
		plan, err := PlanRepair(files, logID)
		if err != nil {
			rt.Fatal(err)
		}
		if err := plan.Run(logAside); err != nil {
			rt.Fatal(err)
		}
		v, err := Verify(files, logID, "")
		if err != nil || len(v.Damages) > 0 {
			rt.Fatalf("after the repair: %v, %+v", err, v)
		}
		b, err := bundle.Open(bundle.NewFiles(fs, "/d", 4), logID, tended)
		if err != nil || len(b.Report().Damaged) > 0 || b.Position().LSN+unprovable < live.proven() {
			rt.Fatalf("opened up to record %d: %v, %+v", b.Position().LSN, err, b.Report())
		}
		after := objects(b)
		for n, o := range before {
			if after[n] != o && o.lsn+unprovable <= live.proven() && !plan.says(o.lsn, after[n].lsn) {
				rt.Fatalf("object %d was %d, is %d; %+v", n, o.lsn, after[n].lsn, plan.Damages)
			}
		}
		if _, err := fs.ReadDir(logAside); (err == nil) != (len(plan.Damages) > 0) {
			rt.Fatalf("quarantine: %v", err)
		}
	})
}

// says tells whether a record is lost and, where names are known, whether the
// older one that counts again is named; 0 is none.
func (r *Repair) says(lsn, older uint64) bool {
	for _, d := range r.Damages {
		if d.FirstLSN <= lsn && lsn <= d.LastLSN {
			return true
		}
	}
	return false
}

func alterSomewhere(t *rapid.T, fs vfs.FS, path string) {
	f, err := fs.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	size, _ := f.Size()
	at := rapid.Int64Range(0, size-1).Draw(t, "at")
	if rapid.Bool().Draw(t, "header") { // not only among the bytes of objects
		at = at/format.UnitSize*format.UnitSize + at%16
	}
	var p [1]byte
	if _, err := f.ReadAt(p[:], at); err != nil && err != io.EOF {
		t.Fatal(err)
	}
	p[0] ^= byte(rapid.IntRange(1, 255).Draw(t, "bits"))
	if err := f.Writev([][]byte{p[:]}, at); err != nil {
		t.Fatal(err)
	}
}

func TestRepairKeepsTheOriginalAndNamesWhatReturns(t *testing.T) {
	fs := vfs.NewMem("/d")
	b := openLog(t, fs)
	b.append(t, put(t, 1, 1))
	b.append(t, put(t, 1, 2))
	b.append(t, put(t, 2, 1))
	b.append(t, put(t, 3, 1))
	places := offsets(t, fs, logSegment)
	alter(t, fs, logSegment, func(f vfs.File) { flip(t, f, places[2]+300) })
	original := contents(t, fs, logSegment)
	files := bundle.NewFiles(fs, "/d", 4)
	plan, err := PlanRepair(files, logID)
	check(t, err)
	want := []Return{{LSN: 1, Hash: name(1), Name: "/a/c/1", Lost: 2}}
	if fmt.Sprint(plan.Returns) != fmt.Sprint(want) || fmt.Sprint(plan.Rewrite) != "[00000001-0000.bundle]" {
		t.Fatalf("%+v", plan)
	}
	check(t, plan.Run(logAside))
	if contents(t, fs, filepath.Join(logAside, filepath.Base(logSegment))) != original {
		t.Error("the original has changed")
	}
	again := openLog(t, fs)
	if r, ok, err := find(again, name(1)); !ok || err != nil || r.LSN() != 1 {
		t.Error(r, ok, err)
	}
	again.append(t, put(t, 1, 3))
	if r, ok, err := find(openLog(t, fs), name(1)); !ok || err != nil || r.LSN() != 5 {
		t.Error(r, ok, err)
	}
}

// A segment that is gone takes its records with it, and nothing more.
func TestRepairOfAMissingSegment(t *testing.T) {
	fs, _ := tendedLog(t)
	survey, err := Look(bundle.NewFiles(fs, "/d", 4), logID)
	check(t, err)
	gone := survey.Segments[1]
	check(t, fs.Remove(filepath.Join(logDirectory, gone.File)))
	files := bundle.NewFiles(fs, "/d", 4)
	plan, err := PlanRepair(files, logID)
	check(t, err)
	if len(plan.Damages) != 1 || plan.Damages[0].FirstLSN != gone.BaseLSN || plan.Damages[0].LastLSN != gone.LastLSN {
		t.Fatalf("%+v", plan.Damages)
	}
	check(t, plan.Run(logAside))
	wantClean(t, fs)
	if r := openWith(t, fs, tended).Report(); len(r.Damaged) > 0 {
		t.Error(r.Damaged)
	}
}
