package device

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"martlet/object-server/bundle"
	"martlet/object-server/bundle/format"
	"martlet/object-server/vfs"
)

// Writers and readers of the same few names see whole versions only, and never
// one older than what was acknowledged before they looked.
func TestConcurrentSameNames(t *testing.T) {
	onBoth(t, func(t *testing.T, fs vfs.FS, root string) {
		d := open(t, fs, root, Options{SpillBytes: modelSpill, SegmentBytes: 256 << 10, OpenFilesMax: 2})
		var acked [4]atomic.Uint64
		var clock atomic.Uint64
		var writers, readers sync.WaitGroup
		var stop atomic.Bool
		for range 8 {
			writers.Add(1)
			go func() {
				defer writers.Done()
				for range 30 {
					ticks := clock.Add(1)
					n := ticks % 4
					name := modelNames[n]
					_, err := put(d, locate(name, modelBits), name, ticks, modelBody(name, ticks))
					var older *OlderError
					if err != nil && !errors.As(err, &older) {
						t.Error(err)
					}
					for err == nil {
						if seen := acked[n].Load(); seen >= ticks || acked[n].CompareAndSwap(seen, ticks) {
							break
						}
					}
				}
			}()
		}
		for range 4 {
			readers.Add(1)
			go func() {
				defer readers.Done()
				for i := 0; !stop.Load(); i++ {
					n := i % 4
					before := acked[n].Load()
					v, err := observe(d, modelNames[n])
					if err != nil || v.ticks < before {
						t.Errorf("%+v, %v after %d was acknowledged", v, err, before)
						return
					}
				}
			}()
		}
		writers.Wait()
		stop.Store(true)
		readers.Wait()
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
	})
}

// Concurrent writers of different partitions share flushes.
func TestWritersShareFlushes(t *testing.T) {
	mem := vfs.NewMem("/d")
	var held atomic.Bool
	entered, release := make(chan struct{}), make(chan struct{})
	fs := vfs.NewFaults(mem, func(op, _ string) error {
		if op == "syncfs" && held.CompareAndSwap(true, false) {
			close(entered)
			<-release
		}
		return nil
	})
	d := open(t, fs, "/d", Options{})
	defer d.Close()
	for i := range 41 { // open the partitions: nothing else passes while a flush is held
		must[*bundle.Bundle](t)(d.bundle(d.bundleOf(locate(fmt.Sprint(i), 3))))
	}
	held.Store(true)
	var group sync.WaitGroup
	write := func(i int) {
		defer group.Done()
		name := fmt.Sprint(i)
		if _, err := put(d, locate(name, 3), name, 1, body(uint64(i), 100)); err != nil {
			t.Error(err)
		}
	}
	group.Add(1)
	go write(0)
	<-entered // its flush is running
	for i := 1; i <= 40; i++ {
		group.Add(1)
		go write(i)
	}
	for queued := 0; queued < 40; { // all of them wait for the next one
		d.committer.mu.Lock()
		queued = len(d.committer.queue)
		d.committer.mu.Unlock()
	}
	close(release)
	group.Wait()
	if s := d.Stats(); s.Batches != 2 || s.Flushes != 2 || s.Puts != 41 {
		t.Fatalf("%+v", s)
	}
}

// An object that is open stays readable when it is replaced or deleted, and
// after Close of the device.
func TestOpenObjectOutlivesItsName(t *testing.T) {
	onBoth(t, func(t *testing.T, fs vfs.FS, root string) {
		d := open(t, fs, root, Options{})
		for _, size := range []int{5000, 2 << 20} {
			loc := locate("/a/c/o", 1)
			_, _ = d.Delete(loc, at(uint64(size)), "/a/c/o")
			must[State](t)(put(d, loc, "/a/c/o", uint64(size)+1, body(1, size)))
			o := must[*Object](t)(d.Open(loc))
			must[State](t)(d.Delete(loc, at(uint64(size)+2), "/a/c/o"))
			if size > 1<<20 {
				if err := d.Close(); err != nil {
					t.Fatal(err)
				}
			}
			var b bytes.Buffer
			if err := o.WriteRange(&b, 0, int64(size)); err != nil || !bytes.Equal(b.Bytes(), body(1, size)) {
				t.Fatal(err)
			}
			o.Close()
		}
	})
}

