package bundle

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"martlet/object-server/bundle/format"
	"martlet/object-server/bundle/index"
	"martlet/object-server/bundle/segment"
)

// Open reads the log of a partition and rebuilds its index; a missing
// directory is an empty bundle. The caller has flushed the file system since
// the last process wrote to it, so that all that is read is durable.
func Open(files *Files, id ID, config Config) (*Bundle, error) {
	b := newBundle(files, id, config)
	entries, err := b.recover()
	if err != nil {
		return nil, err
	}
	b.upkeep.Store(true)
	b.trim()
	b.sweepLarge(entries)
	return b, nil
}

// trim gives back the room that an earlier process reserved ahead for the segment
// that grows: a full device may be short of it. If that fails the room stays.
func (b *Bundle) trim() {
	if b.active == nil || b.active.life != nil || !b.files.Reserve && !b.files.Direct {
		return
	}
	file, err := b.files.get(b.active.key(b.id))
	if err != nil {
		return
	}
	defer file.release()
	if size, err := file.Size(); err == nil {
		_ = file.Truncate(size)
	}
}

func newBundle(files *Files, id ID, config Config) *Bundle {
	return &Bundle{
		id: id, directory: files.Directory(id), files: files, config: config,
		index: index.New(files.pages), nextSequence: 1, opened: openings.Add(1),
	}
}

// recover rebuilds the index. It returns what counts, sorted by name and LSN.
func (b *Bundle) recover() ([]found, error) {
	segments, err := b.list()
	if err != nil {
		return nil, err
	}
	return b.replay(segments)
}

// replay is recover for segments that were listed.
func (b *Bundle) replay(segments []SegmentFile) ([]found, error) {
	r := recovery{bundle: b, expected: 1}
	if b.dirDurable { // a partition that was taken away by hand is not damaged
		r.floor = b.files.floor(b.id, b.identity)
		r.proven = r.floor
	}
	segments = withRests(segments)
	for i := range segments {
		if err := r.segment(&segments[i], Boundary(segments[i+1:])); err != nil {
			return nil, err
		}
	}
	err := r.finish()
	return r.entries, err
}

// remove takes a file away that means nothing, unless the bundle is only looked
// at.
func (b *Bundle) remove(name string) error {
	if b.readOnly {
		return nil
	}
	if err := b.files.FS.Remove(filepath.Join(b.directory, name)); err != nil {
		return fmt.Errorf("bundle: %w", err)
	}
	return nil
}

// Boundary finds the lowest base LSN of the later segments. That of a segment
// without header and without its first record is a guess, and may be too high.
func Boundary(later []SegmentFile) segment.Limit {
	bound := segment.NoLimit
	for _, s := range later {
		if s.IsBlank() {
			continue
		}
		if s.Base < bound.LSN || s.Base == bound.LSN && s.IsExact() {
			bound = segment.Limit{LSN: s.Base, Sure: s.IsExact()}
		}
	}
	return bound
}

// obscureSpan is more than the segments that a compacted one stands for.
const obscureSpan = 1 << 20

// withRests adds a blank segment where the records of an obscure one may end. A crash
// may have left some of the segments that it replaced, and not the last one; those may
// have been compacted before. The newest segment of all is not one of them where it has
// no footer and was never compacted: it still grows, and what was replaced ends before it.
// An older one without a footer may have lost it.
func withRests(segments []SegmentFile) []SegmentFile {
	all := slices.Clone(segments)
	end := len(segments)
	if end > 0 && segments[end-1].grows() {
		end--
	}
	for i := len(segments) - 1; i >= 0; i-- {
		rest := end
		if segments[i].Sequence == segments[len(segments)-1].Sequence { // the newest is an earlier generation of it
			rest = len(segments)
		}
		if segments[i].IsObscure() && rest > i+1 {
			all = slices.Insert(all, rest, SegmentFile{File: segments[i].Blank()})
		}
	}
	return all
}

// grows tells whether records may still be appended to the segment.
func (s *SegmentFile) grows() bool { return s.Seal == nil && !s.Headless && s.Generation == 0 }

// open is the segment, with nothing in it yet.
func (s *SegmentFile) open() *openSegment {
	return &openSegment{
		sequence: s.Sequence, through: s.Through, generation: s.Generation, salt: s.Salt, base: s.Base, last: s.Base - 1,
		tail: s.Start, resume: format.SegmentHeaderSize / format.UnitSize, covered: s.Base - 1, damaged: s.Headless && s.Seal == nil,
		inherited: s.Inherited, life: newLife(s),
	}
}

// list reads the directory and the header of each segment, in log order.
func (b *Bundle) list() ([]SegmentFile, error) {
	entries, err := b.files.FS.ReadDir(b.directory)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("bundle: %w", err)
	}
	if slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return e.Name() == droppedName }) {
		if b.readOnly {
			return nil, nil
		}
		return nil, b.files.Discard(b.id)
	}
	b.dirDurable = true
	var segments []SegmentFile
	for _, entry := range entries {
		b.largeDurable = b.largeDurable || entry.IsDir() && entry.Name() == largeDirectory
		if isCompactionTemp(entry.Name()) {
			if err := b.remove(entry.Name()); err != nil {
				return nil, err
			}
		}
		sequence, generation, ok := format.ParseSegmentName(entry.Name())
		if !ok {
			continue
		}
		s, keep, err := b.inspect(fileKey{b.id, sequence, generation})
		if err != nil {
			return nil, err
		}
		b.nextSequence = max(b.nextSequence, s.Through+1)
		if s.IsObscure() {
			b.nextSequence = max(b.nextSequence, s.Sequence+obscureSpan)
		}
		if keep {
			segments = append(segments, s)
		}
	}
	slices.SortFunc(segments, func(x, y SegmentFile) int {
		return cmp.Or(cmp.Compare(x.Sequence, y.Sequence), cmp.Compare(y.Generation, x.Generation))
	})
	b.identity = identityOf(b.id, segments)
	return b.dropReplaced(segments)
}

