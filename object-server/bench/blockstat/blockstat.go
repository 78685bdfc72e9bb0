// Package blockstat reads what a block device has counted since it was made:
// the truth about reads, writes and flushes, below every cache.
package blockstat

import (
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// Counters are those of /sys/block/<device>/stat that benchmarks need. Requests
// are counted as the device gets them, so after the kernel has merged
// neighbours.
type Counters struct {
	Reads, ReadBytes     uint64
	Writes, WrittenBytes uint64
	Flushes              uint64
}

const sectorSize = 512 // of the kernel's counters, whatever the device has

// Device is a block device.
type Device struct{ stat string }

// Of finds the block device under the file system of a path. tmpfs and other
// file systems without one, and Btrfs, which hides its own, are errors.
func Of(path string) (Device, error) {
	var s unix.Stat_t
	if err := unix.Stat(path, &s); err != nil {
		return Device{}, &os.PathError{Op: "stat", Path: path, Err: err}
	}
	d := Device{fmt.Sprintf("/sys/dev/block/%d:%d/stat", unix.Major(s.Dev), unix.Minor(s.Dev))}
	if _, err := d.Read(); err != nil {
		return Device{}, fmt.Errorf("blockstat: no counters for %s: %w", path, err)
	}
	return d, nil
}

// Read returns the counters of now. Writes that still wait in the page cache
// are not in them.
func (d Device) Read() (Counters, error) {
	text, err := os.ReadFile(d.stat)
	if err != nil {
		return Counters{}, err
	}
	return parse(string(text))
}

// parse reads a stat file: 17 numbers, in the kernel's
// Documentation/block/stat.rst.
func parse(text string) (c Counters, err error) {
	var n [17]uint64
	fields := strings.Fields(text)
	if len(fields) < len(n) {
		return c, fmt.Errorf("blockstat: %d counters; flushes are counted from Linux 5.5 on", len(fields))
	}
	for i := range n {
		if _, err := fmt.Sscan(fields[i], &n[i]); err != nil {
			return c, fmt.Errorf("blockstat: %q: %w", fields[i], err)
		}
	}
	return Counters{
		Reads: n[0], ReadBytes: n[2] * sectorSize,
		Writes: n[4], WrittenBytes: n[6] * sectorSize,
		Flushes: n[15],
	}, nil
}

// Since returns what has been counted since an earlier reading.
func (c Counters) Since(earlier Counters) Counters {
	return Counters{
		Reads: c.Reads - earlier.Reads, ReadBytes: c.ReadBytes - earlier.ReadBytes,
		Writes: c.Writes - earlier.Writes, WrittenBytes: c.WrittenBytes - earlier.WrittenBytes,
		Flushes: c.Flushes - earlier.Flushes,
	}
}

// Plus adds what was counted in two separate spans.
func (c Counters) Plus(d Counters) Counters {
	return Counters{
		Reads: c.Reads + d.Reads, ReadBytes: c.ReadBytes + d.ReadBytes,
		Writes: c.Writes + d.Writes, WrittenBytes: c.WrittenBytes + d.WrittenBytes,
		Flushes: c.Flushes + d.Flushes,
	}
}
