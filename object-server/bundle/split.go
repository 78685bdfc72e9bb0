package bundle

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"martlet/object-server/bundle/format"
	"martlet/object-server/bundle/segment"
)

// A partition is split in two when the part power of its ring is raised by one:
// partition p becomes 2p and 2p+1. Both get links to all segments and large
// files of p, none of which is changed any more. Of a segment that is
// inherited in this way only the records of names count that are the partition's
// own; the others are neither live nor dead here. Compaction separates
// them when it comes to the segment.
//
// Which power the partitions of a device are of is not for this package to know:
// ID says it.

// Children are the partitions that one becomes when it is split.
func (id ID) Children(power uint8) [2]ID {
	return [2]ID{{id.Policy, 2 * id.Partition, power}, {id.Policy, 2*id.Partition + 1, power}}
}

// Sibling is the other partition that was made by the same split; false if there
// was none.
func (id ID) Sibling() (ID, bool) {
	id.Partition ^= 1
	return id, id.Power > 0
}

// descends tells whether a segment with the header may be where it is: in its
// partition, or in one that was split off.
func (id ID) descends(h *format.SegmentHeader) bool {
	switch {
	case h.Power >= id.Power || id.Power == 0: // what is newer than the partition is only in its place if it says so
		return h.Partition == id.Partition
	case h.Power > 0:
		return h.Partition == id.Partition>>(id.Power-h.Power)
	}
	for partition := id.Partition >> 1; ; partition >>= 1 { // a power that was not written down
		if partition == h.Partition {
			return true
		}
		if partition == 0 {
			return false
		}
	}
}

// owns tells whether a record of a segment counts in this partition.
func (b *Bundle) owns(s *openSegment, hash format.Hash) bool { return !s.inherited || b.id.Owns(hash) }

// Owns tells whether a name is of the partition.
func (id ID) Owns(hash format.Hash) bool { return hash.Bits(id.Power) == id.Partition }

// own is the part of a segment's run, sorted by hash, that counts in this
// partition.
func (b *Bundle) own(s *openSegment, run []format.Entry) []format.Entry {
	from, to := b.ownRange(s, run)
	return run[from:to]
}

func (b *Bundle) ownRange(s *openSegment, run []format.Entry) (from, to int) {
	if !s.inherited {
		return 0, len(run)
	}
	before := func(e format.Entry, partition uint64) int {
		if uint64(e.Hash.Bits(b.id.Power)) < partition {
			return -1
		}
		return 1
	}
	from, _ = slices.BinarySearchFunc(run, uint64(b.id.Partition), before)
	to, _ = slices.BinarySearchFunc(run, uint64(b.id.Partition)+1, before)
	return from, to
}

// Retire makes the bundle forget all it knows: another one has taken its place.
// Nothing may be appended any more, and a read through it finds nothing. What
// has been read stays.
func (b *Bundle) Retire() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.retired = true
	b.index.Free()
	for _, s := range b.segments.table {
		if s == nil {
			continue
		}
		if s.filter != nil {
			s.filter.Free()
		}
		b.files.forget(s.key(b.id))
	}
	b.active, b.damaged, b.superseded = nil, nil, nil
}

// Retired tells whether the bundle was replaced.
func (b *Bundle) Retired() bool {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return b.retired
}

// Close ends the segment that grows and gives all that can have one a footer, so
// that no file of the bundle changes any more but by compaction, and takes away
// what was never acknowledged. The caller keeps all others from appending, and is
// the caretaker.
func (b *Bundle) Close() error {
	b.close()
	for ; len(b.void) > 0; b.void = b.void[1:] { // no successor tells others that they mean nothing
		b.files.forget(b.void[0])
		if err := b.files.FS.Remove(b.files.path(b.void[0])); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("bundle: %w", err)
		}
	}
	return b.Seal()
}

// Named counts the records with a name in all segments, dead or alive.
func (b *Bundle) Named() (records int) {
	b.mu.RLock()
	defer b.mu.RUnlock()
	for _, s := range b.segments.table {
		if s != nil && !s.hidden {
			records += s.named
		}
	}
	return records
}

// Holds tells whether the directory of a partition has anything of a bundle in it.
func (f *Files) Holds(id ID) (bool, error) {
	names, err := f.contents(id)
	return len(names) > 0, err
}

// contents lists what a bundle consists of, as paths below its directory: its
// segments and its large files.
func (f *Files) contents(id ID) ([]string, error) {
	var all []string
	for _, kind := range []struct {
		directory string
		isOurs    func(name string) bool
	}{
		{"", func(name string) bool { _, _, ok := format.ParseSegmentName(name); return ok || isCompactionTemp(name) }},
		{largeDirectory, func(name string) bool { _, ok := parseLargeName(name, "", largeSuffix); return ok }},
	} {
		entries, err := f.FS.ReadDir(filepath.Join(f.Directory(id), kind.directory))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("bundle: %w", err)
		}
		for _, entry := range entries {
			if kind.isOurs(entry.Name()) {
				all = append(all, filepath.Join(kind.directory, entry.Name()))
			}
		}
	}
	return all, nil
}