// dropReplaced leaves out what compaction has replaced and a crash kept it from
// removing, and removes it. The segments are in order, the newest generation of
// each first. One whose footer was damaged since it was made gives way to those
// that it replaced, if they are all still there.
func (b *Bundle) dropReplaced(segments []SegmentFile) (kept []SegmentFile, err error) {
	for len(segments) > 0 {
		newer, n := segments[0], 1
		for n < len(segments) && segments[n].Sequence <= newer.Through {
			n++
		}
		replaced := segments[1:n]
		if newer.IsObscure() && len(replaced) > 0 { // it may stand for more than these
			b.distrust(&newer)
			kept, segments = append(kept, SegmentFile{File: newer.Blank()}), segments[1:]
			continue
		}
		segments = segments[n:]
		if newer.Seal == nil && len(replaced) > 0 {
			b.distrust(&newer)
			if newer.isCovered(replaced) {
				if replaced, err = b.dropReplaced(replaced); err != nil {
					return nil, err
				}
				kept = append(kept, replaced...)
				continue
			}
		}
		kept = append(kept, newer)
		for _, s := range replaced {
			if newer.Seal == nil { // opened without them it is damaged, and they may help to repair it
				break
			}
			if err := b.remove(format.SegmentName(s.Sequence, s.Generation)); err != nil {
				return nil, err
			}
		}
	}
	return kept, nil
}

// distrust reports a compacted segment that should have a footer.
func (b *Bundle) distrust(s *SegmentFile) {
	text := fmt.Sprintf("%s segment %08x: generation %d has no footer", b.directory, s.Sequence, s.Generation)
	b.report.Damaged = append(b.report.Damaged, text)
	b.report.Extents = append(b.report.Extents, Damage{Segment: format.SegmentName(s.Sequence, s.Generation), Cause: text})
}

// isCovered tells whether the older segments are all that this one stands for.
func (s *SegmentFile) isCovered(older []SegmentFile) bool {
	next := s.Sequence
	for i := range older {
		if older[i].Sequence > next {
			return false
		}
		next = max(next, older[i].Through+1)
	}
	return next > s.Through
}

// inspect reads header and seal of a segment. keep is false if the file is too
// short to hold a record. It is removed then, unless it cannot be read.
func (b *Bundle) inspect(key fileKey) (s SegmentFile, keep bool, err error) {
	s.Sequence, s.Through, s.Generation = key.sequence, key.sequence, key.generation
	s.Inherited = key.Power > 0 // unless its header says that it is not
	file, err := b.files.get(key)
	if err != nil {
		return s, false, err
	}
	defer file.release()
	if s.Size, err = file.Size(); err != nil {
		return s, false, fmt.Errorf("bundle: %w", err)
	}
	head, err := s.ReadHeader(file)
	switch {
	case err == nil:
		refused := b.checkPlace(&head, key)
		if refused == nil {
			s.Inherited = head.Power < key.Power
			return s, true, s.Take(&head, file)
		}
		if s.Capacity > 0 { // stale bytes prove nothing, but the other header may
			if b.checkPlace(&s.Head, key) != nil {
				return s, false, refused
			}
			s.Inherited = s.Head.Power < key.Power
			return s, true, s.TakeSecond(file)
		}
		// A block that was written to the wrong place is damage; a file that was moved is not.
		salt, ok, err := segment.TailSalt(file, s.Size)
		if err != nil || !ok || salt == head.Salt() {
			return s, false, errors.Join(refused, err)
		}
		keep, err = s.Rebuild(file)
		return s, keep, err
	case errors.Is(err, format.ErrUnsupported):
		return s, false, fmt.Errorf("%s: %w", b.files.path(key), err)
	case !format.IsDamage(err):
		return s, false, err
	case s.Size <= format.SegmentHeaderSize && s.Unreadable:
		return s, false, nil
	case s.Size <= format.SegmentHeaderSize: // a crash while it was made
		return s, false, b.remove(format.SegmentName(key.sequence, key.generation))
	}
	keep, err = s.Rebuild(file)
	return s, keep, err
}

// checkPlace refuses a segment that was moved or renamed by hand.
func (b *Bundle) checkPlace(h *format.SegmentHeader, key fileKey) error {
	if int(h.Policy) == key.Policy && h.Sequence == key.sequence && h.Generation == key.generation && key.descends(h) {
		return nil
	}
	return fmt.Errorf("%w: %s belongs to policy %d, partition %d of part power %d, sequence %d, generation %d", format.ErrUnsupported,
		b.files.path(key), h.Policy, h.Partition, h.Power, h.Sequence, h.Generation)
}
