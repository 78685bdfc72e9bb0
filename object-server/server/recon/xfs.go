package recon

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// xfsEvents are the words of the line "ig" of /sys/fs/xfs/DEVICE/stats/stats: look-ups in the inode cache.
var xfsEvents = []string{"attempts", "found", "recycled", "missed", "duplicate", "reclaimed", "changed"}

// xfsSources returns the names of the block devices of XFS, by mount point.
func xfsSources(mounts string) map[string]string {
	text, err := os.ReadFile(mounts)
	if err != nil {
		return nil
	}
	found := map[string]string{}
	for line := range strings.Lines(string(text)) {
		words := strings.Fields(line)
		if len(words) < 3 || words[2] != "xfs" {
			continue
		}
		source := words[0]
		if target, err := filepath.EvalSymlinks(source); err == nil {
			source = target
		}
		found[words[1]] = filepath.Base(source)
	}
	return found
}

// xfsInodeCache returns the counts of a block device, nil if it has none.
func xfsInodeCache(folder, source string) map[string]uint64 {
	if source == "" {
		return nil
	}
	text, err := os.ReadFile(filepath.Join(folder, source, "stats", "stats"))
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
