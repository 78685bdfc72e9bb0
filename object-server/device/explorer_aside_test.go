package device

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"martlet/object-server/bundle"
	"martlet/object-server/device/partpower"
	"martlet/object-server/vfs"
)

// lookAfter does what a device does by itself, and what an operator has it do, after a
// power cut. Nothing of it may change what it shows, and no large file that the cut has
// left is gone before its time: it may have been acknowledged.
func (x *explorer) lookAfter(d *Device, mem, crashed *vfs.Mem, all map[string]version, rng *rand.Rand) error {
	if rng.IntN(2) == 0 { // else it goes on in the middle of it
		if err := x.finishRaise(d, all); err != nil {
			return err
		}
	}
	if rng.IntN(4) == 0 {
		if err := d.Compact(); err != nil {
			return err
		}
		if err := x.same(d, all, "compaction"); err != nil {
			return err
		}
	}
	now := largeFilesOf(mem, "/d")
	for id, places := range largeFilesOf(crashed, "/d") {
		if now[id] == nil && !isAllSplit(crashed, mem, places) {
			return fmt.Errorf("opening has removed the large file %s", id)
		}
	}
	if !isAnyAside(now) {
		return nil
	}
	for _, places := range now {
		if isAside(places) {
			x.found.aside++
		}
	}
	return x.age(d, mem, all, rng)
}

// isAllSplit tells whether large files were in partitions that had been split before a
// crash, or are no more. Their halves have links to all files that count. A name that an
// upload was filling keeps the directory of such a partition. A partition of the higher
// power may have it by now.
func isAllSplit(crashed, mem *vfs.Mem, places []string) bool {
	power, _, err := partpower.Read(crashed, "/d", 0)
	return err == nil && !slices.ContainsFunc(places, func(place string) bool {
		directory := filepath.Dir(filepath.Dir(place))
		partition, err := strconv.ParseUint(filepath.Base(directory), 10, 32)
		if err == nil && power.Next != 0 && partition >= power.From && partition < 2*power.From {
			return false
		}
		if _, err := mem.ReadDir(filepath.Dir(place)); err != nil {
			return false
		}
		entries, err := mem.ReadDir(directory)
		return err != nil || slices.ContainsFunc(entries, func(e fs.DirEntry) bool {
			return strings.HasSuffix(e.Name(), ".bundle")
		})
	})
}

// age lets what is in quarantine become old, but for some states.
func (x *explorer) age(d *Device, mem *vfs.Mem, all map[string]version, rng *rand.Rand) error {
	young := time.Now().Add(d.options.QuarantineAge - time.Hour)
	if d.janitor.tidy(young); !isAnyAside(largeFilesOf(mem, "/d")) {
		return errors.New("large files have left the quarantine too early")
	}
	if rng.IntN(2) == 0 {
		return nil
	}
	if d.janitor.tidy(young.Add(2 * time.Hour)); isAnyAside(largeFilesOf(mem, "/d")) {
		return errors.New("large files stay in quarantine for ever")
	}
	return x.same(d, all, "the quarantine was emptied")
}

// isAside tells whether a large file is in quarantine and nowhere else.
func isAside(places []string) bool {
	for _, place := range places {
		if !strings.HasPrefix(place, filepath.Join("/d", bundle.QuarantineFolder)) {
			return false
		}
	}
	return true
}

func isAnyAside(all map[string][]string) bool {
	for _, places := range all {
		if isAside(places) {
			return true
		}
	}
	return false
}

// largeFilesOf finds the large files below a directory: by their names, where they are.
func largeFilesOf(files vfs.FS, root string) map[string][]string {
	all := map[string][]string{}
	walk(files, root, func(path string, _ fs.DirEntry) {
		if name := filepath.Base(path); strings.HasSuffix(name, ".data") {
			all[name] = append(all[name], path)
		}
	})
	return all
}

// walk calls use for each file below a directory.
func walk(files vfs.FS, directory string, use func(path string, entry fs.DirEntry)) {
	entries, err := files.ReadDir(directory)
	if err != nil {
		panic(err) // it is there, in memory
	}
	for _, entry := range entries {
		if path := filepath.Join(directory, entry.Name()); entry.IsDir() {
			walk(files, path, use)
		} else {
			use(path, entry)
		}
	}
}