func TestReserve(t *testing.T) {
	mem := vfs.NewMem("/d")
	mem.SetLimit(1 << 20)
	d := open(t, mem, "/d", Options{ReservePercent: 100, SpillBytes: 100, compactByHand: true})
	defer d.Close()
	must[State](t)(d.Delete(locate("x", 1), at(1), "x")) // a delete must be possible on a full disk
	d.room.returned()
	if _, err := d.NewUpload(locate("x", 1), 5); !errors.Is(err, ErrNoSpace) {
		t.Fatal(err)
	}
	// There is room again, and the clock was set back meanwhile: that is found out at once.
	d.room.percent = 0.1
	d.room.checked = time.Now().Add(time.Hour)
	must[State](t)(put(d, locate("x", 1), "x", 2, body(1, 5)))
}

// A POST writes the whole object anew, so the reserve is not for it.
func TestReserveIsNotForPosts(t *testing.T) {
	mem := vfs.NewMem("/d")
	mem.SetLimit(1 << 20)
	d := open(t, mem, "/d", Options{ReservePercent: 50, compactByHand: true})
	defer d.Close()
	loc := locate("x", 1)
	must[State](t)(put(d, loc, "x", 1, body(1, 100_000)))
	var err error
	for i := uint64(2); err == nil && i < 20; i++ {
		d.room.returned()
		err = d.Post(loc, func(m *format.Metadata) error { m.MetaTimestamp = at(i); return nil })
	}
	if usage, _ := d.directory.Usage(); !errors.Is(err, ErrNoSpace) || usage.BytesFree < 300_000 {
		t.Fatalf("%v; %d bytes are free", err, usage.BytesFree)
	}
	must[State](t)(d.Delete(loc, at(20), "x"))
}

// A large upload that a full disk refuses leaves no large file behind, or the disk would never be less full.
func TestFullDiskKeepsNoLargeFile(t *testing.T) {
	for _, inOldSegment := range []bool{true, false} {
		var full atomic.Bool
		mem := vfs.NewMem("/d")
		fs := vfs.NewFaults(mem, func(op, name string) error {
			if full.Load() && op == "write" && strings.HasSuffix(name, ".bundle") {
				return vfs.ErrNoSpace
			}
			return nil
		})
		d := open(t, fs, "/d", modelOptions)
		loc := locate("x", 1)
		if inOldSegment {
			must[State](t)(put(d, loc, "x", 1, body(1, 5)))
		}
		full.Store(true)
		for i := range uint64(3) {
			if _, err := put(d, loc, "x", 2+i, body(2, 2*modelSpill)); !errors.Is(err, ErrNoSpace) {
				t.Fatal(err)
			}
		}
		full.Store(false)
		for name := range files(t, mem) {
			if strings.Contains(name, "/large/") {
				t.Errorf("in an old segment %v: %s is left", inOldSegment, name)
			}
		}
		must[State](t)(put(d, loc, "x", 9, body(3, 2*modelSpill)))
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
		d = open(t, mem, "/d", modelOptions)
		wantBody(t, d, loc, body(3, 2*modelSpill))
		d.Close()
	}
}

