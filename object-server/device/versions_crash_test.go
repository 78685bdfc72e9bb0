package device

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"martlet/object-server/bundle"
	"martlet/object-server/bundle/format"
	"martlet/object-server/bundle/sethash"
	"martlet/object-server/bundle/versions"
	"martlet/object-server/vfs"
)

// randomVersionChange is drawVersionChange without rapid.
func randomVersionChange(rng *rand.Rand, ids uint64) versionChange {
	c := versionChange{kind: []string{"put", "put", "put", "marker", "remove", "post"}[rng.IntN(6)], id: rng.Uint64N(ids + 1)}
	c.ticks = c.id * 10
	if c.id == 0 {
		c.ticks = 1 + rng.Uint64N(ids*10)
		c.kind = strings.Replace(c.kind, "marker", "put", 1)
	}
	if c.kind == "remove" || c.kind == "post" {
		c.ticks += []uint64{0, 1, 55}[rng.IntN(3)]
	}
	return c
}

// A crash before any operation on the file system leaves all versions that were
// acknowledged, and all or nothing of the write that was not.
func TestVersionsAfterCrashAtEveryOperation(t *testing.T) {
	for i, method := range crashMethods {
		t.Run(string(method), func(t *testing.T) {
			t.Parallel()
			o := crashOptions(method)
			o.IndexOnDisk, o.KeptID = i%2 == 1, keptID
			versionCrashRun(t, o, uint64(i))
		})
	}
}

func versionCrashRun(t *testing.T, o Options, seed uint64) {
	const name = "/a/c/heron"
	mem, rng, choices := vfs.NewMem("/d"), rand.New(rand.NewPCG(seed, 1)), rand.New(rand.NewPCG(seed, 2))
	var mu sync.Mutex // of what the history is: upkeep has a goroutine of its own
	var h versionHistory
	var next []versionHistory // after each record of the change that is being made
	var failure error
	operations, kept := 0, 0
	fs := vfs.NewFaults(mem, func(op, path string) error {
		mu.Lock()
		defer mu.Unlock()
		if op == "read" || op == "open" || op == "readdir" || failure != nil {
			return nil
		}
		if operations++; raceDetector && operations%32 != 0 {
			return nil
		}
		for i := range 3 {
			clone := mem.KillClone()
			if i > 0 {
				clone = mem.CrashClone(rng)
			}
			if err := checkCrashedVersions(clone, o, name, append(next, h)); err != nil {
				failure = fmt.Errorf("before operation %d, %s %s, state %d: %w", operations, op, path, i, err)
			}
		}
		return nil
	})
	d := open(t, fs, "/d", o)
	for i := range 76 {
		c := crashVersionChange(choices, i)
		mu.Lock()
		next = h.steps(c, true)
		mu.Unlock()
		if len(next) > 1 {
			kept++
		}
		done, err := h.do(d, name, c)
		if err != nil {
			t.Fatal(err)
		}
		mu.Lock()
		h, next = done, nil
		mu.Unlock()
	}
	if d.Stats().VersionsReclaimed == 0 {
		t.Errorf("no version lost its data: %+v", d.Stats())
	}
	err := d.Close()
	if err = errors.Join(err, failure); err != nil {
		t.Fatal(err)
	}
	if operations < 60 || kept < 3 {
		t.Fatalf("only %d operations, %d null versions kept", operations, kept)
	}
}

// crashVersionChange is the i-th change of versionCrashRun.
func crashVersionChange(rng *rand.Rand, i int) versionChange {
	c := randomVersionChange(rng, 40)
	switch {
	case i < 25: // long enough for lists of several records
		c = versionChange{"put", uint64(i + 21), uint64(i+21) * 10}
	case i >= 60:
		c = versionChange{"remove", uint64(i - 60 + 21), 2000}
	case i%2 == 0 && i < 46: // versions are there that are newer than the last one
		c = versionChange{[]string{"put", "put", "hide", "put", "keep"}[i/2%5], 0, uint64(i)*10 + 5}
	}
	if i > 25 && i%7 == 5 {
		c.kind = "compact"
	}
	if i > 20 && i%3 == 1 {
		c.kind = "raise"
	}
	return c
}

