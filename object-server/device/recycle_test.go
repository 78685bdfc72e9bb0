package device

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"martlet/object-server/vfs"
)

// recycling is a device on which segments are small and emptied ones are used again.
var recycling = Options{SyncMethod: SyncDirect, SegmentBytes: 64 << 10, compactByHand: true}

// recycledFiles counts segments in files that were one before, and emptied files that
// wait to be one.
func recycledFiles(t *testing.T, fs vfs.FS) (used, free int) {
	t.Helper()
	for name, size := range files(t, fs) {
		switch {
		case strings.HasSuffix(name, ".free"):
			free++
		case strings.HasSuffix(name, ".bundle") && size%4096 == 544:
			used++
		}
	}
	return used, free
}

// refill overwrites 30 names until segments have been emptied and used again.
func refill(t *testing.T, d *Device, from, rounds int) {
	t.Helper()
	for round := range rounds {
		for i := range 30 {
			name := fmt.Sprint(i)
			must[State](t)(put(d, locate(name, 1), name, uint64(from+round), body(uint64(i+1000*(from+round)), 900+31*i)))
		}
		if err := d.Compact(); err != nil {
			t.Fatal(err)
		}
	}
}

func wantRefilled(t *testing.T, d *Device, round int) {
	t.Helper()
	for i := range 30 {
		wantBody(t, d, locate(fmt.Sprint(i), 1), body(uint64(i+1000*round), 900+31*i))
	}
}

// Segments go on in files that compaction has emptied. What was stored is there
// after a clean stop and after a kill, and the log goes on where it ended.
func TestRecycledSegments(t *testing.T) {
	mem := vfs.NewMem("/d")
	d := open(t, mem, "/d", recycling)
	refill(t, d, 1, 9)
	wantRefilled(t, d, 9)
	used, free := recycledFiles(t, mem)
	if used == 0 {
		t.Fatalf("%d recycled segments, %d emptied files", used, free)
	}
	for round := 10; round < 16; round++ {
		if round%2 == 0 {
			mem = mem.KillClone()
		} else if err := d.Close(); err != nil {
			t.Fatal(err)
		}
		before := segmentNames(t, mem)
		d = open(t, mem, "/d", recycling)
		wantRefilled(t, d, round-1)
		must[State](t)(put(d, locate("probe", 1), "probe", uint64(round), body(1, 900)))
		if after := segmentNames(t, mem); after != before {
			t.Errorf("round %d: the log goes on elsewhere: %s, then %s", round, before, after)
		}
		refill(t, d, round, 1)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
}

func segmentNames(t *testing.T, fs vfs.FS) string {
	t.Helper()
	var all []string
	for name := range files(t, fs) {
		if strings.HasSuffix(name, ".bundle") {
			all = append(all, name)
		}
	}
	return fmt.Sprint(len(all))
}

// A batch that is written in place is flushed with one fdatasync, whatever number of
// bundles it is for; one that makes a segment is not.
func TestFlushOfRecycledSegments(t *testing.T) {
	counts := map[string]int{}
	mem := vfs.NewMem("/d")
	faults := vfs.NewFaults(mem, func(op, _ string) error { counts[op]++; return nil })
	d := open(t, faults, "/d", recycling)
	defer d.Close()
	refill(t, d, 1, 9)
	clear(counts)
	for i := range 4 { // both partitions have a segment that grows
		name := fmt.Sprint(i)
		must[State](t)(put(d, locate(name, 1), name, 10, body(uint64(i), 500)))
	}
	if counts["syncfs"] > 0 || counts["datasync"] == 0 {
		t.Error(counts)
	}
}

// recyclePlan is a history in which segments are recycled.
func recyclePlan(seed uint64) (history, *explorer) {
	h, x := crashPlan(seed)
	h.raises = h.raises && seed%2 == 0
	h.changes, x.limit = 64, 60
	x.options.SyncMethod, x.options.SegmentBytes, x.options.SpillBytes = SyncDirect, 16<<10, smallSpill
	x.options.compactShare = 0.1
	return h, x
}

// The explorer finds a disk on which the one fdatasync of a batch does nothing.
func TestPowerCutsFindLiesOfRecycledSegments(t *testing.T) {
	t.Parallel()
	if raceDetector {
		t.Skip("takes long; `make go-test` runs it without the detector")
	}
	for seed := uint64(1); seed <= 20; seed++ {
		h, x := recyclePlan(seed)
		x.lacks = 0
		x.wrap = func(m *vfs.Mem) vfs.FS { return idle{m} }
		if err := x.run(h); err != nil {
			if !strings.Contains(err.Error(), "shows") && !errors.Is(err, ErrQuarantined) {
				t.Fatal(err) // neither lost nor damaged
			}
			return
		}
	}
	t.Fatal("not found")
}

// idle is a disk that does nothing for recycled files when they are flushed.
type idle struct{ vfs.FS }

func (d idle) Open(name string) (vfs.File, error) {
	f, err := d.FS.Open(name)
	if err != nil {
		return nil, err
	}
	if size, err := f.Size(); err != nil || size%4096 != 544 {
		return f, err
	}
	return idleFile{f}, nil
}

func (d idle) Link(f vfs.File, name string) error {
	if recycled, ok := f.(idleFile); ok {
		f = recycled.File
	}
	return d.FS.Link(f, name)
}

type idleFile struct{ vfs.File }

func (idleFile) Datasync() error { return nil }

// A power cut while segments are recycled loses nothing and brings nothing back, and
// the stale bytes behind the records are never taken for records.
func TestPowerCutsOfRecycledSegments(t *testing.T) {
	t.Parallel()
	if raceDetector {
		t.Skip("takes long; `make go-test` runs it without the detector")
	}
	wanted, states, recycled := crashNumber("MARTLET_CRASH_STATES", 3000), 0, 0
	// About one state in a thousand recycles a segment.
	for seed := uint64(crashNumber("MARTLET_CRASH_SEED", 1)); states < wanted || recycled == 0; seed++ {
		if states > 20*wanted {
			t.Fatalf("%d states, and no segment was recycled", states)
		}
		h, x := recyclePlan(seed)
		x.wrap = func(m *vfs.Mem) vfs.FS {
			return vfs.NewFaults(m, func(op, name string) error {
				if op == "link" && strings.HasSuffix(name, ".bundle") && strings.Contains(name, "-0000.") {
					recycled++
				}
				return nil
			})
		}
		if err := x.run(h); err != nil {
			t.Fatalf("seed %d: %v\n%s", seed, err, keepState(x.failed, seed))
		}
		states += x.found.states
	}
	t.Logf("%d states, %d links of segments", states, recycled)
}