// A full disk refuses what does not fit, keeps what is there, and takes writes
// again once there is room.
func TestFullDisk(t *testing.T) {
	mem := vfs.NewMem("/d")
	mem.SetLimit(100 << 10)
	d := open(t, mem, "/d", Options{SpillBytes: modelSpill})
	defer func() { d.Close() }()
	stored, refused := []int{}, 0
	for i := range 40 {
		name := fmt.Sprint(i)
		_, err := put(d, locate(name, 2), name, 1, body(uint64(i), 3000+i%3*7000))
		if err == nil {
			stored = append(stored, i)
		} else if !errors.Is(err, ErrNoSpace) {
			t.Fatal(err)
		} else {
			refused++
			wantNotFound(t, d, locate(name, 2), 0)
		}
	}
	if refused == 0 || len(stored) == 0 || d.Err() != nil {
		t.Fatal(refused, stored, d.Err())
	}
	mem.SetLimit(0)
	must[State](t)(put(d, locate("late", 2), "late", 1, body(99, 3000)))
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	d = open(t, mem, "/d", Options{})
	for _, i := range append(stored, 99) {
		if i == 99 {
			wantBody(t, d, locate("late", 2), body(99, 3000))
			continue
		}
		wantBody(t, d, locate(fmt.Sprint(i), 2), body(uint64(i), 3000+i%3*7000))
	}
}

