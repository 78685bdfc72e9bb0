package auditor

import (
	"context"
	"crypto/md5"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"martlet/object-server/proof"
	"martlet/object-server/reconcache"
	"martlet/object-server/vfs"
)

// A full pass finds every damage, a fast one all but that of objects' bytes; and what is found is not served.
func TestDamageIsFound(t *testing.T) {
	const name = "o7"
	hash := md5.Sum([]byte("/a/c/" + name + "x"))
	for what, c := range map[string]struct {
		size       int
		rot        func(h *host) int
		full, fast int
	}{
		"nothing":         {3000, func(*host) int { return 1 }, 0, 0},
		"data":            {3000, func(h *host) int { return h.rot(content(name, 3000), 100) }, 1, 0},
		"header":          {3000, func(h *host) int { return h.rot(hash[:], -16) }, 1, 1},
		"hash":            {3000, func(h *host) int { return h.rot(hash[:], 3) }, 1, 1},
		"data of a large": {200_000, func(h *host) int { return h.rot(content(name, 200_000), 70_000) }, 1, 0},
		"end of a large":  {200_000, (*host).cutLarge, 1, 1},
	} {
		t.Run(what, func(t *testing.T) {
			h := newHost(t, 1, "")
			partitions := map[uint32]bool{}
			for i := range 20 {
				partitions[partitionOf(fmt.Sprint("o", i))] = true
				size := 3000
				if fmt.Sprint("o", i) == name {
					size = c.size
				}
				h.put(fmt.Sprint("o", i), 1, size)
			}
			if c.rot(h) == 0 {
				t.Fatal("nothing was changed")
			}
			if r := h.once(Fast); r.Damages != c.fast || r.Failures+r.Refuted+r.Running > 0 || r.Partitions != len(partitions) {
				t.Errorf("%+v", r)
			}
			r := h.once(Full)
			if r.Damages != c.full || r.Failures+r.Refuted+r.Running > 0 || r.Partitions != len(partitions) || r.Bytes < 20*3000 {
				t.Errorf("%+v", r)
			}
			if objects := r.Objects; objects != 20 && objects != 19 {
				t.Errorf("%d objects", objects)
			}
			for i := range 20 {
				want := 200
				if c.full > 0 && fmt.Sprint("o", i) == name {
					want = 503
				}
				if status, _ := h.ask(http.MethodGet, fmt.Sprint("o", i), 0, nil); status != want {
					t.Errorf("GET o%d: %d", i, status)
				}
			}
		})
	}
}

// cutLarge cuts off the end of the only large file.
func (h *host) cutLarge() int {
	found, err := filepath.Glob(filepath.Join(h.device(1), "bundles", "*", "large", "*"))
	check(h.t, err)
	for _, path := range found {
		check(h.t, os.Truncate(path, 150_000))
	}
	return len(found)
}

// Objects are written, deleted and moved all the time, and nothing of that looks damaged.
func TestWhatIsBeingWrittenIsNoDamage(t *testing.T) {
	h := newHost(t, 1, "bundle_segment_size = 1048576\nbundle_compaction_rate = 0\nbundle_compaction_interval = 1\n")
	ctx, cancel := context.WithCancel(context.Background())
	var wait sync.WaitGroup
	for writer := range 4 {
		wait.Add(1)
		go func() {
			defer wait.Done()
			for i := 1; ctx.Err() == nil; i++ {
				name := fmt.Sprint("o", writer, "-", i%8)
				if i%8 == 3 && i/8%2 == 1 {
					h.ask(http.MethodDelete, name, i, nil)
					continue
				}
				size := 20_000
				if i%16 == 5 {
					size = 150_000
				}
				h.ask(http.MethodPut, name, i, content(name, size))
			}
		}()
	}
	refuted := 0
	for end := time.Now().Add(8 * time.Second); time.Now().Before(end); {
		for _, kind := range []Kind{Fast, Full} {
			a, log := h.auditor()
			report, err := a.Once(context.Background(), kind)
			check(t, err)
			if report.Damages > 0 || report.Failures > 0 {
				t.Errorf("%+v %s", report, log)
			}
			refuted += report.Refuted
		}
	}
	cancel()
	wait.Wait()
	t.Logf("%d partitions were read half way", refuted)
	if r := h.once(Full); r.Damages > 0 {
		t.Errorf("%+v", r)
	}
}

