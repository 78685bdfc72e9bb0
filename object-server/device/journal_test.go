package device

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"martlet/object-server/bundle"
	"martlet/object-server/vfs"
)

// fillJournal stores objects 0 to n-1.
func fillJournal(t *testing.T, d *Device, n int) {
	t.Helper()
	for i := range n {
		name := fmt.Sprint(i)
		must[State](t)(put(d, locate(name, 2), name, 1, body(uint64(i), 3000)))
	}
}

func wantJournaled(t *testing.T, fs vfs.FS, n int) {
	t.Helper()
	d := open(t, fs, "/d", Options{SyncMethod: SyncJournal, JournalBytes: 64 << 10})
	for i := range n {
		wantBody(t, d, locate(fmt.Sprint(i), 2), body(uint64(i), 3000))
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
}

// When the flush of the bundles fails, their bytes are written again from the
// journal; when that fails too, the device goes out and the journal stays.
func TestFailedDestage(t *testing.T) {
	for failures := range 3 {
		t.Run(fmt.Sprint(failures), func(t *testing.T) {
			mem := vfs.NewMem("/d")
			var left atomic.Int32
			fs := vfs.NewFaults(mem, func(op, name string) error {
				if op == "syncfs" && left.Load() > 0 {
					left.Add(-1)
					mem.DropUnsynced("/d/bundles")
					return errors.New("input/output error")
				}
				return nil
			})
			d := open(t, fs, "/d", Options{SyncMethod: SyncJournal, JournalBytes: 1 << 20})
			fillJournal(t, d, 40)
			left.Store(int32(failures))
			err := d.committer.journal.Settle()
			if isOut := errors.Is(d.Err(), ErrOut); isOut != (failures == 2) || (err != nil) != isOut {
				t.Fatal(d.Err(), err)
			}
			rng := rand.New(rand.NewPCG(1, 1))
			wantJournaled(t, mem.CrashClone(rng), 40)
			if failures < 2 {
				must[State](t)(put(d, locate("40", 2), "40", 1, body(40, 3000)))
			}
			if err := d.Close(); err != nil {
				t.Fatal(err)
			}
			wantJournaled(t, mem.CrashClone(rng), 41-failures/2)
		})
	}
}

// A footer that cannot be flushed costs no record that only the journal has.
func TestFailedFooterFlush(t *testing.T) {
	mem := vfs.NewMem("/d")
	var failed atomic.Int32
	fs := vfs.NewFaults(mem, func(op, name string) error {
		if op == "datasync" && strings.HasSuffix(name, ".bundle") && failed.Add(1) == 1 {
			mem.DropUnsynced(name)
			return errors.New("input/output error")
		}
		return nil
	})
	d := open(t, fs, "/d", Options{SyncMethod: SyncJournal, JournalBytes: 1 << 20, SegmentBytes: 8 << 10, Logger: quiet})
	fillJournal(t, d, 40)
	if err := d.Close(); err != nil || failed.Load() == 0 {
		t.Fatal(err, failed.Load())
	}
	wantJournaled(t, mem.CrashClone(rand.New(rand.NewPCG(1, 1))), 40)
}

// While clients write, the journal may be asked to bring the bundles up to date.
func TestSettleWhileWriting(t *testing.T) {
	mem := vfs.NewMem("/d")
	d := open(t, mem, "/d", Options{SyncMethod: SyncJournal, JournalBytes: 32 << 10, Logger: quiet})
	var group sync.WaitGroup
	for w := range 4 {
		group.Add(1)
		go func() {
			defer group.Done()
			for i := range 50 {
				name := fmt.Sprint(w*50 + i)
				if _, err := put(d, locate(name, 2), name, 1, body(uint64(w*50+i), 3000)); err != nil {
					t.Error(err)
				}
			}
		}()
	}
	for range 50 {
		if err := d.committer.journal.Settle(); err != nil {
			t.Fatal(err)
		}
	}
	group.Wait()
	wantJournaled(t, mem.CrashClone(rand.New(rand.NewPCG(1, 1))), 200)
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
}

// A failed flush of the journal fails its batch alone, and what follows is safe.
func TestFailedJournalFlush(t *testing.T) {
	mem := vfs.NewMem("/d")
	var failing atomic.Bool
	fs := vfs.NewFaults(mem, func(op, name string) error {
		if failing.Load() && op == "datasync" && strings.HasPrefix(name, "/d/journal/") {
			mem.DropUnsynced(name)
			return errors.New("input/output error")
		}
		return nil
	})
	d := open(t, fs, "/d", Options{SyncMethod: SyncJournal, JournalBytes: 256 << 10})
	fillJournal(t, d, 5)
	failing.Store(true)
	if _, err := put(d, locate("1", 2), "1", 9, body(1000, 3000)); err == nil || d.Err() != nil {
		t.Fatal(err, d.Err())
	}
	wantBody(t, d, locate("1", 2), body(1, 3000))
	failing.Store(false)
	for i := 5; i < 10; i++ {
		name := fmt.Sprint(i)
		must[State](t)(put(d, locate(name, 2), name, 1, body(uint64(i), 3000)))
	}
	for seed := range uint64(20) {
		clone := mem.CrashClone(rand.New(rand.NewPCG(seed, 1)))
		o := open(t, clone, "/d", Options{})
		for i := range 10 {
			if i != 1 { // the failed write may show, as after any failed flush
				wantBody(t, o, locate(fmt.Sprint(i), 2), body(uint64(i), 3000))
			}
		}
		if err := o.Close(); err != nil {
			t.Fatal(err)
		}
	}
	failing.Store(true)
	if _, err := put(d, locate("1", 2), "1", 10, body(1000, 3000)); err == nil || !errors.Is(d.Err(), ErrOut) {
		t.Fatal(err, d.Err())
	}
	_ = d.Close()
}

// Damage to a batch that only the journal has is not taken for its end: what
// follows is replayed, and the bundle knows what it lost.
func TestDamagedJournal(t *testing.T) {
	mem := vfs.NewMem("/d")
	d := open(t, mem, "/d", Options{SyncMethod: SyncJournal, JournalBytes: 1 << 20})
	defer d.Close()
	loc := locate("x", 1)
	must[State](t)(put(d, loc, "x", 1, body(1, 3000)))
	other := Location{Partition: loc.Partition, Hash: locate("y", 1).Hash}
	must[State](t)(put(d, other, "y", 1, body(2, 3000)))
	var clone *vfs.Mem
	for seed := uint64(0); ; seed++ { // one whose bundle has nothing but what the journal brings
		clone = mem.CrashClone(rand.New(rand.NewPCG(seed, 1)))
		if all := files(t, clone); len(all) == 2 {
			break
		}
	}
	f := must[vfs.File](t)(clone.Open("/d/journal/1")) // which is the first in use
	// Block 0 holds the note of the start, the first record begins in block 1.
	if err := f.Writev([][]byte{make([]byte, 100)}, 4096+500); err != nil {
		t.Fatal(err)
	}
	d2 := open(t, clone, "/d", Options{})
	defer d2.Close()
	if _, err := d2.Open(loc); !errors.Is(err, ErrQuarantined) {
		t.Fatal(err)
	}
	wantBody(t, d2, other, body(2, 3000))
}

// A start without the journal takes it over and away.
func TestJournalIsTakenAway(t *testing.T) {
	mem := vfs.NewMem("/d")
	d := open(t, mem, "/d", Options{SyncMethod: SyncJournal, JournalBytes: 64 << 10})
	fillJournal(t, d, 20)
	clone := mem.CrashClone(rand.New(rand.NewPCG(1, 1)))
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	plain := open(t, clone, "/d", Options{})
	for name := range files(t, clone) {
		if strings.HasPrefix(name, "/d/journal") {
			t.Error(name)
		}
	}
	for i := range 20 {
		wantBody(t, plain, locate(fmt.Sprint(i), 2), body(uint64(i), 3000))
	}
	if err := plain.Close(); err != nil {
		t.Fatal(err)
	}
	wantJournaled(t, clone, 20)
}

// After a clean stop nothing is left to replay.
func TestCleanStopLeavesNothingToReplay(t *testing.T) {
	mem := vfs.NewMem("/d")
	d := open(t, mem, "/d", Options{SyncMethod: SyncJournal, JournalBytes: 64 << 10})
	fillJournal(t, d, 30)
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	journals := d.journals()
	journals.Files = bundle.NewFiles(vfs.NewFaults(mem, func(op, name string) error {
		return fmt.Errorf("%s %s: the journal was replayed", op, name)
	}), "/d", 10)
	if newest, err := journals.Replay(); err != nil || newest < 30 {
		t.Fatal(newest, err)
	}
}
