package device

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"martlet/object-server/bundle/format"
	"martlet/object-server/vfs"
)

func reads(op, _ string) bool   { return op == "read" }
func flushes(op, _ string) bool { return op == "datasync" || op == "syncfs" }

// One disk that does not answer, and GETs for it that go on coming: each that waits in
// a system call takes a thread, and too many of them end a process.
func TestHangingReadsTakeFewThreads(t *testing.T) {
	const child = "MARTLET_TEST_HANGING_READS"
	if os.Getenv(child) == "" {
		c := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.count=1")
		c.Env = append(os.Environ(), child+"=1")
		if out, err := c.CombinedOutput(); err != nil {
			t.Errorf("%v: %.300s", err, out)
		}
		return
	}
	const gets, threads, atOnce = 500, 300, 64
	debug.SetMaxThreads(threads) // of the 10,000 that a process has: the scale only
	var pipe [2]int
	if err := unix.Pipe(pipe[:]); err != nil {
		t.Fatal(err)
	}
	fs := newHanging(vfs.NewMem("/d"), never)
	d := open(t, fs, "/d", Options{Concurrency: atOnce, busyAfter: 50 * time.Millisecond})
	l := locate("a", 4)
	must[State](t)(put(d, l, "a", 1, body(1, 300)))
	fs.set(func(op, _ string) bool {
		if op == "read" {
			fs.mu.Unlock() // as all that hang may do so at once
			defer fs.mu.Lock()
			var b [1]byte
			_, _ = unix.Read(pipe[0], b[:])
		}
		return false
	})
	refused := make(chan error, gets)
	for range gets {
		go func() {
			_, err := d.Open(l)
			refused <- err
		}()
	}
	for range gets - atOnce {
		if err := <-refused; !errors.Is(err, ErrBusy) {
			t.Fatal(err)
		}
	}
	os.Exit(0) // the others hang
}

// Reads of a disk that hangs are refused: as busy at first, and at once when it has
// not answered for long. They go on when it does.
func TestReadsOfAHangingDiskAreRefused(t *testing.T) {
	const atOnce = 4
	fs := newHanging(vfs.NewMem("/d"), never)
	d := open(t, fs, "/d", Options{Concurrency: atOnce, busyAfter: 10 * time.Millisecond, stuckAfter: time.Hour})
	defer d.Close()
	l := locate("a", 4)
	must[State](t)(put(d, l, "a", 1, body(1, 300)))
	fs.set(reads)
	ended := make(chan error, atOnce)
	for range atOnce {
		go func() {
			_, _, err := get(d, l)
			ended <- err
		}()
	}
	for range atOnce {
		<-fs.entered
	}
	if _, err := d.Head(l); !errors.Is(err, ErrBusy) {
		t.Error("one too many:", err)
	}
	d.calls.progress.Add(-int64(2 * time.Hour))
	if _, err := d.Head(l); !errors.Is(err, ErrStuck) {
		t.Error("the disk does not count as hanging:", err)
	}
	if _, err := put(d, l, "a", 2, body(1, 300)); !errors.Is(err, ErrStuck) {
		t.Error("a PUT:", err)
	}
	within(t, "Stats", func() { d.Stats() })
	fs.letGo()
	for range atOnce {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	wantBody(t, d, l, body(1, 300))
	if d.Err() != nil {
		t.Error(d.Err())
	}
}

// waitFor waits until a condition holds.
func waitFor(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("no end of the wait for", what)
		}
	}
}

