package device

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"testing"

	"martlet/object-server/vfs"
)

// crashStates is how many states a power cut may leave are looked at before each
// operation on the file system. MARTLET_CRASH_STATES raises it for long runs.
func crashStates() int {
	if n, err := strconv.Atoi(os.Getenv("MARTLET_CRASH_STATES")); err == nil {
		return n
	}
	return 2
}

// crashMethods are those that differ in what they do to the file system.
var crashMethods = []SyncMethod{SyncAuto, SyncFdatasync, SyncJournal}

// crashOptions has a journal of a few batches, so that files change and some
// batches do not fit.
func crashOptions(method SyncMethod) Options {
	o := modelOptions
	o.SyncMethod, o.JournalBytes = method, 64<<10
	return o
}

// A crash before any operation on the file system loses nothing acknowledged
// (I1), shows only bytes written under the name (I2), the newest version (I3),
// all or nothing of the rest (I4), the same after the next start (I5), and needs
// nobody to help (I7).
func TestCrashAtEveryOperation(t *testing.T) {
	for _, method := range crashMethods {
		for writers := 1; writers <= 4; writers += 3 {
			for seed := range uint64(2) {
				t.Run(fmt.Sprintf("%s-%d-%d", method, writers, seed), func(t *testing.T) {
					t.Parallel()
					crashRun(t, method, writers, seed)
				})
			}
		}
	}
}

func crashRun(t *testing.T, method SyncMethod, writers int, seed uint64) {
	mem, m := vfs.NewMem("/d"), newModel()
	if seed == 1 {
		mem.Lack(vfs.FeatureTemp) // large files have temporary names
	}
	rng := rand.New(rand.NewPCG(seed, uint64(writers)))
	options := crashOptions(method)
	prefixes, states := 0, 0
	var failure error
	fs := vfs.NewFaults(mem, func(op, name string) error {
		if op == "read" || op == "open" || op == "readdir" || failure != nil {
			return nil
		}
		if prefixes++; raceDetector && prefixes%8 != 0 {
			return nil
		}
		for i := range crashStates() + 1 {
			snapshot, clone := m.clone(), mem.KillClone()
			if i > 0 {
				clone = mem.CrashClone(rng)
			}
			states++
			if err := checkCrashed(clone, options, snapshot, rng); err != nil {
				failure = fmt.Errorf("before operation %d, %s %s, state %d: %w", prefixes, op, name, i, err)
				return nil
			}
		}
		return nil
	})
	d := open(t, fs, "/d", options)
	workload(t, d, m, writers, seed)
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if failure != nil {
		t.Fatal(failure)
	}
	if prefixes < 25 {
		t.Fatalf("only %d operations", prefixes)
	}
	t.Logf("%d operations, %d states", prefixes, states)
}

// workload writes from several goroutines, each under names of its own.
func workload(t *testing.T, d *Device, m *model, writers int, seed uint64) {
	var group sync.WaitGroup
	for w := range writers {
		group.Add(1)
		go func() {
			defer group.Done()
			rng := rand.New(rand.NewPCG(seed, uint64(w)))
			for i := range 32 / writers {
				c := change{
					kind:  []string{"put", "put", "post", "delete"}[rng.IntN(4)],
					name:  modelNames[w+writers*rng.IntN(len(modelNames)/writers)],
					ticks: uint64(1 + i + rng.IntN(3)),
				}
				if err := m.do(d, c); err != nil {
					t.Errorf("%+v: %v", c, err)
				}
			}
		}()
	}
	group.Wait()
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
					step = 11
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
						if kind.drops && op == "datasync" {
							mem.DropUnsynced(name)
						}
						if kind.drops && op == "syncfs" {
							mem.DropUnsynced("/d/objects")
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
		c := change{[]string{"put", "put", "post", "delete"}[rng.IntN(4)], modelNames[rng.IntN(4)], uint64(1 + i)}
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