// An auditor goes on where the one before was, however that ended, and its figures with it.
func TestThePassGoesOnAfterAnEnd(t *testing.T) {
	h := newHost(t, 1, "")
	for i := range 40 {
		h.put(fmt.Sprint("o", i), 1, 3000)
	}
	slow := func(c *Config) { c.Rates.Objects[Full], noteEvery = 10, 0 }
	defer func() { noteEvery = time.Second }()
	cursor := func() *progress {
		b, err := os.ReadFile(filepath.Join(h.device(1), CursorFile))
		if err != nil {
			return &progress{}
		}
		var c cursors
		check(t, json.Unmarshal(b, &c))
		return &c.Passes[Full]
	}
	var before progress
	for ends := 0; ; ends++ {
		ctx, cancel := context.WithCancel(context.Background())
		a, log := h.auditor(slow)
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			a.Run(ctx)
		}()
		eventually(t, "progress", func() bool { return cursor().Report.Partitions > before.Report.Partitions })
		cancel()
		<-ended
		now := cursor()
		if !now.Began.Equal(before.Began) && ends > 0 {
			t.Fatalf("the pass began anew: %s", log)
		}
		if before = *now; !now.Ended.IsZero() {
			if ends == 0 {
				t.Error("it was not interrupted")
			}
			break
		}
	}
	if r := before.Report; r.Partitions != 8 || r.Objects != 40 || r.Damages+r.Failures > 0 {
		t.Errorf("%+v", r)
	}
}

// A cursor that cannot be read costs a pass from the start.
func TestACursorOfNoUse(t *testing.T) {
	h := newHost(t, 1, "")
	for text, want := range map[string]bool{"": true, "{": true, `{"format": 2}`: true, `{"format": 1, "passes": [{"began": "2023-11-14T00:00:00Z"}, {}]}`: false} {
		write(t, filepath.Join(h.device(1), CursorFile), text)
		a, log := h.auditor()
		d := a.deviceOf("d1", "127.0.0.1:1")
		if d.state = d.readCursors(); d.state.Passes[Full].Began.IsZero() != want || strings.Contains(log.String(), "cannot be read") != want {
			t.Errorf("%q: %+v %s", text, d.state, log)
		}
	}
}

// A device that its server does not have is not audited: an empty mount point is no device without objects.
func TestADeviceThatIsAway(t *testing.T) {
	h := newHost(t, 1, "")
	h.put("o", 1, 3000)
	h.stop()
	if r := h.once(Full); r.Failures != 1 || r.Partitions != 0 {
		t.Errorf("%+v", r)
	}
	ctx, cancel := context.WithCancel(context.Background())
	a, log := h.auditor()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		a.Run(ctx)
	}()
	eventually(t, "a line in the log", func() bool { return strings.Contains(log.String(), "a device is not audited") })
	cancel()
	<-ended
	if _, err := os.Stat(filepath.Join(h.device(1), CursorFile)); err == nil {
		t.Error("a cursor was written where no device is")
	}
}

// hanging is a file system of which the files of one device do not answer.
type hanging struct {
	vfs.FS
	device string
	end    chan struct{}
}

func (f *hanging) Open(name string) (vfs.File, error) {
	if strings.HasPrefix(name, f.device+"/") {
		<-f.end
	}
	return f.FS.Open(name)
}

// A disk that hangs delays no other one, even if only one is audited at once. The pass ends without it.
func TestADiskThatHangs(t *testing.T) {
	h := newHost(t, 2, "")
	for i := range 20 {
		h.put(fmt.Sprint("o", i), 1, 3000)
	}
	check(t, os.MkdirAll(filepath.Join(h.device(2), "objects", "1", "abc", strings.Repeat("a", 32)), 0o755))
	write(t, filepath.Join(h.device(2), "objects", "1", "abc", strings.Repeat("a", 32), "1700000000.00000.data"), "x")
	sick := &hanging{vfs.ReadOnly{}, h.device(2), make(chan struct{})}
	a, log := h.auditor(func(c *Config) { c.Files, c.Concurrency, c.Stall = sick, 1, 2*time.Second })
	report, err := a.Once(context.Background(), Full)
	check(t, err)
	if report.Running != 1 || report.Objects != 20 || report.Failures > 0 {
		t.Errorf("%+v %s", report, log)
	}
	close(sick.end)
	report, err = a.Once(context.Background(), Full)
	check(t, err)
	if report.Running != 0 || report.Objects < 20 {
		t.Errorf("%+v %s", report, log)
	}
}

// A device that waits for its place does not count as stuck. A pass would end without it when the one
// before it hangs.
func TestADeviceThatWaitsForItsPlace(t *testing.T) {
	h := newHost(t, 1, "")
	a, _ := h.auditor(func(c *Config) { c.Concurrency, c.Stall = 1, time.Nanosecond })
	d := a.deviceOf("d1", "127.0.0.1:1")
	d.touch()
	a.places <- struct{}{} // of another device
	entered := make(chan func())
	go func() {
		leave, err := d.enter(context.Background())
		check(t, err)
		entered <- leave
	}()
	eventually(t, "it does not count as stuck", func() bool { return !d.isStuck() })
	<-a.places
	(<-entered)()
}

