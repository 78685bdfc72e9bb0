package device

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"pgregory.net/rapid"

	"martlet/object-server/bundle/format"
	"martlet/object-server/vfs"
)

// removeMany performs removals of many versions at once on device and history.
func (h versionHistory) removeMany(d *Device, name string, changes []versionChange, ticks uint64) (versionHistory, error) {
	var ids []format.VersionID
	for _, c := range changes {
		ids = append(ids, versionID(c.id))
	}
	all, err := d.DeleteVersions(locate(name, modelBits), ids, at(ticks), name)
	if err != nil || len(all) != len(ids) {
		return h, fmt.Errorf("%d of %d: %w", len(all), len(ids), err)
	}
	for i, c := range changes {
		c.kind, c.ticks = "remove", ticks
		next, ok := h.after(c)
		var older *OlderError
		if c.id == 0 {
			if !errors.Is(all[i].Err, ErrInvalid) {
				return h, fmt.Errorf("the null version: %w", all[i].Err)
			}
			continue
		}
		if was := h[c.id]; ok && (all[i].Err != nil || all[i].State.Existed != (was.lives && !was.isMarker)) || !ok && !errors.As(all[i].Err, &older) {
			return h, fmt.Errorf("version %d, %+v: %+v", c.id, was, all[i])
		}
		h = next
	}
	return h, nil
}

// Removals of many versions at once, beside all other changes, leave what the
// model says, after restarts and compaction too.
func TestDeleteVersionsEqualsModel(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		s := &machine{fs: vfs.NewMem("/d"), model: newModel()}
		s.start(rt)
		const name = "/a/c/heron"
		var h versionHistory
		count := rapid.SampledFrom([]uint64{3, 20, 150}).Draw(rt, "versions")
		for n := range count {
			h = s.version(rt, h, name, versionChange{"put", n + 1, (n + 1) * 10})
		}
		for range rapid.IntRange(1, 5).Draw(rt, "batches") {
			var changes []versionChange
			for range rapid.IntRange(0, int(count)).Draw(rt, "removals") {
				changes = append(changes, versionChange{id: rapid.Uint64Range(0, count+2).Draw(rt, "id")})
			}
			var err error
			if h, err = h.removeMany(s.device, name, changes, rapid.Uint64Range(1, count*20).Draw(rt, "ticks")); err != nil {
				rt.Fatal(err)
			}
			for range rapid.IntRange(0, 10).Draw(rt, "changes") {
				h = s.version(rt, h, name, drawVersionChange(rt, count+2, "compact"))
			}
			if rapid.Bool().Draw(rt, "restart") {
				if err := s.device.Close(); err != nil {
					rt.Fatal(err)
				}
				s.start(rt)
			}
			if got, err := observeVersions(s.device, name); err != nil || got != h.String() {
				rt.Fatalf("%v\n%s want\n%v", err, got, h)
			}
			if err := checkAgreement(s.device, []string{name}, modelBits); err != nil {
				rt.Fatal(err)
			}
		}
		_ = s.device.Close()
	})
}

