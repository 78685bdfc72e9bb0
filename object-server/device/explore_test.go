package device

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"martlet/object-server/bundle/format"
	"martlet/object-server/vfs"
)

// crashPlan is what the explorer does under a seed.
func crashPlan(seed uint64) (history, *explorer) {
	rng := rand.New(rand.NewPCG(seed, 99))
	h := history{
		seed: seed, writers: []int{1, 1, 2, 4}[rng.IntN(4)], changes: 72, ticks: smallTicks,
		raises: rng.IntN(3) == 0, versions: rng.IntN(2) == 0,
	}
	x := &explorer{wrap: honest, isKnown: func(uint64) bool { return false }, limit: 120, sick: crashNumber("MARTLET_CRASH_SICK", 0), options: Options{
		SyncMethod: SyncMethods[rng.IntN(len(SyncMethods))], SpillBytes: smallSpill, Logger: quiet, JournalBytes: 8 << 10,
		SegmentBytes: []int64{8 << 10, 4 << 10, 16 << 10}[rng.IntN(3)], IndexOnDisk: rng.IntN(2) == 0,
		splitByHand: true, compactByHand: true, KeptID: keptID,
	}}
	if h.raises { // a split is many operations
		h.changes, x.limit = 48, 40
	}
	for _, feature := range []vfs.Feature{vfs.FeatureTemp, vfs.FeatureClone, vfs.FeatureXattr} {
		if rng.IntN(3) == 0 {
			x.lacks |= feature
		}
	}
	if rng.IntN(7) == 0 { // objects of several chunks, and large files of several sectors
		h.ticks, h.changes, x.limit = 0, 36, 60
		x.options.SpillBytes, x.options.SegmentBytes = modelSpill, 64<<10
		x.options.JournalBytes = 64 << 10
	}
	return h, x
}

func honest(m *vfs.Mem) vfs.FS { return m }

// crashNumber reads a number from the environment, for long runs.
func crashNumber(name string, otherwise int) int {
	if n, err := strconv.Atoi(os.Getenv(name)); err == nil {
		return n
	}
	return otherwise
}

// A power cut at any moment loses nothing acknowledged and shows nothing that
// was not written. `make crash` runs this for MARTLET_CRASH_STATES states from
// MARTLET_CRASH_SEED on.
func TestPowerCuts(t *testing.T) {
	sample := 4000
	if raceDetector {
		sample = 100
	}
	hunt := crashHunt{
		states: crashNumber("MARTLET_CRASH_STATES", sample), next: uint64(crashNumber("MARTLET_CRASH_SEED", 1)),
		start: time.Now(), said: time.Now(), known: map[uint64]struct{}{},
	}
	var workers sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		workers.Add(1)
		go func() {
			defer workers.Done()
			for hunt.step() {
			}
		}()
	}
	workers.Wait()
	fmt.Println(hunt.line())
	if hunt.failure != nil {
		t.Fatal(hunt.failure)
	}
}

// crashHunt shares seeds out until enough states have been seen.
type crashHunt struct {
	states int
	start  time.Time

	mu      sync.Mutex
	next    uint64              // seed
	known   map[uint64]struct{} // states, by digest
	found   explored
	failure error
	said    time.Time
}

// step explores one seed; false at the end of the hunt.
func (c *crashHunt) step() bool {
	c.mu.Lock()
	seed, isOver := c.next, c.failure != nil || c.found.states >= c.states
	c.next++
	c.mu.Unlock()
	if isOver {
		return false
	}
	h, x := crashPlan(seed)
	x.isKnown = c.isKnown
	if raceDetector {
		x.limit, h.changes = 2, h.changes/2 // the detector sees the goroutines of a state, not its bytes
	}
	err := x.run(h)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.found.add(x.found)
	if err != nil && c.failure == nil {
		c.failure = fmt.Errorf("seed %d, %d writers, %s: %w\n%s\nto repeat: make crash CRASH_SEED=%d CRASH_STATES=1",
			seed, h.writers, x.options.SyncMethod, err, keepState(x.failed, seed), seed)
		fmt.Println(c.failure) // the other workers may take a while to end
	}
	if time.Since(c.said) > 10*time.Second {
		c.said = time.Now()
		fmt.Println(c.line())
	}
	return true
}

// isKnown tells whether a state was counted before, under any seed, and notes it.
func (c *crashHunt) isKnown(digest uint64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, isKnown := c.known[digest]
	c.known[digest] = struct{}{}
	return isKnown
}

func (c *crashHunt) line() string {
	failures := 0
	if c.failure != nil {
		failures = 1
	}
	seconds := time.Since(c.start).Seconds()
	f := &c.found
	return fmt.Sprintf("crash: %d states made, %d distinct explored, %d changes, %d null versions kept, %d crash points, %d while opening, "+
		"%d large files set aside, %d openings with bad sectors of which %d hid something, %d failures, %.1f s, %.0f states/s",
		f.tried, f.states, f.changes, f.kept, f.points+f.openings, f.openings, f.aside, f.sick, f.hurt, failures, seconds, float64(f.states)/seconds)
}