// Share links all files of a bundle into the directory of another, which it
// makes. What was linked before and is gone from the bundle since is removed, so
// it may be called while the bundle is in use, and again when it is not any more.
// Nothing is durable before SyncAll.
func (f *Files) Share(from, to ID) error {
	names, err := f.contents(from)
	if err != nil {
		return err
	}
	before, err := f.contents(to)
	if err != nil {
		return err
	}
	for _, name := range before {
		if isLargePath(name) || slices.Contains(names, name) { // large files may be very many; opening finds the large files that are of no use
			continue
		}
		if err := f.discard(to, name); err != nil {
			return err
		}
	}
	target := f.Directory(to)
	directories := []string{filepath.Dir(target), target} // a partition that is only about to be written to has no files
	if slices.ContainsFunc(names, isLargePath) {
		directories = append(directories, filepath.Join(target, largeDirectory))
	}
	for _, directory := range directories {
		if err := f.FS.Mkdir(directory); err != nil && !errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("bundle: %w", err)
		}
	}
	for _, name := range names {
		if isCompactionTemp(name) {
			continue
		}
		if err := f.link(filepath.Join(f.Directory(from), name), filepath.Join(target, name)); err != nil {
			return err
		}
	}
	return nil
}

func isLargePath(name string) bool { return strings.HasPrefix(name, largeDirectory+"/") }

// link gives a file a further name, unless it has that already. A file that is
// gone meanwhile was replaced by others; it may go between opening and linking.
func (f *Files) link(from, to string) error {
	file, err := f.FS.Open(from)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("bundle: %w", err)
	}
	defer file.Close() // only linked
	err = f.FS.Link(file, to)
	if err == nil || errors.Is(err, fs.ErrExist) {
		return nil
	}
	if errors.Is(err, fs.ErrNotExist) && f.isGone(from) {
		return nil
	}
	return fmt.Errorf("bundle: %w", err)
}

func (f *Files) isGone(name string) bool {
	file, err := f.FS.Open(name)
	if err == nil {
		_ = file.Close() // only looked for
	}
	return errors.Is(err, fs.ErrNotExist)
}

// SyncAll makes the names of a bundle's files durable, and that of its directory,
// as far as they are there.
func (f *Files) SyncAll(id ID) error {
	directory := f.Directory(id)
	for _, d := range []string{filepath.Join(directory, largeDirectory), directory, filepath.Dir(directory), f.Root} {
		if err := f.FS.SyncDir(d); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("bundle: %w", err)
		}
	}
	return nil
}

// Discard removes all files of a bundle, durably, then the mark of Drop, and its
// directory if nothing else is in it. Temporary names of large files stay: uploads may be filling them.
func (f *Files) Discard(id ID) error {
	names, err := f.contents(id)
	if err != nil {
		return err
	}
	directory := f.Directory(id)
	for _, name := range names {
		if err := f.discard(id, name); err != nil {
			return err
		}
	}
	if _, err := f.FS.ReadDir(directory); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err := f.SyncAll(id); err != nil {
		return err
	}
	if err := f.FS.Remove(filepath.Join(directory, droppedName)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("bundle: %w", err)
	}
	for _, d := range []string{filepath.Join(directory, largeDirectory), directory} {
		entries, err := f.FS.ReadDir(d)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil && len(entries) > 0 {
			return nil
		}
		if err == nil {
			err = f.FS.Remove(d)
		}
		if err != nil {
			return fmt.Errorf("bundle: %w", err)
		}
		if err := f.FS.SyncDir(filepath.Dir(d)); err != nil {
			return fmt.Errorf("bundle: %w", err)
		}
	}
	return nil
}

// discard removes a file of a bundle. Another one may soon have its name, so it must
// not be found open.
func (f *Files) discard(id ID, name string) error {
	if sequence, generation, ok := format.ParseSegmentName(name); ok {
		f.forget(fileKey{id, sequence, generation})
	}
	if err := f.FS.Remove(filepath.Join(f.Directory(id), name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("bundle: %w", err)
	}
	return nil
}

// Sample returns the hash of one record in a partition, to tell which part power
// its number is of; false if there is none.
func (f *Files) Sample(id ID) (hash format.Hash, ok bool, err error) {
	names, err := f.contents(id)
	if err != nil {
		return hash, false, err
	}
	for _, name := range names {
		if _, _, isSegment := format.ParseSegmentName(name); !isSegment {
			continue
		}
		if hash, ok, err = f.firstHash(filepath.Join(f.Directory(id), name)); ok || err != nil {
			return hash, ok, err
		}
	}
	return hash, false, nil
}

func (f *Files) firstHash(path string) (hash format.Hash, ok bool, err error) {
	file, err := f.FS.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return hash, false, nil
	}
	if err != nil {
		return hash, false, fmt.Errorf("bundle: %w", err)
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	s, _, err := segment.ReadFile(file, filepath.Base(path))
	if err != nil || s.Base == 0 {
		return hash, false, err
	}
	w := s.Walk(segment.NewWindow(file, s.End(), segment.WindowSize), segment.NoLimit)
	defer w.Close()
	for {
		h, err := w.Read()
		switch {
		case err == nil && h.Type.Named():
			return h.Hash, true, nil
		case errors.Is(err, format.ErrDamaged):
			_, err = w.Skip()
		}
		if err == io.EOF || errors.Is(err, format.ErrUnsupported) { // of a later version: opening says so
			return hash, false, nil
		}
		if err != nil {
			return hash, false, err
		}
	}
}

// Inherit opens a bundle that Share has made, or is about to be taken over from
// the one that it is split off, and changes nothing. Adopt does what Open does
// beside: it must be called before the bundle is used, and when the other one will not
// be used again.
func Inherit(files *Files, id ID, config Config) (b *Bundle, adopt func() error, err error) {
	b = newBundle(files, id, config)
	b.readOnly = true
	entries, err := b.recover()
	if err != nil {
		b.Retire()
		return nil, nil, err
	}
	return b, func() error {
		b.readOnly = false
		b.upkeep.Store(true)
		b.sweepLarge(entries)
		return nil
	}, nil
}