// Many removals of one name are flushed together, and refused one by one.
func TestDeleteVersionsIsOneFlush(t *testing.T) {
	const name, count = "/a/c/heron", 200
	mem := vfs.NewMem("/d")
	d := open(t, mem, "/d", Options{SpillBytes: modelSpill})
	defer d.Close()
	var h versionHistory
	var changes []versionChange
	for n := range uint64(count) {
		c := versionChange{"put", n + 1, (n + 1) * 10}
		var err error
		if h, err = h.do(d, name, c); err != nil {
			t.Fatal(err)
		}
		changes = append(changes, c, c) // the second one is refused
	}
	before, large := d.Stats(), len(filesOfLarge(t, mem))
	h, err := h.removeMany(d, name, changes[:200], 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	if after := d.Stats(); after.Batches != before.Batches+1 || after.Deletes != before.Deletes+100 {
		t.Errorf("%d batches, %d deletes", after.Batches-before.Batches, after.Deletes-before.Deletes)
	}
	if n := len(filesOfLarge(t, mem)); large < 20 || n > large/2+1 {
		t.Errorf("%d of %d large files are left", n, large)
	}
	if got, err := observeVersions(d, name); err != nil || got != h.String() {
		t.Fatalf("%v\n%s want\n%v", err, got, h)
	}
}

// A crash in the middle of a batch of removals leaves its first ones, or none.
func TestDeleteVersionsAfterCrash(t *testing.T) {
	t.Parallel()
	for _, method := range crashMethods {
		t.Run(string(method), func(t *testing.T) {
			const name, count = "/a/c/heron", 90
			o := crashOptions(method)
			mem, rng := vfs.NewMem("/d"), rand.New(rand.NewPCG(1, 2))
			var mu sync.Mutex // of what a crash may leave: upkeep has a goroutine of its own
			var possible []versionHistory
			var failure error
			checked, samples := 0, 3
			if raceDetector {
				samples = 1
			}
			fs := vfs.NewFaults(mem, func(op, path string) error {
				mu.Lock()
				defer mu.Unlock()
				if op == "read" || op == "open" || op == "readdir" || failure != nil || possible == nil {
					return nil
				}
				for range samples {
					checked++
					if err := checkCrashedVersions(mem.CrashClone(rng), o, name, possible); err != nil {
						failure = fmt.Errorf("before %s %s: %w", op, path, err)
					}
				}
				return nil
			})
			o.compactByHand = true
			d := open(t, fs, "/d", o)
			var h versionHistory
			var changes []versionChange
			for n := range uint64(count) {
				c := versionChange{"put", n + 1, (n + 1) * 10}
				var err error
				if h, err = h.do(d, name, c); err != nil {
					t.Fatal(err)
				}
				if n%2 == 0 {
					changes = append(changes, versionChange{"remove", n + 1, 5000})
				}
			}
			all := []versionHistory{h}
			for _, c := range changes {
				next, _ := all[len(all)-1].after(c)
				all = append(all, next)
			}
			expect := func(histories []versionHistory) {
				mu.Lock()
				defer mu.Unlock()
				possible = histories
			}
			expect(all)
			if _, err := h.removeMany(d, name, changes, 5000); err != nil {
				t.Fatal(err)
			}
			expect(nil)
			if err := errors.Join(d.Close(), failure); err != nil {
				t.Fatal(err)
			}
			if checked == 0 {
				t.Error("no crash was tried")
			}
		})
	}
}

// Look-ups beside removals show each version until it is removed, and not after.
func TestLookUpsBesideRemovals(t *testing.T) {
	t.Parallel()
	const name, count, readers = "/a/c/heron", 300, 4
	d := open(t, vfs.NewMem("/d"), "/d", Options{VersionBytes: 16 << 10})
	defer d.Close()
	for n := range uint64(count) {
		if err := doVersion(d, name, versionChange{"put", n + 1, (n + 1) * 10}); err != nil {
			t.Fatal(err)
		}
	}
	var begun, done atomic.Uint64 // removals, which go from the oldest version on
	var running sync.WaitGroup
	for i := range readers {
		running.Add(1)
		go func() {
			defer running.Done()
			rng := rand.New(rand.NewPCG(uint64(i), 0))
			for done.Load() < count {
				n, before := 1+rng.Uint64N(count), done.Load()
				_, err := d.HeadVersion(locate(name, modelBits), versionID(n))
				var missing *NotFoundError
				if isGone := errors.As(err, &missing); isGone && n > begun.Load() || !isGone && (err != nil || n <= before) {
					t.Errorf("version %d, of %d to %d removed: %v", n, before, begun.Load(), err)
					return
				}
			}
		}()
	}
	for n := uint64(0); n < count; n += 6 {
		begun.Store(n + 6)
		var ids []format.VersionID
		for i := range uint64(6) {
			ids = append(ids, versionID(n+i+1))
		}
		all, err := d.DeleteVersions(locate(name, modelBits), ids, at(1<<20+n), name)
		for i := range all {
			err = errors.Join(err, all[i].Err)
		}
		if err != nil {
			t.Error(err) // and the readers end all the same
		}
		done.Store(n + 6)
	}
	running.Wait()
}