// The second failed flush takes the device out; nothing works until it is
// opened again.
func TestSecondFailureTakesOut(t *testing.T) {
	mem := vfs.NewMem("/d")
	// The name of the segment whose next flush fails: the writes', not one of the
	// upkeep, which seals the segment before it.
	var failing atomic.Value
	failing.Store("")
	fs := vfs.NewFaults(mem, func(op, name string) error {
		if op == "datasync" && failing.CompareAndSwap(filepath.Base(name), "") {
			mem.DropUnsynced("/d")
			return errors.New("input/output error")
		}
		return nil
	})
	d := open(t, fs, "/d", Options{})
	loc := locate("x", 1)
	must[State](t)(put(d, loc, "x", 1, body(1, 100)))
	for i := range 2 {
		failing.Store(fmt.Sprintf("%08d-0000.bundle", i+1))
		if _, err := put(d, loc, "x", uint64(10+i), body(2, 100)); err == nil || errors.Is(err, ErrOut) {
			t.Fatal(err)
		}
		if i == 0 {
			wantBody(t, d, loc, body(1, 100))
			must[State](t)(put(d, loc, "x", 2, body(3, 100)))
			wantBody(t, d, loc, body(3, 100))
		}
	}
	if !errors.Is(d.Err(), ErrOut) {
		t.Fatal(d.Err())
	}
	if _, err := put(d, loc, "x", 20, body(2, 100)); !errors.Is(err, ErrOut) {
		t.Fatal(err)
	}
	if _, err := d.Open(loc); !errors.Is(err, ErrOut) {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	// The pages that the flush lost are gone after a power cut; without one the
	// failed write may show, as doc/formats/bundle.md says.
	d = open(t, mem.CrashClone(rand.New(rand.NewPCG(1, 1))), "/d", Options{})
	defer d.Close()
	wantBody(t, d, loc, body(3, 100))
}

// No writer uses the reserve, however much it writes at a time and however
// fast.
func TestReserveIsNotOverrun(t *testing.T) {
	const size = 8 << 20
	large := func(hint int64) func(d *Device, i int) error {
		return func(d *Device, i int) error {
			name := fmt.Sprint("/a/c/", i)
			u, err := d.NewUpload(locate(name, 1), hint)
			if err != nil {
				return err
			}
			defer u.Abort()
			data := body(1, size-100_000)
			if _, err = u.Write(data); err != nil {
				return err
			}
			_, err = u.Commit(&format.Metadata{Name: name, Size: int64(len(data)), Timestamp: at(1)})
			return err
		}
	}
	for what, write := range map[string]func(d *Device, i int) error{
		"announced": large(size - 100_000), "not announced": large(-1),
		"fast": func(d *Device, i int) error {
			name := fmt.Sprint("/a/c/", i)
			_, err := put(d, locate(name, 1), name, 1, body(1, 4096))
			return err
		},
	} {
		mem := vfs.NewMem("/d")
		mem.SetLimit(size)
		d := open(t, mem, "/d", Options{ReservePercent: 10})
		var err error
		stored := 0
		for ; err == nil && stored < 2*size/4096; stored++ {
			err = write(d, stored)
		}
		if usage, _ := d.directory.Usage(); !errors.Is(err, ErrNoSpace) || usage.BytesFree < size/10 {
			t.Errorf("%s: %v after %d; %d bytes are free", what, err, stored, usage.BytesFree)
		}
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// A partition that has as many segments as there may be is full. The device is
// not, and it is in order.
func TestFullPartition(t *testing.T) {
	mem := vfs.NewMem("/d")
	d := open(t, mem, "/d", Options{SegmentBytes: segmentBytesMin, compactByHand: true})
	defer d.Close()
	name := func(i int) (string, Location) {
		name := fmt.Sprint("/a/c/", i)
		return name, locate(name, 0)
	}
	stored := 0
	for refused := 0; refused < 5; {
		name, loc := name(stored)
		_, err := put(d, loc, name, 1, body(uint64(stored), segmentBytesMin))
		switch {
		case err == nil:
			stored++
		case errors.Is(err, ErrNoSpace):
			refused++
		default:
			t.Fatal(stored, err)
		}
	}
	if n := len(files(t, mem)); stored < 1000 || n != stored {
		t.Errorf("%d stored in %d files", stored, n)
	}
	must[State](t)(put(d, Location{Partition: 1, Hash: format.Hash{1}}, "/a/c/o", 1, body(1, 5)))
	for i := range stored {
		_, loc := name(i)
		wantBody(t, d, loc, body(uint64(i), segmentBytesMin))
	}
}

// Damage that is found after the device was closed is told like any other.
func TestDamageAfterClose(t *testing.T) {
	mem := vfs.NewMem("/d")
	d := open(t, mem, "/d", Options{})
	loc := locate("/a/c/o", 1)
	must[State](t)(put(d, loc, "/a/c/o", 1, body(1, 5000)))
	for name, size := range files(t, mem) {
		damage(t, mem, name, size-1000, 1, func(p []byte) { p[0] ^= 1 })
	}
	o := must[*Object](t)(d.Open(loc))
	defer o.Close()
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if err := o.WriteRange(new(bytes.Buffer), 0, 5000); !errors.Is(err, ErrQuarantined) {
		t.Error(err)
	}
}

// A failure to write back may be told to the flush of a batch and to that of the footer
// behind it. It counts once.
func TestOneFailureCountsOnce(t *testing.T) {
	var failing atomic.Value // the segment whose next flushes fail
	var left atomic.Int32    // so many of them
	failing.Store("")
	fs := vfs.NewFaults(vfs.NewMem("/d"), func(op, name string) error {
		if op == "datasync" && filepath.Base(name) == failing.Load() && left.Add(-1) >= 0 {
			return syscall.EIO
		}
		return nil
	})
	d := open(t, fs, "/d", Options{})
	defer d.Close()
	loc := locate("x", 1)
	incident := func(segment int, ticks uint64) error {
		failing.Store(fmt.Sprintf("%08d-0000.bundle", segment))
		left.Store(2) // both now: the footer may be flushed before the next put
		if _, err := put(d, loc, "x", ticks, body(2, 100)); !errors.Is(err, syscall.EIO) {
			t.Fatal(err)
		}
		_, err := put(d, loc, "x", ticks+1, body(3, 100)) // it has the segment before sealed
		return err
	}
	must[State](t)(put(d, loc, "x", 1, body(1, 100)))
	if err := incident(1, 10); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the footer", func() bool { return left.Load() <= 0 })
	must[State](t)(put(d, loc, "x", 12, body(3, 100)))
	d.caretaker.working.Lock() // it has seen the failure
	err := d.Err()
	d.caretaker.working.Unlock()
	if err != nil {
		t.Fatal(err)
	}
	if err := incident(2, 20); !errors.Is(err, ErrOut) {
		t.Error("after a second one:", err)
	}
}