// checkCrashedVersions opens what a crash left: one of the histories.
func checkCrashedVersions(fs *vfs.Mem, o Options, name string, all []versionHistory) error {
	d, err := Open(fs, "/d", o)
	if err != nil {
		return err
	}
	got, err := observeVersions(d, name)
	i := slices.IndexFunc(all, func(h versionHistory) bool { return h.String() == got })
	if err != nil || i < 0 {
		return fmt.Errorf("%w: shows\n%stried, and last what was acknowledged\n%v", err, got, all)
	}
	now := all[i]
	c := versionChange{"put", 199, 1990} // it goes on
	if now[0].lives {
		c.id = 0
	}
	if now, err = now.do(d, name, c); err != nil {
		return err
	}
	if err := d.Close(); err != nil {
		return err
	}
	if d, err = Open(fs, "/d", o); err != nil {
		return err
	}
	if got, err = observeVersions(d, name); err != nil || got != now.String() {
		return fmt.Errorf("%w: after a write shows\n%swant\n%v", err, got, now)
	}
	return d.Close()
}

// The same writes in two orders leave the same versions, wherever a restart
// comes between.
func TestVersionOrderDoesNotMatter(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		const name = "/a/c/heron"
		var changes []versionChange
		used := map[versionChange]bool{}
		for range rapid.IntRange(1, 40).Draw(rt, "changes") {
			c := drawVersionChange(rt, 15)
			switch {
			case c.kind == "post":
				continue // one that comes before its version finds nothing
			case c.id%4 == 1 && c.kind == "put":
				c.kind = "marker" // an id is of one kind
			case c.id != 0 && c.id%4 != 1 && c.kind == "marker":
				c.kind = "put"
			}
			key := versionChange{id: c.id, ticks: c.ticks}
			if c.id != 0 {
				key.kind = c.kind
			}
			if !used[key] { // writes of the null version have times of their own
				used[key] = true
				changes = append(changes, c)
			}
		}
		var shown [2]string
		var digests [2]map[bundle.ID]sethash.Digest
		for i, order := range [][]versionChange{changes, rapid.Permutation(changes).Draw(rt, "order")} {
			s := &machine{fs: vfs.NewMem("/d"), model: newModel()}
			s.start(rt)
			var h versionHistory
			for _, c := range order {
				h = s.version(rt, h, name, c)
			}
			var err error
			if shown[i], err = observeVersions(s.device, name); err != nil {
				rt.Fatal(err)
			}
			if digests[i], err = elementsOf(s.device, []string{name}, modelBits); err == nil {
				err = checkAgreement(s.device, []string{name}, modelBits)
			}
			if err != nil {
				rt.Fatal(err)
			}
			_ = s.device.Close()
		}
		if shown[0] != shown[1] || !maps.Equal(digests[0], digests[1]) {
			rt.Fatalf("one way\n%sthe other\n%s", shown[0], shown[1])
		}
	})
}

// rottenVersionsOptions make several segments, which are compacted when asked for.
var rottenVersionsOptions = Options{
	SpillBytes: modelSpill, SegmentBytes: 16 << 10, CheckpointBytes: 8 << 10, Logger: quiet, compactByHand: true, compactShare: 0.01,
}

