package updates

import (
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"martlet/object-server/vfs"
)

// lostFixture is a replay that runs when a test says so, of one device whose container server does not answer.
type lostFixture struct {
	t      *testing.T
	server *containerServer
	p      *Pending
	replay *replay
}

func newLostFixture(t *testing.T, files vfs.FS) *lostFixture {
	f := &lostFixture{t: t, server: newContainerServer(t)}
	f.server.answer = func(*http.Request) int { return 503 }
	u := newUpdater(t, &places{primaries: []Target{f.server.target()}}, func(o *Options) {
		o.RetryFirst, o.Interval = time.Millisecond, time.Millisecond
	})
	f.p = &Pending{fs: files, root: t.TempDir(), logger: u.options.Logger, said: &reporter{logger: u.options.Logger},
		logs: map[int]*segmentLog{}}
	f.replay = &replay{updater: u, pending: f.p}
	return f
}

func (f *lostFixture) append(names ...string) {
	f.t.Helper()
	for _, name := range names { // a frame each
		if _, err := f.p.Append(0, []Update{{f.server.target(), putRow(name)}}); err != nil {
			f.t.Fatal(err)
		}
	}
}

// deliver makes the replay look at all segments, a few times.
func (f *lostFixture) deliver() (last error) {
	for range 5 {
		for _, s := range f.p.log(0).rotate() {
			if err := f.replay.deliver(f.t.Context(), f.p.log(0), s); err != nil {
				last = err
			}
		}
		time.Sleep(3 * time.Millisecond)
	}
	return last
}

// What cannot be opened is as lost as what cannot be read.
func TestAFileThatIsGoneOrCannotBeOpenedIsLost(t *testing.T) {
	for _, cause := range []error{fs.ErrNotExist, syscall.EIO, syscall.EUCLEAN} {
		f := newLostFixture(t, vfs.NewFaults(vfs.OS{}, func(op, name string) error {
			if op == "open" && strings.HasSuffix(name, segmentSuffix) {
				return &fs.PathError{Op: op, Path: name, Err: cause}
			}
			return nil
		}))
		f.append("1", "2")
		err := f.deliver()
		if lost := f.p.Lost(); len(lost) != 1 {
			t.Errorf("%v: %d losses are told; the replay says %v, empty %v", cause, len(lost), err, isEmpty(f.p))
		}
	}
}

// A file that cannot be removed counts once.
func TestADamagedFileThatStaysCountsOnce(t *testing.T) {
	f := newLostFixture(t, vfs.NewFaults(vfs.OS{}, func(op, name string) error {
		if op == "remove" {
			return &fs.PathError{Op: op, Path: name, Err: syscall.EIO}
		}
		return nil
	}))
	f.append("1", "2")
	flipLastBit(t, segmentFiles(t, f.p.root)[0])
	f.server.set(func() { f.server.answer = func(*http.Request) int { return 202 } })
	_ = f.deliver()
	for _, one := range f.p.Lost() {
		f.p.Mended(one)
	}
	err := f.deliver()
	if figures := f.p.Figures(); figures.Damaged != 1 {
		t.Errorf("%d damaged files, want 1: %v", figures.Damaged, err)
	}
}

// A disk takes seconds for each sector that it cannot read. A stop must not wait for a thousand of them, nor must the other
// rows of the device.
func TestAFileOfBadSectorsHoldsUpNoStop(t *testing.T) {
	const answer = 50 * time.Millisecond // real ones take seconds
	var reads atomic.Int32
	files := vfs.NewBadSectors(vfs.OS{}, func(name string, _, _ int64) bool {
		if !strings.HasSuffix(name, segmentSuffix) {
			return false
		}
		reads.Add(1)
		time.Sleep(answer)
		return true
	})
	root := t.TempDir()
	dir := filepath.Join(root, folder)
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	content := frame(t, strings.Repeat("n", segmentBytes-1000))
	if err := os.WriteFile(filepath.Join(dir, segmentName(1)), content, 0o644); err != nil {
		t.Fatal(err)
	}
	server := newContainerServer(t)
	u := newUpdater(t, &places{primaries: []Target{server.target()}})
	p, err := u.Attach(files, root)
	if err != nil {
		t.Fatal(err)
	}
	await(t, "the first read", func() bool { return reads.Load() > 1 })
	began := time.Now()
	p.Close()
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("the stop took %v, for %d reads", took.Round(time.Millisecond), reads.Load())
	}
}

// A read error that goes away hides no row: not all of them can be made again.
func TestAReadErrorThatGoesAway(t *testing.T) {
	var failing atomic.Bool
	f := newLostFixture(t, vfs.NewFaults(vfs.OS{}, func(op, name string) error {
		if op == "read" && failing.Load() {
			return &fs.PathError{Op: op, Path: name, Err: syscall.EIO}
		}
		return nil
	}))
	f.append("1", "2", "3")
	failing.Store(true)
	_ = f.deliver()
	lost := f.p.Lost()
	if len(lost) != 1 || isEmpty(f.p) {
		t.Fatal(len(lost), isEmpty(f.p))
	}
	failing.Store(false)
	f.server.set(func() { f.server.answer = func(*http.Request) int { return 202 } })
	f.p.Mended(lost[0])
	_ = f.deliver() // the rows may be some that nothing makes again
	if got := len(f.server.rows()); got != 3 {
		t.Errorf("%d rows arrived of a file that can be read again, want 3", got)
	}
	if err := f.deliver(); err != nil || !isEmpty(f.p) || len(f.p.Lost()) != 0 || len(segmentFiles(t, f.p.root)) != 0 {
		t.Error(err, isEmpty(f.p), segmentFiles(t, f.p.root))
	}
}