// The figures of the last passes are written in the form that swift-recon reads.
func TestFiguresForRecon(t *testing.T) {
	h := newHost(t, 1, "")
	for i := range 20 {
		h.put(fmt.Sprint("o", i), 1, 3000)
	}
	directory := t.TempDir()
	figures := func() map[string]*swiftFigures {
		b, err := json.Marshal(reconcache.Read(directory, "object", swiftKeys[:]))
		check(t, err)
		all := map[string]*swiftFigures{}
		check(t, json.Unmarshal(b, &all))
		return all
	}
	ctx, cancel := context.WithCancel(context.Background())
	a, _ := h.auditor(func(c *Config) { c.ReconCachePath = directory })
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		a.Run(ctx)
	}()
	eventually(t, "figures", func() bool {
		all := figures()
		full, fast := all["object_auditor_stats_ALL"], all["object_auditor_stats_ZBF"]
		return full != nil && full.Passes == 20 && full.Bytes > 60_000 && full.Quarantined == 0 && full.Start > 0 &&
			fast != nil && fast.Passes == 20 && fast.Errors == 0
	})
	cancel()
	<-ended
}

// Rates that change apply at once.
func TestRatesChange(t *testing.T) {
	h := newHost(t, 1, "")
	for i := range 20 {
		h.put(fmt.Sprint("o", i), 1, 3000)
	}
	a, _ := h.auditor(func(c *Config) { c.Rates.BytesPerSecond = 1 })
	done := make(chan *Report)
	go func() {
		report, err := a.Once(context.Background(), Full)
		check(t, err)
		done <- report
	}()
	eventually(t, "it has begun", func() bool {
		a.mu.Lock()
		defer a.mu.Unlock()
		return len(a.devices) == 1
	})
	select {
	case <-done:
		t.Fatal("it was not slow")
	case <-time.After(100 * time.Millisecond):
	}
	a.SetRates(Rates{})
	if r := <-done; r.Objects != 20 {
		t.Errorf("%+v", r)
	}
}

// sector is a file system in which one place of each segment of a partition cannot be read.
type sector struct {
	vfs.FS
	partition string
}

func (f *sector) Open(name string) (vfs.File, error) {
	file, err := f.FS.Open(name)
	if err == nil && strings.Contains(name, "/bundles/"+f.partition+"/") {
		file = &sectorFile{file}
	}
	return file, err
}

type sectorFile struct{ vfs.File }

func (f *sectorFile) ReadAt(p []byte, offset int64) (int, error) {
	const bad = 1000
	if offset <= bad && bad < offset+int64(len(p)) {
		return 0, &os.PathError{Op: "read", Path: "sector", Err: syscall.EIO}
	}
	return f.File.ReadAt(p, offset)
}

// A sector that cannot be read once costs nothing: the server can read it. All other partitions are audited.
func TestASectorThatCannotBeReadOnce(t *testing.T) {
	h := newHost(t, 1, "")
	for i := range 20 {
		h.put(fmt.Sprint("o", i), 1, 3000)
	}
	whole := h.once(Full)
	a, log := h.auditor(func(c *Config) { c.Files = &sector{vfs.ReadOnly{}, fmt.Sprint(partitionOf("o3"))} })
	report, err := a.Once(context.Background(), Full)
	check(t, err)
	if report.Refuted != 1 || report.Damages+report.Failures > 0 || report.Partitions != whole.Partitions || report.Objects < 10 {
		t.Errorf("%+v %s", report, log)
	}
}

// A process that was halted does not take its disks for stuck.
func TestAHaltIsNoHang(t *testing.T) {
	const stall = 2 * time.Second // much longer than the rest takes, also on a busy machine
	h := newHost(t, 1, "")
	a, _ := h.auditor(func(c *Config) { c.Stall = stall })
	d := a.deviceOf("d1", "127.0.0.1:1")
	d.touch()
	proof.Halt(t, stall+time.Second)
	if d.isStuck() {
		t.Error("it counts as stuck")
	}
}

// A device that waits for its rate does answer.
func TestASlowRateIsNoHang(t *testing.T) {
	h := newHost(t, 1, "")
	for i := range 20 {
		h.put(fmt.Sprint("o", i), 1, 3000)
	}
	for stall := 100 * time.Millisecond; ; stall *= 5 { // a busy machine misses a short one, a defect each
		rate := int64(4000 * time.Second / stall) // so that each wait is longer
		a, log := h.auditor(func(c *Config) { c.Rates.BytesPerSecond, c.Concurrency, c.Stall = rate, 1, stall })
		began := time.Now()
		report, err := a.Once(context.Background(), Full)
		check(t, err)
		if least := time.Duration(report.Bytes-rate) * time.Second / time.Duration(rate); time.Since(began) < least {
			t.Errorf("%d bytes took %v", report.Bytes, time.Since(began))
		}
		if report.Objects == 20 && report.Running == 0 && !strings.Contains(log.String(), "does not answer") {
			return
		}
		if stall > 2*time.Second {
			t.Fatalf("%+v %s", report, log)
		}
		t.Logf("with %v: %+v %s", stall, report, log)
	}
}
