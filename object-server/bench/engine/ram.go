package main

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"martlet/object-server/device"
	"martlet/object-server/vfs"
)

// memory is what the process holds, in bytes.
type memory struct {
	heap     float64 // objects on the Go heap that are reachable
	offHeap  float64 // of the indexes, as the engine counts it
	resident float64 // all of the process, as the kernel counts it
}

func measureMemory(d *device.Device) (m memory, err error) {
	runtime.GC() // the first moves what sync.Pool holds aside, the second frees it
	runtime.GC()
	debug.FreeOSMemory()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	rollup, err := os.ReadFile("/proc/self/smaps_rollup")
	if err != nil {
		return m, err
	}
	m.heap, m.offHeap = float64(stats.HeapAlloc), float64(d.Stats().IndexBytes)
	m.resident, err = kibibytes(string(rollup), "Rss:")
	return m, err
}

// kibibytes finds a line "<key> <n> kB" and returns bytes.
func kibibytes(text, key string) (float64, error) {
	_, rest, ok := strings.Cut(text, "\n"+key)
	var n float64
	if _, err := fmt.Sscan(rest, &n); !ok || err != nil {
		return 0, fmt.Errorf("no %s in /proc/self/smaps_rollup", key)
	}
	return n * 1024, nil
}

func ram(s *settings, r *report) error {
	fs := &counted{FS: vfs.OS{}}
	d, err := s.open(fs)
	if err != nil {
		return err
	}
	empty, err := measureMemory(d)
	if err != nil {
		return err
	}
	start := time.Now()
	if err := s.fill(d, fs, 0, s.objects); err != nil {
		return err
	}
	seconds := time.Since(start).Seconds()
	filled, err := measureMemory(d)
	if err != nil {
		return err
	}
	if err := d.Close(); err != nil {
		return err
	}
	if d, err = s.open(fs); err != nil {
		return err
	}
	defer d.Close()
	if err := s.openAll(d); err != nil {
		return err
	}
	opened, err := measureMemory(d)
	if err != nil {
		return err
	}
	s.addMemory(r, "after writing", filled, empty, "<= 12")
	s.addMemory(r, "after a restart", opened, empty, "")
	r.note("filled without flushes in %.1f s", seconds)
	return nil
}

// addMemory reports the growth over the empty server, for each object.
func (s *settings) addMemory(r *report, when string, now, empty memory, toReach string) {
	each := func(bytes float64) float64 { return bytes / float64(s.objects) }
	heap, offHeap := each(now.heap-empty.heap), each(now.offHeap-empty.offHeap)
	r.add("RAM per object, "+when, heap+offHeap, "B", toReach)
	r.add("  Go heap", heap, "B", "")
	r.add("  off the heap", offHeap, "B", "")
	r.add("  resident", each(now.resident-empty.resident), "B", "")
}