// keepState copies the state that failed out of memory, and says where it is.
func keepState(state *vfs.Mem, seed uint64) string {
	if state == nil {
		return "the history itself failed"
	}
	root, err := os.MkdirTemp("", fmt.Sprintf("martlet-crash-%d-", seed))
	if err == nil {
		err = copyOut(state, "/d", root)
	}
	return fmt.Sprintf("the device as the crash left it: %s (%v)", root, err)
}

func copyOut(from vfs.FS, path, to string) error {
	entries, err := from.ReadDir(path)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		source, target := filepath.Join(path, entry.Name()), filepath.Join(to, entry.Name())
		if entry.IsDir() {
			err = os.Mkdir(target, 0o755)
			if err == nil {
				err = copyOut(from, source, target)
			}
		} else {
			err = copyFileOut(from, source, target)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func copyFileOut(from vfs.FS, source, target string) error {
	f, err := from.Open(source)
	if err != nil {
		return err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return err
	}
	content, err := io.ReadAll(io.NewSectionReader(f, 0, size))
	if err != nil {
		return err
	}
	return os.WriteFile(target, content, 0o644)
}

// The explorer finds a disk that does not keep its word: each lie loses
// something, and a seed shows it.
func TestPowerCutsFindLies(t *testing.T) {
	for _, c := range []struct {
		lie    string
		method SyncMethod
	}{
		{"datasync", SyncFdatasync},
		{"datasync", SyncJournal},
		{"datasync/20", SyncFdatasync}, // one of twenty does nothing
		{"datasync of large files", SyncAuto},
		{"syncdir", SyncFdatasync},
		{"syncfs", SyncAuto},
		{"syncfs", SyncJournal},
	} {
		t.Run(fmt.Sprintf("%s %s", c.lie, c.method), func(t *testing.T) {
			t.Parallel()
			for seed := range uint64(20) {
				h, x := crashPlan(seed)
				x.options.SyncMethod, x.lacks, x.sick, x.limit = c.method, 0, 0, 40
				x.wrap = func(m *vfs.Mem) vfs.FS { return &liar{FS: m, lie: c.lie} }
				if err := x.run(h); err != nil {
					if !strings.Contains(err.Error(), "shows") && !errors.Is(err, ErrQuarantined) {
						t.Fatal(err) // neither lost nor damaged
					}
					t.Logf("seed %d, state %d: %v", seed, x.found.states, err)
					return
				}
			}
			t.Fatal("not found")
		})
	}
}

// The explorer finds a device that keeps old null versions where no look-up
// finds them.
func TestPowerCutsFindLostNullVersions(t *testing.T) {
	h, x := crashPlan(2)
	h.versions = true
	x.options.KeptID = func(format.Timestamp) format.VersionID { return versionID(1) }
	if err := x.run(h); err == nil || !strings.Contains(err.Error(), "shows") {
		t.Fatal(err)
	}
}

// liar is a disk that says that something is durable, and does nothing for it.
type liar struct {
	vfs.FS
	lie   string
	mu    sync.Mutex
	count int
}

func (l *liar) Open(name string) (vfs.File, error)   { return l.file(l.FS.Open(name)) }
func (l *liar) Create(name string) (vfs.File, error) { return l.file(l.FS.Create(name)) }
func (l *liar) CreateTemp(dir string) (vfs.File, error) {
	f, err := l.FS.CreateTemp(dir)
	if err != nil {
		return nil, err
	}
	return &lyingFile{f, l, l.lie == "datasync of large files"}, nil
}

func (l *liar) file(f vfs.File, err error) (vfs.File, error) {
	if err != nil {
		return nil, err
	}
	lies := strings.HasPrefix(l.lie, "datasync") && l.lie != "datasync of large files"
	return &lyingFile{f, l, lies}, nil
}

func (l *liar) Link(f vfs.File, name string) error { return l.FS.Link(f.(*lyingFile).File, name) }

func (l *liar) SyncDir(name string) error {
	if l.lie == "syncdir" {
		return nil
	}
	return l.FS.SyncDir(name)
}

func (l *liar) OpenDir(name string) (vfs.Dir, error) {
	d, err := l.FS.OpenDir(name)
	if err != nil {
		return nil, err
	}
	return &lyingDir{d, l.lie == "syncfs"}, nil
}

type lyingFile struct {
	vfs.File
	liar *liar
	lies bool
}

func (f *lyingFile) Clone(source vfs.File) error { return f.File.Clone(source.(*lyingFile).File) }

func (f *lyingFile) Datasync() error {
	f.liar.mu.Lock()
	f.liar.count++
	honest := strings.HasSuffix(f.liar.lie, "/20") && f.liar.count%20 != 0
	f.liar.mu.Unlock()
	if f.lies && !honest {
		return nil
	}
	return f.File.Datasync()
}

type lyingDir struct {
	vfs.Dir
	lies bool
}

func (d *lyingDir) SyncFS() error {
	if d.lies {
		return nil
	}
	return d.Dir.SyncFS()
}
