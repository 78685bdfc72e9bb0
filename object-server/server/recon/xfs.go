package recon

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// xfsEvents are the words of the line "ig" of /sys/fs/xfs/DEVICE/stats/stats: look-ups in the inode cache.
var xfsEvents = []string{"attempts", "found", "recycled", "missed", "duplicate", "reclaimed", "changed"}

// xfsDevices returns the kernel's names of the block devices of XFS, by mount point. The numbers of a
// device lead to its name in links, /sys/dev/block. A file of /dev may have another name, or be hidden
// from a service. No device is asked: it may hang.
func xfsDevices(mountinfo, links string) map[string]string {
	text, err := os.ReadFile(mountinfo)
	if err != nil {
		return nil
	}
	found := map[string]string{}
	for line := range strings.Lines(string(text)) {
		mount, fileSystem, _ := strings.Cut(line, " - ")
		words := strings.Fields(mount)
		if len(words) < 5 || !strings.HasPrefix(fileSystem, "xfs ") {
			continue
		}
		numbers, mountPoint := words[2], words[4]
		if target, err := os.Readlink(filepath.Join(links, numbers)); err == nil {
			found[mountPoint] = filepath.Base(target)
		}
	}
	return found
}

// xfsInodeCache returns the counts of a block device, nil if it has none.
func xfsInodeCache(folder, device string) map[string]uint64 {
	if device == "" {
		return nil
	}
	text, err := os.ReadFile(filepath.Join(folder, device, "stats", "stats"))
	if err != nil {
		return nil
	}
	for line := range strings.Lines(string(text)) {
		words := strings.Fields(line)
		if len(words) == 0 || words[0] != "ig" {
			continue
		}
		found := map[string]uint64{}
		for i, word := range words[1:min(len(words), len(xfsEvents)+1)] {
			if found[xfsEvents[i]], err = strconv.ParseUint(word, 10, 64); err != nil {
				return nil
			}
		}
		return found
	}
	return nil
}
