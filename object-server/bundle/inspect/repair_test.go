package inspect

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"martlet/object-server/bundle"
	"martlet/object-server/bundle/format"
	"martlet/object-server/vfs"
)

// Wherever the power is cut during a repair: another one ends clean, all that was
// good is there, and the damaged files are where they were or in quarantine.
func TestPowerCutDuringRepair(t *testing.T) {
	fs, b := tendedLog(t)
	storeLarge(t, b, 100, 0x11, 0x11, nil)
	storeLarge(t, b, 101, 0x22, 0x22, nil)
	b.append(t, put(t, 89, 1000))
	proven := b.proven()
	before := objects(b.Bundle)
	segments := segmentPaths(t, fs)
	damaged := []string{segments[0], segments[2], largePath(0x22)}
	originals := map[string]string{}
	for _, path := range damaged {
		alter(t, fs, path, func(f vfs.File) { flip(t, f, 1000) })
		originals[filepath.Base(path)] = contents(t, fs, path)
	}
	d, err := fs.OpenDir("/d")
	check(t, err)
	check(t, d.SyncFS())
	check(t, d.Close())
	recording := fs.Record()
	files := bundle.NewFiles(fs, "/d", 4)
	first, err := PlanRepair(files, logID)
	check(t, err)
	check(t, first.Run("/d/quarantined/objects/7-first"))
	rng, seen := rand.New(rand.NewPCG(1, 2)), map[uint64]bool{}
	for _, step := range recording.Steps() {
		for state := range step.State.PowerCuts(rng, 8) {
			if digest := state.Digest(); seen[digest] {
				continue
			} else {
				seen[digest] = true
			}
			for name, original := range originals {
				if !isKept(state, name, original, damaged) {
					t.Fatalf("%s %s: %s is gone", step.Op, step.Name, name)
				}
			}
			again := repaired(t, state)
			after := openWith(t, state, tended)
			if r := after.Report(); len(r.Damaged) > 0 {
				t.Fatalf("%s %s: %v", step.Op, step.Name, r.Damaged)
			}
			found := objects(after.Bundle)
			for n, o := range before {
				if got := found[n]; got != o && o.lsn <= proven && !first.says(o.lsn, 0) && !again.says(o.lsn, 0) {
					t.Fatalf("%s %s: object %d was %d, is %d", step.Op, step.Name, n, o.lsn, got.lsn)
				}
			}
		}
	}
	if len(seen) < 20 {
		t.Errorf("only %d states", len(seen))
	}
}

// isKept tells whether a file has its content in its place or in quarantine.
func isKept(fs vfs.FS, name, content string, places []string) bool {
	for _, path := range append([]string{"/d/quarantined/objects/7-first/" + name}, places...) {
		f, err := fs.Open(path)
		if err != nil || filepath.Base(path) != name {
			continue
		}
		p := make([]byte, len(content))
		n, _ := f.ReadAt(p, 0)
		_ = f.Close()
		if string(p[:n]) == content {
			return true
		}
	}
	return false
}

// mixedLog has objects, large ones, tombstones, versions, checkpoints, footers,
// and segments that were compacted.
func mixedLog(t testing.TB) (*vfs.Mem, *openedLog) {
	fs := vfs.NewMem("/d")
	b := openWith(t, fs, tended)
	for i := range 150 {
		ticks := uint64(i + 1)
		switch {
		case i%11 == 3:
			storeLarge(t, b, 200+i%3, ticks, ticks, nil)
		case i%7 == 2:
			b.append(t, tombstone(t, i*5%40, ticks))
		case i%5 == 1:
			b.append(t, version(t, b, 100, ticks))
		default:
			b.append(t, put(t, i*5%40, ticks))
		}
		b.tend(t)
	}
	if b.compact(t) == 0 {
		t.Fatal("nothing was compacted")
	}
	b.append(t, put(t, 1, 1000))
	b.append(t, put(t, 2, 1000))
	return fs, b
}

// records lists what a segment's good records hold, by LSN.
func records(t testing.TB, fs vfs.FS, directory string) map[uint64]string {
	t.Helper()
	all := make(map[uint64]string)
	names, err := fs.ReadDir(directory)
	check(t, err)
	for _, entry := range names {
		if _, _, ok := format.ParseSegmentName(entry.Name()); !ok {
			continue
		}
		s, err := OpenScan(fs, filepath.Join(directory, entry.Name()), true)
		check(t, err)
		for {
			e, err := s.Next()
			if err != nil {
				break
			}
			if e.Record == nil || e.Damage != nil || !e.Record.Type().Named() {
				continue
			}
			r := e.Record
			all[r.LSN()] = fmt.Sprintf("%s %s %x %x %x %x", r.Type(), r.Hash(), r.Block, r.EncodedMetadata, r.Data, r.LargeID)
		}
		check(t, s.Close())
	}
	return all
}

