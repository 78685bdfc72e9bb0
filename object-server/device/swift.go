package device

import (
	"path/filepath"
	"strconv"
	"strings"

	"martlet/object-server/bundle"
)

// lookForSwift notes whether the device has files of OpenStack Swift, which are not
// served: partitions in objects[-N].
func (d *Device) lookForSwift() {
	entries, err := d.fs.ReadDir(d.root)
	if err != nil {
		return // the device has other troubles then
	}
	for _, entry := range entries {
		index, isPolicy := strings.CutPrefix(entry.Name(), bundle.SwiftDirectory(0))
		policy, err := strconv.Atoi(strings.TrimPrefix(index, "-"))
		if index == "" {
			policy, err = 0, nil
		}
		if !isPolicy || err != nil || !entry.IsDir() || entry.Name() != bundle.SwiftDirectory(policy) {
			continue
		}
		if d.hasPartition(filepath.Join(d.root, entry.Name())) {
			d.swiftFiles = true
			d.options.Logger.Warn("files of OpenStack Swift are on the device and are not served: their objects are answered as not found",
				"device", d.root, "directory", entry.Name())
		}
	}
}

// hasPartition tells whether a directory has one with a partition's number in it.
func (d *Device) hasPartition(directory string) bool {
	entries, _ := d.fs.ReadDir(directory) // what cannot be read cannot be told
	for _, entry := range entries {
		if _, err := strconv.ParseUint(entry.Name(), 10, 32); err == nil && entry.IsDir() {
			return true
		}
	}
	return false
}
