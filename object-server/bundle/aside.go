package bundle

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"martlet/object-server/bundle/format"
	"martlet/object-server/vfs"
)

// What opening a bundle takes out of use lies beside what repair does, in
// directories that end in asideSuffix. What a repair takes that no operator has asked for
// lies in those that end in MendedSuffix. These alone are removed by age.
const (
	// QuarantineFolder is under the device's root.
	QuarantineFolder = "quarantined"
	asideSuffix      = "-large"
	// MendedSuffix is at the end of such a directory.
	MendedSuffix = "-mended"

	// QuarantineTime is how the time stands in the name of a directory there.
	QuarantineTime = "20060102T150405.000000Z"
)

// setAside moves large files to quarantine. A sibling from a split has links to the
// same files: what is there is only unlinked here. A crash leaves a file in both
// places, or a directory with a part of them.
func (b *Bundle) setAside(ids []uint64) error {
	b.files.sweeping.Lock() // or two siblings would each leave a file to the other
	defer b.files.sweeping.Unlock()
	shared, err := b.sharedLarge()
	if err != nil {
		return err
	}
	directory := ""
	var moved []uint64
	for _, id := range ids {
		if shared[id] {
			b.RemoveLarge(id)
			continue
		}
		if directory == "" {
			name := strconv.FormatUint(uint64(b.id.Partition), 10) + "-" + time.Now().UTC().Format(QuarantineTime) + asideSuffix
			directory = filepath.Join(b.files.Root, QuarantineFolder, QuarantineDirectory(b.id.Policy), name)
			if err := vfs.MakeDirectories(b.files.FS, b.files.Root, directory); err != nil {
				return fmt.Errorf("bundle: %w", err)
			}
		}
		if err := b.linkAside(id, directory); err != nil {
			return err
		}
		moved = append(moved, id)
	}
	if len(moved) == 0 {
		return nil
	}
	if err := b.files.FS.SyncDir(directory); err != nil {
		return fmt.Errorf("bundle: %w", err)
	}
	for _, id := range moved {
		b.RemoveLarge(id)
	}
	b.report.LargeAside, b.report.Aside = len(moved), directory
	return nil
}

func (b *Bundle) linkAside(id uint64, directory string) error {
	file, err := b.OpenLarge(id)
	if err != nil {
		return err
	}
	defer file.Close() // only linked
	if err := b.files.FS.Link(file, filepath.Join(directory, filepath.Base(b.largePath(id)))); err != nil {
		return fmt.Errorf("bundle: %w", err)
	}
	return nil
}

// sharedLarge lists the large files that the sibling has.
func (b *Bundle) sharedLarge() (map[uint64]bool, error) {
	sibling, ok := b.id.Sibling()
	if !ok {
		return nil, nil
	}
	entries, err := b.files.FS.ReadDir(filepath.Join(b.files.Directory(sibling), largeDirectory))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("bundle: %w", err)
	}
	shared := make(map[uint64]bool)
	for _, entry := range entries {
		if id, ok := parseLargeName(entry.Name(), "", largeSuffix); ok {
			shared[id] = true
		}
	}
	return shared, nil
}

// ExpireAside removes what opening and mending bundles put into quarantine before a time, and
// tells how many files that were. What a repair by command put there stays.
func (f *Files) ExpireAside(before time.Time) (removed int, err error) {
	quarantine := filepath.Join(f.Root, QuarantineFolder)
	policies, err := f.FS.ReadDir(quarantine)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("bundle: %w", err)
	}
	for _, policy := range policies {
		if name := policy.Name(); !policy.IsDir() || name != "objects" && !strings.HasPrefix(name, "objects-") {
			continue
		}
		directory := filepath.Join(quarantine, policy.Name())
		entries, err := f.FS.ReadDir(directory)
		if err != nil {
			return removed, fmt.Errorf("bundle: %w", err)
		}
		for _, entry := range entries {
			if since, ok := timeAside(entry.Name()); !ok || !since.Before(before) {
				continue
			}
			n, err := f.removeAside(filepath.Join(directory, entry.Name()))
			if removed += n; err != nil {
				return removed, err
			}
		}
	}
	return removed, nil
}

// timeAside reads the time in the name of a directory that is removed by age.
func timeAside(name string) (t time.Time, ok bool) {
	stem, ok := strings.CutSuffix(name, asideSuffix)
	if !ok {
		stem, ok = strings.CutSuffix(name, MendedSuffix)
	}
	partition, clock, hasTime := strings.Cut(stem, "-")
	if _, err := strconv.ParseUint(partition, 10, 32); !ok || !hasTime || err != nil {
		return t, false
	}
	t, err := time.Parse(QuarantineTime, clock)
	return t, err == nil
}

// removeAside removes the segments and large files in a directory, and the directory if
// nothing else is in it.
func (f *Files) removeAside(directory string) (removed int, err error) {
	entries, err := f.FS.ReadDir(directory)
	if err != nil {
		return 0, fmt.Errorf("bundle: %w", err)
	}
	for _, entry := range entries {
		_, isLarge := parseLargeName(entry.Name(), "", largeSuffix)
		if _, _, isSegment := format.ParseSegmentName(entry.Name()); !isLarge && !isSegment {
			continue
		}
		if err := f.FS.Remove(filepath.Join(directory, entry.Name())); err != nil {
			return removed, fmt.Errorf("bundle: %w", err)
		}
		removed++
	}
	if removed < len(entries) {
		return removed, nil
	}
	if err := f.FS.Remove(directory); err != nil {
		return removed, fmt.Errorf("bundle: %w", err)
	}
	return removed, nil
}