// Whatever is flipped in whatever kind of record: what is not told to be lost is
// there with every byte, and the partition opens clean.
func TestRepairKeepsEveryGoodRecord(t *testing.T) {
	template, b := mixedLog(t)
	before := records(t, template, logDirectory)
	if v := wantClean(t, template); v.Records != len(before) {
		t.Fatalf("%d records, verified %d", len(before), v.Records)
	}
	files := make(map[string]string)
	var segments []string
	for _, at := range []string{logDirectory, logDirectory + "/large"} {
		names, err := template.ReadDir(at)
		check(t, err)
		for _, entry := range names {
			if path := filepath.Join(at, entry.Name()); !entry.IsDir() {
				files[path] = contents(t, template, path)
				segments = append(segments, path)
			}
		}
	}
	rapid.Check(t, func(rt *rapid.T) {
		fs := vfs.NewMem("/d", "/d/bundles", logDirectory, logDirectory+"/large")
		for path, bytes := range files {
			plant(t, fs, path, []byte(bytes))
		}
		for range rapid.IntRange(1, 3).Draw(rt, "flips") {
			alterSomewhere(rt, fs, rapid.SampledFrom(segments).Draw(rt, "file"))
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
		opened, err := bundle.Open(bundle.NewFiles(fs, "/d", 4), logID, tended)
		if err != nil || len(opened.Report().Damaged) > 0 {
			rt.Fatalf("opened: %v, %+v", err, opened)
		}
		after := records(t, fs, logDirectory)
		for lsn, r := range before {
			if after[lsn] != r && lsn+unprovable <= b.proven() && !plan.says(lsn, 0) && !sharesLost(plan, r) {
				rt.Fatalf("record %d is not what it was: %s, now %s; %+v", lsn, r, after[lsn], plan.Damages)
			}
		}
	})
}

// unprovable records at the end are taken for torn when three flips hit the last
// three: what proved them is gone.
const unprovable = 2

// sharesLost tells whether a record names a large file that was lost.
func sharesLost(plan *Repair, r string) bool {
	for id := range plan.large {
		if strings.HasSuffix(r, fmt.Sprintf(" %x", id)) {
			return true
		}
	}
	return false
}

// What is lost is told by name where anything says it: the footer, a checkpoint,
// what is left of the header, older records. Where nothing does, that is told.
func TestRepairTellsWhatMayReturn(t *testing.T) {
	for _, test := range []struct {
		what               string
		checkpoint, footer bool
		from, to           int64 // bytes of the record that are damaged
		returns, unnamed   int
	}{
		{"a bit of the header", false, false, 60, 61, 1, 0},
		{"all of the header", false, false, 0, 300, 0, 1},
		{"all of the header, before a checkpoint", true, false, 0, 300, 1, 0},
		{"all of the header, in a sealed segment", false, true, 0, 300, 1, 0},
	} {
		fs := vfs.NewMem("/d")
		b := openWith(t, fs, bundle.Config{SegmentBytes: 1 << 20, CheckpointBytes: 1})
		b.append(t, put(t, 1, 1))
		offset := int64(len(contents(t, fs, logSegment)))
		b.append(t, put(t, 1, 2))
		b.append(t, put(t, 2, 1))
		b.append(t, put(t, 3, 1))
		if test.checkpoint {
			b.tend(t)
			b.append(t, put(t, 4, 1))
		}
		if test.footer {
			check(t, b.Close())
			b.append(t, put(t, 4, 1))
		}
		alter(t, fs, logSegment, func(f vfs.File) {
			junk := bytes.Repeat([]byte{0xa5}, int(test.to-test.from))
			check(t, f.Writev([][]byte{junk}, offset+test.from))
		})
		plan := repaired(t, fs)
		d := plan.Damages[0]
		if len(plan.Damages) != 1 || len(plan.Returns) != test.returns || d.Unnamed != uint64(test.unnamed) {
			t.Errorf("%s: %+v, %+v", test.what, plan.Damages, plan.Returns)
		}
		for _, back := range plan.Returns {
			if back.Name != "/a/c/1" || back.LSN != 1 || d.Lost[0].Name != "/a/c/1" || d.Lost[0].Hash != name(1) {
				t.Errorf("%s: %+v, %+v", test.what, back, d.Lost)
			}
		}
	}
}

// A tombstone keeps what was deleted from coming back as long as its header is good.
func TestRepairKeepsDeletes(t *testing.T) {
	fs := vfs.NewMem("/d")
	b := openLog(t, fs)
	b.append(t, put(t, 1, 1))
	offset := int64(len(contents(t, fs, logSegment))) + format.HeaderSize + 3
	b.append(t, tombstone(t, 1, 2))
	b.append(t, put(t, 2, 3))
	b.append(t, put(t, 2, 4))
	alter(t, fs, logSegment, func(f vfs.File) { flip(t, f, offset) })
	plan := repaired(t, fs)
	r, buffer, err := openLog(t, fs).Read(name(1))
	defer buffer.Free()
	if err != nil || r == nil || r.Type() != format.TypeTombstone || r.Timestamp() != (format.Timestamp{Ticks: 2}) || len(plan.Returns) > 0 {
		t.Errorf("%+v, %v; %+v", r, err, plan.Returns)
	}
}
