package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"martlet/object-server/bundle"
	"martlet/object-server/device"
	"martlet/object-server/device/journal"
	"martlet/object-server/device/partpower"
	"martlet/object-server/vfs"
)

// target is a path of the command line, and the partitions or the file that it names.
type target struct {
	path       string
	root       string      // the device; empty for a file outside of one
	partitions []bundle.ID // of the device, or the one
	file       string      // name of the segment file; empty: all
	isDevice   bool

	isQuarantined bool // found in a directory there
}

// quarantine is the directory on a device where repair puts damaged files.
const quarantine = bundle.QuarantineFolder

// readTargets is readTarget, but makes a target of each segment file in quarantine:
// those files are not the whole of their partition.
func readTargets(paths []string) ([]*target, error) {
	var all []*target
	for _, path := range paths {
		isQuarantined, err := inQuarantine(path)
		if err != nil {
			return nil, err
		}
		files := []string{path}
		if isQuarantined {
			if files, err = segmentsBelow(path); err != nil {
				return nil, err
			}
		}
		for _, file := range files {
			t, err := readTarget(file)
			if err != nil {
				return nil, err
			}
			t.isQuarantined = isQuarantined
			all = append(all, t)
		}
	}
	return all, nil
}

// inQuarantine reports whether a path is the quarantine of a device, or a directory in
// it that repair has made.
func inQuarantine(path string) (bool, error) {
	info, err := os.Stat(path)
	if err != nil || !info.IsDir() {
		return false, err
	}
	at, err := filepath.Abs(path)
	for range 3 { // itself, a policy's, a partition's
		if filepath.Base(at) == quarantine {
			return true, err
		}
		at = filepath.Dir(at)
	}
	return false, err
}

func segmentsBelow(directory string) (files []string, err error) {
	err = filepath.WalkDir(directory, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() && strings.HasSuffix(path, segmentSuffix) {
			files = append(files, path)
		}
		return err
	})
	return files, err
}

// readTarget finds out what a path names.
func readTarget(path string) (*target, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	absolute, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		t := &target{path: path, file: filepath.Base(absolute)}
		if !strings.HasSuffix(t.file, segmentSuffix) {
			return nil, fmt.Errorf("%s is not a segment file, whose name is like 00000001-0000.bundle", path)
		}
		if id, root, ok := readPartition(filepath.Dir(absolute)); ok {
			t.root, t.partitions = root, []bundle.ID{id}
			return t, t.findPower()
		}
		return t, nil
	}
	if id, root, ok := readPartition(absolute); ok {
		t := &target{path: path, root: root, partitions: []bundle.ID{id}}
		return t, t.findPower()
	}
	t := &target{path: path, root: absolute, isDevice: true}
	if err := t.list(); err != nil {
		return nil, err
	}
	return t, t.findPower()
}

// findPower finds out the part power of the partitions. What a crash has left of a
// split is not a partition.
func (t *target) findPower() error {
	powers := map[int]*partpower.State{}
	kept := t.partitions[:0]
	for _, id := range t.partitions {
		power, isKnown := powers[id.Policy]
		if !isKnown {
			found, ok, err := partpower.Read(vfs.ReadOnly{}, t.root, id.Policy)
			if err != nil {
				return err
			}
			if ok {
				power = &found
			}
			powers[id.Policy] = power
		}
		ok := true
		if power != nil {
			id, ok = power.Bundle(id.Policy, id.Partition)
		}
		if ok {
			kept = append(kept, id)
		}
	}
	if t.partitions = kept; !t.isDevice && len(kept) == 0 {
		return fmt.Errorf("%s is the rest of a partition that was split, or of a split that was not completed; the object server removes it when it opens the device", t.path)
	}
	return nil
}

// readPartition reads the number of a partition from its directory.
func readPartition(directory string) (id bundle.ID, root string, ok bool) {
	policy, ok := readPolicy(filepath.Base(filepath.Dir(directory)))
	partition, err := strconv.ParseUint(filepath.Base(directory), 10, 32)
	return bundle.ID{Policy: policy, Partition: uint32(partition)}, filepath.Dir(filepath.Dir(directory)), ok && err == nil
}

// readPolicy is the inverse of bundle.PolicyDirectory.
func readPolicy(name string) (policy int, ok bool) {
	if index, found := strings.CutPrefix(name, "bundles-"); found {
		policy, _ = strconv.Atoi(index)
	}
	return policy, bundle.PolicyDirectory(policy) == name
}

// onDevices are names that devices have besides those of objects.
var onDevices = []string{journal.Directory, device.CleanStopFile, device.DamagesFile, quarantine, "accounts", "async_pending", "containers", "lost+found", "tmp"}

// list finds the partitions of a device.
func (t *target) list() error {
	entries, err := os.ReadDir(t.root)
	if err != nil {
		return err
	}
	found := len(entries) == 0 // a device without any object
	for _, entry := range entries {
		policy, ok := readPolicy(entry.Name())
		if !ok {
			found = found || slices.Contains(onDevices, entry.Name())
			continue
		}
		found = true
		names, err := os.ReadDir(filepath.Join(t.root, entry.Name()))
		if err != nil {
			return err
		}
		for _, name := range names {
			if n, err := strconv.ParseUint(name.Name(), 10, 32); err == nil && name.IsDir() {
				t.partitions = append(t.partitions, bundle.ID{Policy: policy, Partition: uint32(n)})
			}
		}
	}
	if !found {
		return fmt.Errorf("%s is neither a device with objects, nor a partition's directory, nor a segment file", t.path)
	}
	slices.SortFunc(t.partitions, func(x, y bundle.ID) int {
		if x.Policy != y.Policy {
			return x.Policy - y.Policy
		}
		return int(x.Partition) - int(y.Partition)
	})
	return nil
}

// directory of a partition.
func (t *target) directory(id bundle.ID) string {
	return filepath.Join(t.root, bundle.PolicyDirectory(id.Policy), strconv.FormatUint(uint64(id.Partition), 10))
}

// bytes is the approximate size of all files that a check of the target reads.
func (t *target) bytes() int64 {
	total := int64(0)
	add := func(_ string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() { // a file that vanishes meanwhile does not count
			return nil
		}
		if info, err := entry.Info(); err == nil && isOurs(entry.Name()) {
			total += info.Size()
		}
		return nil
	}
	if t.root == "" || t.file != "" {
		if info, err := os.Stat(t.path); err == nil {
			total = info.Size()
		}
		return total
	}
	for _, id := range t.partitions {
		_ = filepath.WalkDir(t.directory(id), add)
	}
	return total
}

func isOurs(name string) bool {
	return strings.HasSuffix(name, segmentSuffix) || strings.HasSuffix(name, ".data") && len(name) == 21
}

// segmentSuffix ends the names of segment files.
const segmentSuffix = ".bundle"

// openMax keeps all segments of a partition open, so that a segment that is replaced
// meanwhile can still be read.
const openMax = 1 << 10

// each opens the partitions of the target one after the other. The server's note of
// how far they were acknowledged distinguishes damage at their end from torn ends.
func (t *target) each(files vfs.FS, use func(f *bundle.Files, id bundle.ID) error) error {
	floor, err := device.ReadFloor(files, t.root)
	if err != nil {
		return err
	}
	for _, id := range t.partitions {
		f := bundle.NewFiles(files, t.root, openMax)
		f.Floor = floor
		if err := errors.Join(use(f, id), f.Close()); err != nil {
			return err
		}
	}
	return nil
}
