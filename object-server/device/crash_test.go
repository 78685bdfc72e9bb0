package device

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"

	"martlet/object-server/vfs"
)

// crashMethods are those that differ in what they do to the file system.
var crashMethods = []SyncMethod{SyncAuto, SyncFdatasync, SyncDirect, SyncJournal}

// crashOptions has a journal of a few batches, so that files change and some
// batches do not fit.
func crashOptions(method SyncMethod) Options {
	o := modelOptions
	o.SyncMethod, o.JournalBytes = method, 64<<10
	o.SegmentBytes, o.compactShare = 16<<10, 0.1 // so that there is something to compact
	o.splitByHand = true
	return o
}

// checkCrashed opens what a crash left, several times, and uses it.
func checkCrashed(fs *vfs.Mem, o Options, m *model, rng *rand.Rand) error {
	d, err := Open(fs, "/d", o)
	if err != nil {
		return err
	}
	if err := m.checkAll(d, false); err != nil {
		return err
	}
	first, err := observeAll(d)
	if err != nil {
		return err
	}
	if err := finishRaise(d); err != nil {
		return err
	}
	if split, err := observeAll(d); err != nil || !maps.Equal(first, split) {
		return fmt.Errorf("after the rest of the split: %v, %v after %v", err, split, first)
	}
	again, err := Open(fs.CrashClone(rng), "/d", o) // a crash while opening
	if err != nil {
		return err
	}
	if second, err := observeAll(again); err != nil || !maps.Equal(first, second) {
		return fmt.Errorf("opened again: %v, %v after %v", err, second, first)
	}
	if err := again.Close(); err != nil {
		return err
	}
	for _, name := range modelNames { // it goes on as if nothing had happened
		if err := m.do(d, change{"put", name, 1000}); err != nil {
			return err
		}
	}
	if last, err := Open(fs.CrashClone(rng), "/d", o); err != nil {
		return err
	} else if err := errors.Join(m.checkAll(last, true), last.Close()); err != nil {
		return fmt.Errorf("writing after the crash: %w", err)
	}
	return d.Close()
}

// A failure of any one operation on the file system harms nothing that was
// acknowledged, now or after a crash, and makes nothing half visible.
func TestFaultAtEveryOperation(t *testing.T) {
	broken, full := errors.New("input/output error"), fmt.Errorf("full: %w", vfs.ErrNoSpace)
	kinds := []struct {
		name    string
		forever bool
		err     error
		drops   bool
	}{
		{"once", false, broken, false},
		{"failed flush loses pages", false, broken, true},
		{"full once", false, full, false},
		{"broken for good", true, broken, true},
		{"full for good", true, full, false},
	}
	for _, kind := range kinds {
		for _, method := range crashMethods {
			t.Run(kind.name+" "+string(method), func(t *testing.T) {
				t.Parallel()
				step := 1
				if raceDetector {
					step = 31
				}
				for n := 1; ; n += step {
					mem := vfs.NewMem("/d")
					count := 0
					fs := vfs.NewFaults(mem, func(op, name string) error {
						if kind.err == full && (op == "read" || op == "open" || op == "readdir" || op == "remove") {
							return nil
						}
						if count++; count < n || count > n && !kind.forever {
							return nil
						}
						if kind.drops && op == "datasync" && name != "/d" { // a file without a name is given up
							mem.DropUnsynced(name)
						}
						if kind.drops && op == "syncfs" {
							mem.DropUnsynced("/d/bundles")
						}
						return kind.err
					})
					if faultRun(t, fs, mem, method, uint64(n)); t.Failed() {
						t.Fatalf("operation %d", n)
					}
					if count < n {
						t.Logf("%d operations", n)
						return
					}
				}
			})
		}
	}
}

func faultRun(t *testing.T, fs vfs.FS, mem *vfs.Mem, method SyncMethod, seed uint64) {
	options, m := crashOptions(method), newModel()
	d, err := Open(fs, "/d", options)
	if err != nil {
		return // the flush at the start failed
	}
	rng := rand.New(rand.NewPCG(3, 3))
	for i := range 16 {
		if i > 5 && (method == SyncFdatasync || method == SyncJournal) {
			_ = raiseStep(d)
		}
		c := change{kinds[rng.IntN(len(kinds))], modelNames[rng.IntN(4)], uint64(1 + i)}
		_ = m.do(d, c) // fails when it should; the model knows it as tried
	}
	// While the device runs, only what was acknowledged shows. A read may fail.
	for _, name := range modelNames {
		v, err := observe(d, name)
		if err == nil && v != m.acked[name] {
			t.Errorf("%s shows %+v, acknowledged %+v", name, v, m.acked[name])
		}
		if errors.Is(err, ErrQuarantined) {
			t.Error(err)
		}
	}
	rng = rand.New(rand.NewPCG(seed, 4))
	if err := checkCrashed(mem.CrashClone(rng), options, m.clone(), rng); err != nil {
		t.Error(err)
	}
	_ = d.Close() // may meet the fault; it must not harm
	if err := checkCrashed(mem.CrashClone(rng), options, m.clone(), rng); err != nil {
		t.Error("after close: ", err)
	}
}
