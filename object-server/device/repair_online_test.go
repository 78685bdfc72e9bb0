package device

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"martlet/object-server/bundle"
	"martlet/object-server/device/journal"
	"martlet/object-server/vfs"
)

// inPartition makes names that belong to a partition.
func namesIn(partition uint32, bits, n int) (names []string) {
	for i := 0; len(names) < n; i++ {
		if name := fmt.Sprint("/a/c/p", i); locate(name, bits).Partition == partition {
			names = append(names, name)
		}
	}
	return names
}

// newestSegment is the last segment file of a partition.
func newestSegment(t *testing.T, fs vfs.FS, partition uint32) string {
	t.Helper()
	var names []string
	for name := range files(t, fs) {
		if strings.HasPrefix(name, fmt.Sprintf("/d/bundles/%d/", partition)) && strings.HasSuffix(name, ".bundle") {
			names = append(names, name)
		}
	}
	return slices.Max(names)
}

// rotHeader flips a byte in the header of the record that holds the data.
func rotHeader(t *testing.T, fs vfs.FS, segment string, name string) {
	t.Helper()
	size := files(t, fs)[segment]
	f := must[vfs.File](t)(fs.Open(segment))
	p := make([]byte, size)
	must[int](t)(f.ReadAt(p, 0))
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	hash := locate(name, 1).Hash
	at := bytes.LastIndex(p, hash[:]) // in the header, 24 bytes from its start; also in a footer
	if at < 0 {
		t.Fatal("no record of ", name)
	}
	damage(t, fs, segment, int64(at), 1, func(p []byte) { p[0] ^= 1 })
}

// One partition is repaired while others are read and written; then it is whole
// but for what was lost.
func TestRepairWhileInUse(t *testing.T) {
	for _, method := range []SyncMethod{SyncAuto, SyncJournal} {
		for _, isLast := range []bool{false, true} {
			t.Run(fmt.Sprint(method, isLast), func(t *testing.T) { repairInUse(t, method, isLast) })
		}
	}
}

func repairInUse(t *testing.T, method SyncMethod, isLast bool) {
	const bits, objects = 1, 20
	mem := vfs.NewMem("/d")
	d := open(t, mem, "/d", Options{SyncMethod: method, JournalBytes: journal.BytesMin, compactByHand: true})
	defer d.Close()
	bad, good := namesIn(0, bits, objects+1), namesIn(1, bits, objects)
	unknown := bad[objects]
	bad = bad[:objects]
	for i, name := range slices.Concat(bad, good) {
		must[State](t)(put(d, locate(name, bits), name, 1, body(uint64(i), 3000)))
	}
	lost := bad[objects/2]
	if isLast { // nothing in the log proves that it was acknowledged
		lost = bad[objects-1]
	}
	rotHeader(t, mem, newestSegment(t, mem, 0), lost)

	plan, err := d.Repair(0, 0, false)
	if err != nil || len(plan.Damages) != 1 || plan.Done || len(plan.Rewrite) != 1 {
		t.Fatalf("%+v, %v", plan, err)
	}
	end := useAll(t, d, bad, good, lost)
	done, err := d.Repair(0, 0, true)
	end()
	if err != nil || !done.Done || len(done.Damages) != 1 || done.Damages[0].Lost[0].Name != lost {
		t.Fatalf("%+v, %v", done, err)
	}
	for again := range 2 {
		wantNotFound(t, d, locate(unknown, bits), 0)
		wantNotFound(t, d, locate(lost, bits), 0)
		for i, name := range bad {
			if name != lost {
				wantBody(t, d, locate(name, bits), body(uint64(i), 3000))
			}
		}
		if clean, err := d.Repair(0, 0, true); err != nil || len(clean.Damages) > 0 || clean.Done {
			t.Fatalf("%d: %+v, %v", again, clean, err)
		}
		if again == 0 {
			if err := d.Close(); err != nil {
				t.Fatal(err)
			}
			d = open(t, mem, "/d", Options{SyncMethod: method, JournalBytes: journal.BytesMin, compactByHand: true})
		}
	}
	defer d.Close()
	must[State](t)(put(d, locate(lost, bits), lost, 1, body(7, 3000)))
	wantBody(t, d, locate(lost, bits), body(7, 3000))
	if kept := strings.Join(tree(t, mem, "/d"), " "); !strings.Contains(kept, done.Quarantine+"/") {
		t.Error("nothing in quarantine: ", kept)
	}
	if none, err := d.Repair(0, 99, true); err != nil || len(none.Damages) > 0 || len(d.bundles.all()) > 2 {
		t.Errorf("a partition that is not there: %+v, %v", none, err)
	}
}

// useAll reads and writes the good names, and reads the bad ones but for the lost one,
// until the function that it returns is called. They all have a body of 3000 bytes.
func useAll(t *testing.T, d *Device, bad, good []string, lost string) (end func()) {
	const bits = 1
	stop := make(chan struct{})
	var users sync.WaitGroup
	for i, name := range good {
		users.Add(1)
		go func() {
			defer users.Done()
			for ticks := uint64(2); ; ticks++ {
				select {
				case <-stop:
					return
				default:
				}
				if _, err := put(d, locate(name, bits), name, ticks, body(ticks, 3000)); err != nil {
					t.Errorf("%s: %v", name, err)
					return
				}
				if got, _, err := get(d, locate(name, bits)); err != nil || !bytes.Equal(got, body(ticks, 3000)) {
					t.Errorf("%s: %v", name, err)
				}
				other := (i + 1) % len(bad)
				if got, _, err := get(d, locate(bad[other], bits)); bad[other] != lost && (err != nil || !bytes.Equal(got, body(uint64(other), 3000))) {
					t.Errorf("%s: %v", bad[other], err)
				}
			}
		}()
	}
	return func() {
		close(stop)
		users.Wait()
	}
}

// While a repaired partition is opened anew, a list of the partitions does not wait for
// the disk: the first users of all others would wait for it.
func TestOpeningWhatWasRepairedStallsNoOther(t *testing.T) {
	var s atomic.Pointer[partition]
	var reads, stalls atomic.Int32
	mem := vfs.NewMem("/d")
	d := open(t, vfs.NewFaults(mem, func(op, _ string) error {
		if s := s.Load(); s != nil && op == "read" {
			reads.Add(1)
			if !s.mu.TryLock() {
				stalls.Add(1)
			} else {
				s.mu.Unlock()
			}
		}
		return nil
	}), "/d", Options{compactByHand: true})
	defer d.Close()
	l, name := numbered(1)
	must[State](t)(put(d, l, name, 10, body(1, 300)))
	id := bundle.ID{Partition: 7}
	repaired := d.partitionOf(id)
	repaired.use.Lock()
	s.Store(repaired)
	d.renew(repaired, id, nil)
	s.Store(nil)
	repaired.use.Unlock()
	if reads.Load() == 0 || stalls.Load() > 0 {
		t.Errorf("%d of %d reads are made with the lock held", stalls.Load(), reads.Load())
	}
	wantBody(t, d, l, body(1, 300))
}
