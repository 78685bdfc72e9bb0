package bundle

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"martlet/object-server/bundle/format"
	"martlet/object-server/vfs"
)

// CreateLarge makes a large file, without a name where the file system can;
// isNamed tells that it has a temporary one, which RemoveLargeTemp takes away. A
// crash leaves at most a temporary name, and the next opening of the bundle
// removes it.
func (b *Bundle) CreateLarge(id uint64) (f vfs.File, isNamed bool, err error) {
	f, err = b.files.FS.CreateTemp(b.files.Root)
	if errors.Is(err, vfs.ErrNoTemp) {
		isNamed = true
		f, err = b.createNamed(id)
	}
	if err != nil {
		return nil, false, fmt.Errorf("bundle: %w", err)
	}
	return f, isNamed, nil
}

func (b *Bundle) createNamed(id uint64) (vfs.File, error) {
	if !b.isLargeDurable() {
		large := filepath.Join(b.directory, largeDirectory)
		if err := b.mkdirs(filepath.Dir(b.directory), b.directory, large); err != nil {
			return nil, err
		}
	}
	return b.files.FS.Create(b.largeTempPath(id))
}

// LinkLarge gives a large file its name and makes the name durable. The file's
// bytes must be durable already. A crash before the record leaves a file that
// the next opening of the bundle puts into quarantine. No lock is held meanwhile, as the
// committer must not wait for these flushes; two first ones make and flush the directories both.
func (b *Bundle) LinkLarge(f vfs.File, id uint64) error {
	large := filepath.Join(b.directory, largeDirectory)
	parent := filepath.Dir(b.directory)
	var directories []string
	if !b.isLargeDurable() {
		if err := b.mkdirs(parent, b.directory, large); err != nil {
			return err
		}
		directories = []string{b.directory, parent, filepath.Dir(parent)}
	}
	if err := b.files.FS.Link(f, b.largePath(id)); err != nil {
		return fmt.Errorf("bundle: %w", err)
	}
	for _, d := range slices.Insert(directories, 0, large) {
		if err := b.files.FS.SyncDir(d); err != nil {
			return fmt.Errorf("bundle: %w", err)
		}
	}
	b.dirMu.Lock()
	b.largeDurable = true
	b.dirMu.Unlock()
	return nil
}

func (b *Bundle) isLargeDurable() bool {
	b.dirMu.Lock()
	defer b.dirMu.Unlock()
	return b.largeDurable
}

// OpenLarge opens the large file of a SPILL record.
func (b *Bundle) OpenLarge(id uint64) (vfs.File, error) {
	f, err := b.files.FS.Open(b.largePath(id))
	if err != nil {
		return nil, fmt.Errorf("bundle: %w", err)
	}
	return f, nil
}

// RemoveLarge removes a large file that no live record names any more, because a
// newer write has been published, or that was never acknowledged. If it fails, the
// next opening of the bundle puts the file into quarantine.
func (b *Bundle) RemoveLarge(id uint64) { _ = b.files.FS.Remove(b.largePath(id)) }

// RemoveLargeTemp removes the temporary name of a large file, as RemoveLarge.
func (b *Bundle) RemoveLargeTemp(id uint64) { _ = b.files.FS.Remove(b.largeTempPath(id)) }

const (
	largeDirectory  = "large"
	largeSuffix     = ".data"
	largeTempSuffix = ".tmp" // after a dot and the id
)

func (b *Bundle) largeTempPath(id uint64) string {
	return filepath.Join(b.directory, largeDirectory, fmt.Sprintf(".%016x%s", id, largeTempSuffix))
}

func (b *Bundle) largePath(id uint64) string {
	return filepath.Join(b.directory, largeDirectory, largeName(id))
}

// sweepLarge takes large files away that no live record names: a crash left them
// between two steps of a write, or damage to the last batch looks like that. So they
// go to quarantine, but for temporary names, which no record ever had. A bundle with
// damage keeps all of them. If anything fails the files stay until the bundle is next
// opened. The records are sorted by name and LSN.
func (b *Bundle) sweepLarge(records []found) {
	if !b.largeDurable || len(b.report.Damaged) > 0 {
		return
	}
	unnamed, err := b.unnamedLarge(records)
	if err == nil {
		err = b.setAside(unnamed)
	}
	if err != nil && !errors.Is(err, format.ErrQuarantined) && !format.IsDamage(err) && !isUnreadable(err) {
		b.report.Left = fmt.Sprintf("%s: %v", b.directory, err)
	}
}

// unnamedLarge lists the large files that no live record names, and removes
// temporary names.
func (b *Bundle) unnamedLarge(records []found) (unnamed []uint64, err error) {
	entries, err := b.files.FS.ReadDir(filepath.Join(b.directory, largeDirectory))
	if err != nil {
		return nil, fmt.Errorf("bundle: %w", err)
	}
	live, err := b.liveSpills(records)
	if err != nil || len(entries) == len(live) { // one for each: nothing was left behind
		return nil, err
	}
	named := make(map[uint64]bool)
	for i := range live {
		id, err := b.largeOf(&live[i])
		if err != nil {
			return nil, err
		}
		named[id] = true
	}
	for _, entry := range entries {
		if id, ok := parseLargeName(entry.Name(), "", largeSuffix); ok && !named[id] {
			unnamed = append(unnamed, id)
		}
		if id, ok := parseLargeName(entry.Name(), ".", largeTempSuffix); ok {
			b.RemoveLargeTemp(id)
		}
	}
	return unnamed, nil
}

func parseLargeName(name, prefix, suffix string) (id uint64, ok bool) {
	stem, hasPrefix := strings.CutPrefix(name, prefix)
	stem, hasSuffix := strings.CutSuffix(stem, suffix)
	id, err := strconv.ParseUint(stem, 16, 64)
	return id, hasPrefix && hasSuffix && err == nil && len(stem) == 16
}

// liveSpills finds the SPILL records whose large files count: of each name the
// newest record, or all live versions. ErrQuarantined when damage hides some.
func (b *Bundle) liveSpills(records []found) ([]found, error) {
	var live []found
	for start, i := 0, 0; i < len(records); i++ {
		if !isNewest(records, i) {
			continue
		}
		name := records[start : i+1]
		start = i + 1
		newest := &records[i]
		if !newest.IsChained() {
			if newest.Type == format.TypeSpill {
				live = append(live, *newest)
			}
			continue
		}
		if !slices.ContainsFunc(name, func(f found) bool { return f.Type == format.TypeSpill }) {
			continue
		}
		versions, err := b.LiveVersions(newest.Hash, newest.LSN)
		if err != nil {
			return nil, err
		}
		for _, f := range name {
			if f.Type == format.TypeSpill && versions[f.LSN] {
				live = append(live, f)
			}
		}
	}
	return live, nil
}

// largeOf reads which large file a SPILL record names.
func (b *Bundle) largeOf(f *found) (uint64, error) {
	buffer, err := b.preadExactly(f.segment, f.Unit, int(f.Units)*format.UnitSize)
	if err != nil {
		return 0, err
	}
	defer buffer.Free()
	record, err := format.ParseRecord(buffer.B)
	if err != nil {
		return 0, err
	}
	return record.LargeID, nil
}