// Writes behind a flush that hangs are given up, and later ones refused at once; reads go on.
// Those of the batch that is flushed wait, as they may be on the disk.
func TestWritesBehindAHangingFlushAreRefused(t *testing.T) {
	fs := newHanging(vfs.NewMem("/d"), never)
	// The writes before and after the flush that hangs take less, also on a busy machine.
	d := open(t, fs, "/d", Options{stuckAfter: time.Second})
	defer d.Close()
	name := func(i int) (string, Location) { return fmt.Sprint(i), locate(fmt.Sprint(i), 4) }
	n0, l0 := name(0)
	must[State](t)(put(d, l0, n0, 1, body(0, 300)))
	fs.set(flushes)
	flushed, queued := make(chan error, 1), make(chan error, 8)
	go func() {
		n, l := name(1)
		_, err := put(d, l, n, 1, body(1, 300))
		flushed <- err
	}()
	<-fs.entered
	for i := range cap(queued) {
		go func() {
			n, l := name(2 + i)
			_, err := put(d, l, n, 1, body(1, 300))
			queued <- err
		}()
	}
	for range cap(queued) {
		if err := <-queued; !errors.Is(err, ErrStuck) {
			t.Error("a PUT that waits:", err)
		}
	}
	if _, err := d.NewUpload(l0, 300); !errors.Is(err, ErrStuck) {
		t.Error("a later PUT:", err)
	}
	if _, err := d.Delete(l0, at(2), n0); !errors.Is(err, ErrStuck) {
		t.Error("a DELETE:", err)
	}
	wantBody(t, d, l0, body(0, 300))
	fs.letGo()
	if err := <-flushed; err != nil {
		t.Error(err)
	}
	for i := range 1 + cap(queued) {
		n, l := name(1 + i)
		if i > 0 {
			wantNotFound(t, d, l, 0)
			must[State](t)(put(d, l, n, 1, body(1, 300)))
		}
		wantBody(t, d, l, body(1, 300))
	}
	if d.Err() != nil {
		t.Error(d.Err())
	}
}

