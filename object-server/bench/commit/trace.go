package main

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// tracing is where the kernel's tracepoints are switched on.
const tracing = "/sys/kernel/tracing"

// trace records the requests that a block device gets.
type trace struct{ directory string }

// traced is what they amount to.
type traced struct {
	seeks   int    // writes that do not begin where the one before ended
	sectors uint64 // sum of the distances
}

// startTrace begins to record the writes of the block device under a path; nil
// where the kernel or the user's rights do not allow it. It uses an instance of its own,
// so that no other trace is disturbed.
func startTrace(root string) *trace {
	var s unix.Stat_t
	if err := unix.Stat(root, &s); err != nil {
		return nil
	}
	t := &trace{filepath.Join(tracing, "instances", fmt.Sprintf("martlet-%d", os.Getpid()))}
	if err := os.Mkdir(t.directory, 0o755); err != nil {
		return nil
	}
	device := uint64(unix.Major(s.Dev))<<20 | uint64(unix.Minor(s.Dev)) // the kernel's own form
	for _, set := range [][2]string{
		{"buffer_size_kb", "65536"},
		{"events/block/block_rq_issue/filter", fmt.Sprintf("dev == %d", device)},
		{"events/block/block_rq_issue/enable", "1"},
	} {
		if err := os.WriteFile(filepath.Join(t.directory, set[0]), []byte(set[1]), 0); err != nil {
			t.stop()
			return nil
		}
	}
	return t
}

// stop ends the recording and returns its sum.
func (t *trace) stop() *traced {
	if t == nil {
		return nil
	}
	defer os.Remove(t.directory) // a leftover costs memory until the next boot, nothing else
	_ = os.WriteFile(filepath.Join(t.directory, "events/block/block_rq_issue/enable"), []byte("0"), 0)
	f, err := os.Open(filepath.Join(t.directory, "trace"))
	if err != nil {
		return nil
	}
	defer f.Close()
	return sum(bufio.NewScanner(f))
}

// sum reads lines like
//
//	commit-71 [001] ..... 9.1: block_rq_issue: 7,0 WS 4096 () 1000 + 8 none,0,0 [commit]
func sum(lines *bufio.Scanner) *traced {
	var t traced
	var end uint64
	for lines.Scan() {
		_, event, ok := strings.Cut(lines.Text(), "block_rq_issue: ")
		if !ok {
			continue
		}
		var device, kind, bytes, command string
		var sector, sectors uint64
		if n, _ := fmt.Sscanf(event, "%s %s %s %s %d + %d", &device, &kind, &bytes, &command, &sector, &sectors); n < 6 {
			continue
		}
		if !strings.Contains(strings.TrimPrefix(kind, "F"), "W") || sectors == 0 {
			continue // a read, or a flush alone
		}
		if sector != end {
			t.seeks++
			t.sectors += max(sector, end) - min(sector, end)
		}
		end = sector + sectors
	}
	return &t
}