// rottenVersions is a device with a name of many versions, some of them large,
// some emptied by compaction, closed cleanly.
func rottenVersions(t *testing.T, name string) (*vfs.Mem, versionHistory) {
	mem := vfs.NewMem("/d")
	d := open(t, mem, "/d", rottenVersionsOptions)
	var h versionHistory
	for n := range uint64(70) {
		c := versionChange{"put", n + 1, (n + 1) * 10}
		switch {
		case n == 30, n == 31, n == 32, n == 33:
			c.kind = "remove"
			c.id = (n-30)*7 + 3 // of 1500 bytes
		case n == 55:
			c.kind = "compact"
		case n == 40:
			c.kind = "marker"
		case n%7 != 3 && modelSize(c.ticks) > 2000: // mostly small
			c.ticks -= c.ticks%7 - 1
		}
		var err error
		if h, err = h.do(d, name, c); err != nil {
			t.Fatal(err)
		}
	}
	if d.Stats().VersionsReclaimed == 0 {
		t.Fatalf("%+v", d.Stats())
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	return mem, h
}

// Damage to any part of a record hides versions at most: no wrong byte is shown,
// no version that was removed, no large file of a live version is deleted, and
// the name takes new versions.
func TestDamageToVersions(t *testing.T) {
	t.Parallel()
	const name = "/a/c/heron"
	mem, h := rottenVersions(t, name)
	step := int64(97)
	if raceDetector {
		step = 1499
	}
	large := len(filesOfLarge(t, mem))
	if large < 5 {
		t.Fatalf("%d large files", large)
	}
	// Later than any record may be whose header is damaged, so that the write is taken.
	now := uint64(time.Now().Add(10*time.Minute).UnixMicro()/10)/7*7 + 1
	hidden := 0
	for path, size := range files(t, mem) {
		if filepath.Base(filepath.Dir(path)) == "large" {
			continue
		}
		for offset := int64(0); offset < size; offset += step {
			fs := mem.KillClone()
			damage(t, fs, path, offset, 1, func(p []byte) { p[0] ^= 0x10 })
			for round := range 3 {
				d := open(t, fs, "/d", rottenVersionsOptions)
				for range 2 { // before and after a compaction
					missing, err := checkDamagedVersions(d, name, h, round > 0)
					if err == nil {
						err = d.Compact()
					}
					if err != nil {
						t.Fatalf("%s offset %d, round %d: %v", path, offset, round, err)
					}
					if missing {
						hidden++
					}
				}
				if err := doVersion(d, name, versionChange{"put", 150 + uint64(round), now + uint64(round)*10}); err != nil {
					t.Fatalf("%s offset %d, round %d: a new version: %v", path, offset, round, err)
				}
				m, err := d.Head(locate(name, modelBits))
				if err != nil || m.VersionID != versionID(150+uint64(round)) {
					t.Fatalf("%s offset %d, round %d: the new version: %+v, %v", path, offset, round, m, err)
				}
				if err := d.Close(); err != nil {
					t.Fatal(err)
				}
			}
			if n := len(filesOfLarge(t, fs)); n < large {
				t.Fatalf("%s offset %d: %d of %d large files", path, offset, n, large)
			}
		}
	}
	if hidden == 0 {
		t.Fatal("no damage hid anything")
	}
}

func filesOfLarge(t *testing.T, fs vfs.FS) (all []string) {
	for path := range files(t, fs) {
		if filepath.Base(filepath.Dir(path)) == "large" {
			all = append(all, path)
		}
	}
	return all
}

// checkDamagedVersions tells whether versions are hidden. Those that are shown
// must be right.
func checkDamagedVersions(d *Device, name string, h versionHistory, more bool) (hidden bool, err error) {
	page, err := d.ListVersions(locate(name, modelBits), versions.Marker{}, 1000)
	if errors.Is(err, ErrQuarantined) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	shown := 0
	for _, v := range page.Versions {
		n := numberOf(v.ID)
		if more && n >= 150 {
			continue
		}
		if !h[n].lives || h[n].ticks != v.Timestamp.Ticks {
			return false, fmt.Errorf("version %d of time %d is not live", n, v.Timestamp.Ticks)
		}
		shown++
		if _, err := observeVersion(d, name, n, v, h[n].isMarker); errors.Is(err, ErrQuarantined) {
			hidden = true
		} else if err != nil {
			return false, err
		}
	}
	if live := strings.Count(h.String(), "\n"); shown < live {
		if !page.Incomplete {
			return false, fmt.Errorf("%d versions of %d, and nothing said", shown, live)
		}
		hidden = true
	}
	return hidden, nil
}

// The large file of a version lives as long as the version does.
func TestLargeFilesOfVersions(t *testing.T) {
	const name = "/a/c/heron"
	mem := vfs.NewMem("/d")
	d := openModel(t, mem)
	var h versionHistory
	do := func(c versionChange, want int) {
		t.Helper()
		var err error
		if h, err = h.do(d, name, c); err != nil {
			t.Fatal(err)
		}
		if n := len(filesOfLarge(t, mem)); n != want {
			t.Fatalf("%d large files after %+v, want %d", n, c, want)
		}
	}
	do(versionChange{"put", 0, 5}, 1) // ticks of 5 modulo 7 are large
	do(versionChange{"put", 1, 12}, 2)
	do(versionChange{"put", 2, 19}, 3)
	do(versionChange{"post", 1, 20}, 3)
	do(versionChange{"put", 3, 21}, 3)
	do(versionChange{"put", 0, 26}, 3) // replaces the null version
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	plant(t, mem, filepath.Join(filepath.Dir(filesOfLarge(t, mem)[0]), "00000000000000aa.data"))
	d = openModel(t, mem)
	do(versionChange{"post", 3, 27}, 3) // opening has removed what no version names
	do(versionChange{"remove", 1, 28}, 2)
	do(versionChange{"marker", 4, 29}, 2)
	do(versionChange{"remove", 0, 30}, 1)
	do(versionChange{"remove", 2, 31}, 0)
	if got, err := observeVersions(d, name); err != nil || got != h.String() {
		t.Fatalf("%v\n%s want\n%v", err, got, h)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
}

// plant makes an empty file.
func plant(t *testing.T, fs vfs.FS, path string) {
	t.Helper()
	f, err := fs.Create(path)
	if err == nil {
		err = errors.Join(f.Datasync(), fs.SyncDir(filepath.Dir(path)), f.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
}

// What a lost record may have replaced stays doubtful when a version that came late
// has continued the chain; a new write ends that.
func TestLateVersionBehindLostRecords(t *testing.T) {
	const name = "/a/c/heron"
	loc, mem := locate(name, 1), vfs.NewMem("/d")
	d := open(t, mem, "/d", Options{})
	must[State](t)(put(d, loc, name, 10, body(10, 300)))
	end := int64(0)
	for _, size := range files(t, mem) {
		end = max(end, size)
	}
	must[State](t)(put(d, loc, name, 20, body(20, 300)))
	must[State](t)(put(d, Location{Partition: loc.Partition, Hash: format.Hash{1}}, "/a/c/o", 30, body(30, 300)))
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	for file := range files(t, mem) {
		if strings.HasSuffix(file, ".bundle") {
			damage(t, mem, file, end, 1, func(p []byte) { p[0] ^= 1 })
		}
	}
	d = open(t, mem, "/d", Options{})
	defer d.Close()
	if err := doVersion(d, name, versionChange{"put", 5, 5}); err != nil {
		t.Fatal(err)
	}
	if _, m, err := get(d, loc); err != nil || !m.Doubtful || m.Timestamp != at(10) {
		t.Errorf("shows %+v, %v", m, err)
	}
	if m, err := d.HeadVersion(loc, format.VersionID{}); err != nil || !m.Doubtful || m.Timestamp != at(10) {
		t.Errorf("the null version is %+v, %v", m, err)
	}
	if m, err := d.HeadVersion(loc, versionID(5)); err != nil || m.Doubtful || m.Timestamp != at(5) {
		t.Errorf("the new version is %+v, %v", m, err)
	}
	if err := doVersion(d, name, versionChange{"put", 0, 40}); err != nil {
		t.Fatal(err)
	}
	if _, m, err := get(d, loc); err != nil || m.Doubtful || m.Timestamp != at(40) {
		t.Errorf("shows %+v, %v", m, err)
	}
}