// So many operations, those that wait included, are in a device at once.
func TestOperationsAreBounded(t *testing.T) {
	const most = 3
	fs := newHanging(vfs.NewMem("/d"), never)
	d := open(t, fs, "/d", Options{OperationsMax: most, busyAfter: 500 * time.Millisecond})
	defer d.Close()
	ended := make(chan error, most)
	var commits []func() error
	for i := range most { // in partitions of their own: more than one may not wait until the same one is open
		name := fmt.Sprint(i)
		u, err := d.NewUpload(inPartition(name, uint32(i)), 300)
		if err != nil {
			t.Fatal(err)
		}
		must[int](t)(u.Write(body(1, 300)))
		commits = append(commits, func() error {
			_, err := u.Commit(&format.Metadata{Name: name, ContentType: "a/b", Size: 300, Timestamp: at(1)})
			return err
		})
	}
	fs.set(flushes)
	for _, commit := range commits { // an operation each; a whole PUT is two
		go func() { ended <- commit() }()
	}
	waitFor(t, "the operations", func() bool {
		if len(ended) > 0 {
			fs.letGo()
			t.Fatal("an operation has ended: ", <-ended)
		}
		return len(d.operations.places) == most
	})
	if _, err := d.Head(locate("x", 4)); !errors.Is(err, ErrBusy) {
		t.Error(err)
	}
	fs.letGo()
	for range most {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	wantNotFound(t, d, locate("x", 4), 0)
}

// blockedWriter is a client that takes nothing until it is let go.
type blockedWriter struct {
	entered, release chan struct{}
	isIn             atomic.Bool
}

func (w *blockedWriter) Write(p []byte) (int, error) {
	if !w.isIn.Swap(true) {
		close(w.entered)
		<-w.release
	}
	return len(p), nil
}

// A client that takes its time, up or down, is no call to the disk.
func TestSlowClientHoldsNoPlace(t *testing.T) {
	const size = 3 * largeBuffer
	d := open(t, vfs.NewMem("/d"), "/d", Options{Concurrency: 1, SpillBytes: 1000, OperationsMax: 1, busyAfter: time.Minute})
	defer d.Close()
	large, small := locate("large", 4), locate("small", 4)
	must[State](t)(put(d, large, "large", 1, body(1, size)))
	o, err := d.Open(large)
	if err != nil {
		t.Fatal(err)
	}
	defer o.Close()
	w := &blockedWriter{entered: make(chan struct{}), release: make(chan struct{})}
	read := make(chan error, 1)
	go func() { read <- o.WriteRange(w, 0, size) }()
	<-w.entered
	u, err := d.NewUpload(locate("slow", 4), size)
	if err != nil {
		t.Fatal(err)
	}
	defer u.Abort()
	must[int](t)(u.Write(body(2, size/2)))
	must[State](t)(put(d, small, "small", 1, body(3, 300)))
	wantBody(t, d, small, body(3, 300))
	close(w.release)
	if err := <-read; err != nil {
		t.Error(err)
	}
}

// A device in order refuses nothing, however many want something at once: each waits
// until the others are through. That holds for partitions that are open: of those that
// want one at its first use, OperationsMax/8 wait, which is one here.
func TestLimitsRefuseNothingInOrder(t *testing.T) {
	d := open(t, vfs.NewMem("/d"), "/d", Options{Concurrency: 2, OperationsMax: 4, busyAfter: time.Minute})
	defer d.Close()
	for p := range uint32(1 << 4) {
		must[State](t)(put(d, inPartition(fmt.Sprint("first", p), p), "first", 1, body(1, 300)))
	}
	ended := make(chan error, 400)
	for i := range cap(ended) {
		go func() {
			name := fmt.Sprint(i)
			_, err := put(d, locate(name, 4), name, 1, body(1, 300))
			if err == nil {
				_, _, err = get(d, locate(name, 4))
			}
			ended <- err
		}()
	}
	for range cap(ended) {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	if n := len(d.operations.places) + len(d.calls.places) + len(d.longCalls.places) + len(d.largeCalls.places); n != 0 {
		t.Errorf("%d places are taken", n)
	}
}

// hangingOpening is a device on which the opening of partition 0 hangs, for eight GETs.
// Partition 1 can be opened.
func hangingOpening(t *testing.T, o Options) (d *Device, fs *hanging, ended chan error) {
	mem := vfs.NewMem("/d")
	d = open(t, mem, "/d", Options{})
	for p := range 2 {
		must[State](t)(put(d, inPartition(fmt.Sprint(p), uint32(p)), fmt.Sprint(p), 1, body(1, 300)))
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	fs = newHanging(mem, func(op, name string) bool { return op == "read" && strings.HasPrefix(name, "/d/bundles/0/") })
	d = open(t, fs, "/d", o)
	t.Cleanup(func() { _ = d.Close() })
	wantBody(t, d, inPartition("1", 1), body(1, 300))
	ended = make(chan error, 8)
	for range cap(ended) {
		go func() {
			_, _, err := get(d, inPartition("0", 0))
			ended <- err
		}()
	}
	<-fs.entered
	return d, fs, ended
}

// An opening that hangs blocks calls for the same partition, and no other.
func TestHangingOpeningIsNoCall(t *testing.T) {
	d, fs, ended := hangingOpening(t, Options{Concurrency: 2, busyAfter: time.Minute, stuckAfter: time.Hour})
	if d.longCalls.progress.Add(-int64(2 * time.Hour)); d.longCalls.check() == nil {
		t.Error("the opening does not take long")
	}
	wantBody(t, d, inPartition("1", 1), body(1, 300))
	fs.letGo()
	for range cap(ended) {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

// A disk that flushes one file after the other in time does not count as hanging.
func TestManyFlushesInARowAreNoHang(t *testing.T) {
	fs := newHanging(vfs.NewMem("/d"), never)
	d := open(t, fs, "/d", Options{SyncMethod: SyncFdatasync, stuckAfter: 2 * time.Second})
	defer d.Close()
	const n = 10
	for i := range n {
		must[State](t)(put(d, inPartition(fmt.Sprint(i), uint32(i)), fmt.Sprint(i), 1, body(1, 300)))
	}
	fs.set(func(op, _ string) bool {
		if op == "datasync" {
			time.Sleep(250 * time.Millisecond) // with the lock held: nothing else of the file system goes on
		}
		return false
	})
	ended := make(chan error, 2*n)
	for i := range 2 * n {
		go func() {
			name := fmt.Sprint("new", i)
			_, err := put(d, inPartition(name, uint32(i%n)), name, 1, body(1, 300))
			ended <- err
		}()
	}
	for range cap(ended) {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

// Large uploads that wait for their disk take no places of small objects, and are not refused for being many.
func TestLargeUploadsLeavePlacesToSmallObjects(t *testing.T) {
	const atOnce, uploads = 2, 5
	fs := newHanging(vfs.NewMem("/d"), never)
	d := open(t, fs, "/d", Options{Concurrency: atOnce})
	defer d.Close()
	small := locate("small", 4)
	must[State](t)(put(d, small, "small", 1, body(1, 300)))
	fs.set(func(op, _ string) bool { return op == "direct" })
	ended := make(chan error, uploads)
	for i := range uploads {
		go func() {
			name := fmt.Sprint("large", i)
			_, err := put(d, locate(name, 4), name, 1, body(uint64(i), 3*largeBuffer))
			ended <- err
		}()
	}
	for range atOnce {
		<-fs.entered
	}
	wantBody(t, d, small, body(1, 300))
	must[State](t)(put(d, small, "small", 2, body(2, 300)))
	fs.letGo()
	for range uploads {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

// A large object whose record was given up leaves no file.
func TestLargeObjectGivenUpLeavesNothing(t *testing.T) {
	mem := vfs.NewMem("/d")
	fs := newHanging(mem, never)
	d := open(t, fs, "/d", Options{SpillBytes: 1000, stuckAfter: time.Second, noFloor: true})
	defer d.Close()
	must[State](t)(put(d, inPartition("other", 2), "other", 1, body(1, 300)))
	must[State](t)(put(d, inPartition("small", 1), "small", 1, body(1, 300)))
	u, err := d.NewUpload(inPartition("big", 1), 5000)
	if err != nil {
		t.Fatal(err)
	}
	defer u.Abort()
	must[int](t)(u.Write(body(2, 5000)))
	fs.set(func(op, name string) bool {
		return op == "syncfs" || op == "datasync" && strings.HasSuffix(name, ".bundle")
	})
	flushed := make(chan error, 1)
	go func() {
		_, err := put(d, inPartition("other", 2), "other", 2, body(1, 300))
		flushed <- err
	}()
	<-fs.entered
	_, err = u.Commit(&format.Metadata{Name: "big", ContentType: "text/plain", Size: 5000, Timestamp: at(1)})
	if !errors.Is(err, ErrStuck) {
		t.Error(err)
	}
	fs.letGo()
	if err := <-flushed; err != nil {
		t.Error(err)
	}
	entries, err := mem.ReadDir("/d/bundles/1/large")
	if len(entries) != 0 {
		t.Errorf("%d large files that no record names: %v", len(entries), err)
	}
}

// So does one whose device is taken out before the record is written.
func TestLargeObjectOfDeviceTakenOutLeavesNothing(t *testing.T) {
	mem := vfs.NewMem("/d")
	var d *Device
	fs := vfs.NewFaults(mem, func(op, name string) error {
		if op == "syncdir" && strings.HasSuffix(name, "/large") {
			d.takeOut(syscall.EIO)
		}
		return nil
	})
	d = open(t, fs, "/d", Options{SpillBytes: 1000, noFloor: true})
	defer d.Close()
	if _, err := put(d, inPartition("big", 1), "big", 1, body(2, 5000)); !errors.Is(err, ErrOut) {
		t.Fatal(err)
	}
	entries, err := mem.ReadDir("/d/bundles/1/large")
	if err != nil || len(entries) != 0 {
		t.Errorf("%d large files that no record names: %v", len(entries), err)
	}
}

// Removals of versions are calls to the disk.
func TestRemovalsOfAHangingDiskAreRefused(t *testing.T) {
	fs := newHanging(vfs.NewMem("/d"), never)
	d := open(t, fs, "/d", Options{Concurrency: 2, stuckAfter: 300 * time.Millisecond})
	defer d.Close()
	const n = 20
	for i := range n {
		name := fmt.Sprint(i)
		u, err := d.NewUpload(locate(name, 4), 300)
		if err != nil {
			t.Fatal(err)
		}
		must[int](t)(u.Write(body(1, 300)))
		must[State](t)(u.Commit(&format.Metadata{Name: name, ContentType: "a/b", Size: 300, Timestamp: at(1), VersionID: format.VersionID{1}}))
	}
	fs.set(reads)
	ended := make(chan error, n)
	for i := range n {
		go func() {
			name := fmt.Sprint(i)
			_, err := d.DeleteVersions(locate(name, 4), []format.VersionID{{1}}, at(2), name)
			ended <- err
		}()
	}
	for range n - 2 {
		if err := <-ended; !errors.Is(err, ErrStuck) {
			t.Error(err)
		}
	}
	if in := len(fs.entered); in > 2 {
		t.Errorf("%d calls hang at once", in)
	}
	fs.letGo()
	for range 2 {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

// Those that wait until one partition is opened leave places for others.
func TestOpeningFillsNoDevice(t *testing.T) {
	d, fs, ended := hangingOpening(t, Options{Concurrency: 2, OperationsMax: 8, busyAfter: 100 * time.Millisecond, stuckAfter: time.Hour})
	for range cap(ended) - 1 { // all but the one that opens the partition
		if err := <-ended; !errors.Is(err, ErrBusy) {
			t.Error(err)
		}
	}
	if _, _, err := get(d, inPartition("1", 1)); err != nil {
		t.Error("a partition that is open:", err)
	}
	fs.letGo()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
