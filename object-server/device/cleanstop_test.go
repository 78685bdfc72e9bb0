package device

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"slices"
	"testing"

	"martlet/object-server/bundle"
	"martlet/object-server/bundle/format"
	"martlet/object-server/bundle/inspect"
	"martlet/object-server/device/journal"
	"martlet/object-server/vfs"
)

// stopped is a device with one partition of 8 names, and a few others, that was
// stopped cleanly.
func stopped(t *testing.T, o Options) (mem *vfs.Mem, names []string) {
	mem = vfs.NewMem("/d")
	d := open(t, mem, "/d", o)
	names = namesIn(3, 3, 8)
	for i, name := range append(slices.Clone(names), "/a/c/1", "/a/c/2", "/a/c/3", "/a/c/4") {
		must[State](t)(put(d, locate(name, 3), name, 1, body(uint64(i), 700)))
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	return mem, names
}

// endings are what may happen to the end of a log while no server runs.
var endings = map[string]func(t *testing.T, mem *vfs.Mem, segment string){
	"the last record and the PAD are zeros": func(t *testing.T, mem *vfs.Mem, segment string) {
		size := files(t, mem)[segment]
		damage(t, mem, segment, size-1024, 1024, func(p []byte) { clear(p) })
	},
	"cut off": func(t *testing.T, mem *vfs.Mem, segment string) { truncate(t, mem, segment, 2000) },
	"cut off between records": func(t *testing.T, mem *vfs.Mem, segment string) {
		truncate(t, mem, segment, format.SegmentHeaderSize)
	},
	"empty": func(t *testing.T, mem *vfs.Mem, segment string) { truncate(t, mem, segment, 0) },
	"header and first record are zeros": func(t *testing.T, mem *vfs.Mem, segment string) {
		damage(t, mem, segment, 0, 512, func(p []byte) { clear(p) })
		truncate(t, mem, segment, 512)
	},
	"gone": func(t *testing.T, mem *vfs.Mem, segment string) {
		if err := errors.Join(mem.Remove(segment), mem.SyncDir("/d/bundles/3")); err != nil {
			t.Fatal(err)
		}
	},
}

func truncate(t *testing.T, fs vfs.FS, name string, size int64) {
	t.Helper()
	f := must[vfs.File](t)(fs.Open(name))
	if err := errors.Join(f.Truncate(size), f.Datasync(), f.Close()); err != nil {
		t.Fatal(err)
	}
}

// After a clean stop whatever is missing at the end of a log is damage: no object
// is said not to exist, also when the partition was not used since an earlier stop.
func TestRotAfterACleanStop(t *testing.T) {
	for what, ruin := range endings {
		for _, o := range []Options{{compactByHand: true}, {compactByHand: true, SyncMethod: SyncJournal, JournalBytes: journal.BytesMin}, {compactByHand: true, SegmentBytes: 4 << 10}} {
			for _, starts := range []int{0, 2} {
				mem, names := stopped(t, o)
				for range starts {
					if err := open(t, mem, "/d", o).Close(); err != nil {
						t.Fatal(err)
					}
				}
				ruin(t, mem, newestSegment(t, mem, 3))
				checkEnding(t, mem, o, names, fmt.Sprintf("%s, %+v, %d starts", what, o.SyncMethod, starts))
			}
		}
	}
}

func checkEnding(t *testing.T, mem *vfs.Mem, o Options, names []string, where string) {
	t.Helper()
	tools := bundle.NewFiles(mem, "/d", 8)
	tools.Floor = must[func(bundle.ID, format.Identity) uint64](t)(ReadFloor(mem, "/d"))
	verdict, err := inspect.Verify(tools, bundle.ID{Partition: 3}, "")
	if err != nil || len(verdict.Damages) == 0 {
		t.Errorf("%s: verify finds %+v, %v", where, verdict, err)
	}
	d := open(t, mem, "/d", o)
	hidden := 0
	for again := range 2 {
		for i, name := range names {
			got, _, err := get(d, locate(name, 3))
			if errors.Is(err, ErrQuarantined) {
				hidden++
			} else if err != nil || string(got) != string(body(uint64(i), 700)) {
				t.Errorf("%s, open %d: %s: %v", where, again, name, err)
			}
		}
		if err := d.Close(); err != nil { // says the same again
			t.Fatal(where, err)
		}
		d = open(t, mem, "/d", o)
	}
	if hidden == 0 {
		t.Errorf("%s: no damage was met", where)
	}
	must[State](t)(put(d, locate(names[7], 3), names[7], 2, body(9, 700)))
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	d = open(t, mem, "/d", o)
	wantBody(t, d, locate(names[7], 3), body(9, 700))
	if _, err := d.Repair(0, 3, true); err != nil {
		t.Errorf("%s: repair: %v", where, err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	d = open(t, mem, "/d", o)
	defer d.Close()
	wantBody(t, d, locate(names[7], 3), body(9, 700))
	wantNotFound(t, d, locate(namesIn(3, 3, 9)[8], 3), 0)
}

// While the device is open, and after a kill, there is no file: what was written
// last may be torn then. A partition that is taken away by hand is not damaged.
func TestCleanStopFileIsForOneStop(t *testing.T) {
	mem, names := stopped(t, Options{compactByHand: true})
	if n := len(must[map[bundle.ID]uint64](t)(ReadCleanStop(mem, "/d"))); n != 5 && n != 4 && n != 3 {
		t.Errorf("%d partitions", n)
	}
	d := open(t, mem, "/d", Options{compactByHand: true})
	if after := mem.CrashClone(rand.New(rand.NewPCG(1, 2))); len(must[map[bundle.ID]uint64](t)(ReadCleanStop(after, "/d"))) > 0 {
		t.Error("the file was not removed for good")
	}
	must[State](t)(put(d, locate(names[0], 3), names[0], 2, body(5, 700)))
	killed := mem.KillClone()
	truncate(t, killed, newestSegment(t, killed, 3), files(t, killed)[newestSegment(t, killed, 3)]-64)
	after := open(t, killed, "/d", Options{compactByHand: true})
	wantBody(t, after, locate(names[0], 3), body(0, 700)) // as ever: a torn tail
	if err := errors.Join(after.Close(), d.Close()); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{newestSegment(t, mem, 3), "/d/bundles/3"} {
		if err := errors.Join(mem.Remove(name), mem.SyncDir("/d/bundles")); err != nil {
			t.Fatal(err)
		}
	}
	d = open(t, mem, "/d", Options{compactByHand: true})
	wantNotFound(t, d, locate(names[1], 3), 0)
	must[State](t)(put(d, locate(names[1], 3), names[1], 2, body(6, 700)))
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	d = open(t, mem, "/d", Options{})
	defer d.Close()
	wantBody(t, d, locate(names[1], 3), body(6, 700))
	wantNotFound(t, d, locate(names[2], 3), 0)
}

// Whatever a crash leaves of the file costs the knowledge in it and nothing else.
func TestCleanStopIsTorn(t *testing.T) {
	mem, names := stopped(t, Options{})
	d := open(t, mem, "/d", Options{})
	must[State](t)(put(d, locate(names[0], 3), names[0], 2, body(5, 700)))
	recording := mem.Record()
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	must[*Device](t)(Open(mem, "/d", Options{Logger: quiet})) // its steps too
	rng := rand.New(rand.NewPCG(3, 4))
	states, valid := 0, 0
	for _, step := range recording.Steps() {
		for state := range step.State.PowerCuts(rng, 40) {
			states++
			if n := len(must[map[bundle.ID]uint64](t)(ReadCleanStop(state, "/d"))); n > 0 {
				valid++
			}
			d := open(t, state, "/d", Options{})
			wantBody(t, d, locate(names[0], 3), body(5, 700))
			wantNotFound(t, d, locate(namesIn(3, 3, 9)[8], 3), 0)
			if err := d.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if valid == 0 || valid == states {
		t.Errorf("%d of %d states have a file", valid, states)
	}
}

// A full disk and one that fails do without the file; a clean stop is none when
// something failed before.
func TestNoCleanStopFile(t *testing.T) {
	for _, cause := range []error{vfs.ErrNoSpace, errors.New("bad disk")} {
		mem, names := stopped(t, Options{})
		faults := vfs.NewFaults(mem, func(op, name string) error {
			if name == "/d/"+CleanStopFile && op != "open" && op != "remove" {
				return cause
			}
			return nil
		})
		d := open(t, faults, "/d", Options{})
		wantBody(t, d, locate(names[0], 3), body(0, 700))
		if err := d.Close(); (err != nil) == errors.Is(cause, vfs.ErrNoSpace) {
			t.Errorf("%v: %v", cause, err)
		}
		if all, err := ReadCleanStop(mem, "/d"); len(all) > 0 || err != nil {
			t.Errorf("%v: %v, %v", cause, all, err)
		}
	}
	mem, _ := stopped(t, Options{})
	d := open(t, mem, "/d", Options{})
	d.failed(errors.New("a flush"))
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if all, err := ReadCleanStop(mem, "/d"); len(all) > 0 || err != nil {
		t.Error(all, err)
	}
}

func FuzzCleanStop(f *testing.F) {
	valid := encodeCleanStop(map[bundle.ID]uint64{{Policy: 1, Partition: 7, Power: 4}: 12, {Partition: 9}: 1 << 40}, 5)
	f.Add(valid)
	f.Add(valid[:len(valid)-1])
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) >= cleanStopHeader {
			binary.LittleEndian.PutUint32(b[28:], 0)
			binary.LittleEndian.PutUint32(b[28:], crc32.Checksum(b, castagnoli))
		}
		all, err := parseCleanStop(b)
		if err == nil && len(all) > len(b)/cleanStopEntry {
			t.Fatal(len(all))
		}
	})
}

// What could not be read when the device was open, and is readable again, is not
// taken for lost: that it might have held records is no floor.
func TestFloorIsNoGuess(t *testing.T) {
	mem := vfs.NewMem("/d")
	d := open(t, mem, "/d", Options{})
	for i := range 64 {
		l, name := numbered(i)
		must[State](t)(put(d, l, name, 1, body(uint64(i), 300)))
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	const segment = "/d/bundles/7/00000001-0000.bundle"
	size := files(t, mem)[segment]
	for _, bad := range []int64{1024, 5000, size} { // at the end; all of it
		fs := vfs.NewBadSectors(mem.KillClone(), func(name string, from, to int64) bool {
			return name == segment && to > size-bad
		})
		d := open(t, fs, "/d", Options{})
		l, _ := numbered(63)
		_, _, _ = get(d, l)
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
		d = open(t, fs.FS, "/d", Options{})
		for i := range 64 {
			l, _ := numbered(i)
			if _, m, err := get(d, l); err != nil || m.Doubtful {
				t.Fatalf("%d bad bytes: object %d: %+v, %v", bad, i, m, err)
			}
		}
		l, _ = numbered(64)
		wantNotFound(t, d, l, 0)
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
