package main

import (
	"crypto/md5"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/bits"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"martlet/object-server/bundle/format"
	"martlet/object-server/device"
)

// etag stands for the MD5 that the server computes: not the engine's work.
const etag = "0123456789abcdef0123456789abcdef"

// content is what the bodies of all objects are cut from.
var content = func() []byte {
	b := make([]byte, 1<<20)
	_, _ = rand.NewChaCha8([32]byte{}).Read(b) // never fails
	return b
}()

// body is the body of object i.
func (s *settings) body(i int) []byte {
	if s.size > len(content)/2 {
		return make([]byte, s.size)
	}
	start := i * 4099 % (len(content) / 2)
	return content[start : start+s.size]
}

func nameOf(i int) string { return fmt.Sprintf("/AUTH_bench/objects/%09d", i) }

// place is where a name belongs, as a ring would tell.
func (s *settings) place(name string) device.Location {
	hash := format.Hash(md5.Sum([]byte(name)))
	shift := 32 - (bits.Len(uint(s.partitions)) - 1)
	return device.Location{Partition: uint32(uint64(binary.BigEndian.Uint32(hash[:])) >> shift), Hash: hash}
}

// put stores object i. A greater version is newer.
func (s *settings) put(d *device.Device, i int, version uint64) error {
	name := nameOf(i)
	u, err := d.NewUpload(s.place(name), int64(s.size))
	if err != nil {
		return err
	}
	defer u.Abort()
	if _, err := u.Write(s.body(i)); err != nil {
		return err
	}
	_, err = u.Commit(&format.Metadata{
		Name: name, ContentType: "application/octet-stream", ETag: etag, Size: int64(s.size),
		Timestamp: format.Timestamp{Ticks: 178000000000000 + version},
	})
	return err
}

// get reads object i whole.
func (s *settings) get(d *device.Device, i int) error {
	o, err := d.Open(s.place(nameOf(i)))
	if err != nil {
		return err
	}
	defer o.Close()
	return o.WriteRange(io.Discard, 0, o.Metadata().Size)
}

// parallel does 0 to n-1, each once, from so many goroutines, and returns an
// error of any.
func parallel(workers, n int, do func(i int) error) error {
	var next atomic.Int64
	var stop atomic.Bool
	var all sync.WaitGroup
	failed := make(chan error, workers)
	for range workers {
		all.Add(1)
		go func() {
			defer all.Done()
			for i := int(next.Add(1)) - 1; i < n && !stop.Load(); i = int(next.Add(1)) - 1 {
				if err := do(i); err != nil {
					stop.Store(true)
					failed <- err
					return
				}
			}
		}()
	}
	all.Wait()
	close(failed)
	return <-failed
}

// fillWriters is how many write at once when only the result counts: the
// engine does the work of one batch for all that wait.
const fillWriters = 1024

// fill stores the objects from first up to last without flushes, and flushes
// at the end.
func (s *settings) fill(d *device.Device, fs *counted, first, last int) error {
	fs.skipFlushes.Store(true)
	defer fs.skipFlushes.Store(false)
	err := parallel(fillWriters, last-first, func(i int) error { return s.put(d, first+i, 1) })
	if err != nil {
		return err
	}
	return syncDirectory(s.dir)
}

// syncDirectory flushes the file system of a directory.
func syncDirectory(name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	return unix.Syncfs(int(f.Fd()))
}

// dropCaches makes the kernel forget clean pages, inodes and names. Only root
// may. The tests of this package leave the machine's caches alone.
var dropCaches = func() error { return os.WriteFile("/proc/sys/vm/drop_caches", []byte("3\n"), 0) }

// openAll opens every partition, by looking for a name that none has.
func (s *settings) openAll(d *device.Device) error {
	return parallel(2, s.partitions, func(i int) error {
		at := device.Location{Partition: uint32(i)}
		return absent(d.Head(at))
	})
}

// absent is an error unless a look-up said that there is no such object.
func absent(_ *format.Metadata, err error) error {
	var missing *device.NotFoundError
	if errors.As(err, &missing) {
		return nil
	}
	return fmt.Errorf("an absent name was found, or: %w", err)
}

// quantile of durations in ascending order.
func quantile(sorted []time.Duration, q float64) time.Duration {
	return sorted[min(int(q*float64(len(sorted))), len(sorted)-1)]
}

func median(d []time.Duration) time.Duration {
	d = slices.Sorted(slices.Values(d))
	return d[len(d)/2]
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// cpuTime is what this process has used so far, in user and system mode.
func cpuTime() time.Duration {
	var u unix.Rusage
	_ = unix.Getrusage(unix.RUSAGE_SELF, &u) // fails for bad arguments only
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
