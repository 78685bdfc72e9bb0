package bundle

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"

	"martlet/object-server/bundle/format"
	"martlet/object-server/bundle/index"
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
	if b.active == nil || !b.files.Reserve && !b.files.Direct {
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
		id: id, directory: files.directory(id), files: files, config: config,
		index: index.New(files.pages), nextSequence: 1, opened: openings.Add(1),
	}
}

// recover rebuilds the index. It returns what counts, sorted by name and LSN.
func (b *Bundle) recover() ([]found, error) {
	segments, err := b.list()
	if err != nil {
		return nil, err
	}
	r := recovery{bundle: b, expected: 1}
	if b.dirDurable { // a partition that was taken away by hand is not damaged
		r.floor = b.files.floor(b.id)
		r.proven = r.floor
	}
	segments = withRests(segments)
	for i := range segments {
		if err := r.segment(&segments[i], boundary(segments[i+1:])); err != nil {
			return nil, err
		}
	}
	err = r.finish()
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

// boundary finds the lowest base LSN of the later segments. That of a segment
// without header and without its first record is a guess, and may be too high.
func boundary(later []segmentFile) limit {
	bound := noLimit
	for _, s := range later {
		if s.isBlank() {
			continue
		}
		if s.base < bound.lsn || s.base == bound.lsn && s.exact() {
			bound = limit{lsn: s.base, sure: s.exact()}
		}
	}
	return bound
}

// segmentFile is what listing a bundle finds.
type segmentFile struct {
	sequence   uint32
	through    uint32 // last sequence that it stands for
	generation uint32
	size       int64
	salt       uint32
	base       uint64       // LSN of the first record
	start      int64        // offset of the first record
	headless   bool         // the header is damaged: the above is from the footer or from the first valid record
	unreadable bool         // and it lies, or what follows it, on bad sectors: it may have been good
	watermark  uint64       // highest one in the records of a headless segment
	seal       *format.Seal // nil without a footer
	inherited  bool         // made before the partition was split off: see Split

	// As the header says; zero where it is damaged.
	created uint64
	bundle  format.Identity
}

// isBlank tells whether nothing of the segment can be read that proves itself.
// Its records are lost, up to where the next segment starts.
func (s *segmentFile) isBlank() bool { return s.unreadable && s.base == 0 }

// lostBlank is the LSN behind the records that a blank segment may hold.
func (s *segmentFile) lostBlank(expected uint64, bound limit) uint64 {
	return max(expected, min(bound.lsn, expected+s.mayHold(s.size)))
}

// mayHold is how many LSNs so many bytes of the segment can stand for at most.
func (s *segmentFile) mayHold(bytes int64) uint64 { return mayHold(bytes, s.generation) }

// obscureSpan is more than the segments that a compacted one stands for.
const obscureSpan = 1 << 20

// isObscure tells whether it is not known which segments a compacted one stands for.
func (s *segmentFile) isObscure() bool { return s.generation > 0 && s.headless && s.seal == nil }

// blank is the segment as if nothing of it proved itself.
func (s *segmentFile) blank() segmentFile {
	return segmentFile{sequence: s.sequence, through: s.through, generation: s.generation, size: s.size, headless: true, unreadable: true}
}

// withRests adds a blank segment where the records of an obscure one may end. A crash
// may have left some of the segments that it replaced, and not the last one. A later
// segment without a footer was never compacted: what was replaced ends before it.
func withRests(segments []segmentFile) []segmentFile {
	all := slices.Clone(segments)
	for i := len(segments) - 1; i >= 0; i-- {
		end := i + 1
		for end < len(segments) && (segments[end].seal != nil || segments[end].headless) {
			end++
		}
		if segments[i].isObscure() && end > i+1 {
			all = slices.Insert(all, end, segments[i].blank())
		}
	}
	return all
}

// exact tells whether base is certain.
func (s *segmentFile) exact() bool {
	return !s.headless || s.seal != nil || s.start == format.SegmentHeaderSize
}

// isUnfinished tells whether a crash hit the segment while it was made, so that
// nothing of it was acknowledged.
func (s *segmentFile) isUnfinished(expected uint64, bound limit) bool {
	return s.headless && s.seal == nil && !s.unreadable && !bound.sure && s.watermark < expected && (!s.exact() || s.base == expected)
}

// origin is what its records have in common.
func (s *segmentFile) origin() origin { return origin{s.sequence, s.generation, s.salt, s.base} }

// end is where its records end: at the footer, or what a footer leaves room for.
func (s *segmentFile) end() int64 {
	if s.seal == nil {
		return s.size
	}
	if end := s.size - int64(s.seal.Units)*format.UnitSize; end >= format.SegmentHeaderSize {
		return end
	}
	return s.size
}

// walker reads its records, up to a limit. What a seal lists was durable before it
// was written.
func (s *segmentFile) walker(v window, bound limit) Walker {
	w := newWalker(v, s.origin(), place{s.start, s.base}, bound)
	if !s.headless {
		w.proven = s.base - 1
	}
	if s.seal != nil {
		w.proven, w.listed = s.seal.Last, int(s.seal.Count)
		w.limit = limit{lsn: min(bound.lsn, s.seal.Last+1), sure: true}
	}
	return w
}

// open is the segment, with nothing in it yet.
func (s *segmentFile) open() *segment {
	return &segment{
		sequence: s.sequence, through: s.through, generation: s.generation, salt: s.salt, base: s.base, last: s.base - 1,
		tail: s.start, resume: format.SegmentHeaderSize / format.UnitSize, covered: s.base - 1, damaged: s.headless && s.seal == nil,
		inherited: s.inherited,
	}
}

// list reads the directory and the header of each segment, in log order.
func (b *Bundle) list() ([]segmentFile, error) {
	entries, err := b.files.FS.ReadDir(b.directory)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("bundle: %w", err)
	}
	b.dirDurable = true
	var segments []segmentFile
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
		b.nextSequence = max(b.nextSequence, s.through+1)
		if s.isObscure() {
			b.nextSequence = max(b.nextSequence, s.sequence+obscureSpan)
		}
		if keep {
			segments = append(segments, s)
		}
	}
	slices.SortFunc(segments, func(x, y segmentFile) int {
		return cmp.Or(cmp.Compare(x.sequence, y.sequence), cmp.Compare(y.generation, x.generation))
	})
	b.identity = identityOf(b.id, segments)
	return b.dropReplaced(segments)
}

// dropReplaced leaves out what compaction has replaced and a crash kept it from
// removing, and removes it. The segments are in order, the newest generation of
// each first. One whose footer was damaged since it was made gives way to those
// that it replaced, if they are all still there.
func (b *Bundle) dropReplaced(segments []segmentFile) (kept []segmentFile, err error) {
	for len(segments) > 0 {
		newer, n := segments[0], 1
		for n < len(segments) && segments[n].sequence <= newer.through {
			n++
		}
		replaced := segments[1:n]
		if newer.isObscure() && len(replaced) > 0 { // it may stand for more than these
			b.distrust(&newer)
			kept, segments = append(kept, newer.blank()), segments[1:]
			continue
		}
		segments = segments[n:]
		if newer.seal == nil && len(replaced) > 0 {
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
			if newer.seal == nil { // opened without them it is damaged, and they may help to repair it
				break
			}
			if err := b.remove(format.SegmentName(s.sequence, s.generation)); err != nil {
				return nil, err
			}
		}
	}
	return kept, nil
}

// distrust reports a compacted segment that should have a footer.
func (b *Bundle) distrust(s *segmentFile) {
	text := fmt.Sprintf("%s segment %08x: generation %d has no footer", b.directory, s.sequence, s.generation)
	b.report.Damaged = append(b.report.Damaged, text)
	b.report.Extents = append(b.report.Extents, Damage{Segment: format.SegmentName(s.sequence, s.generation), Cause: text})
}

// isCovered tells whether the older segments are all that this one stands for.
func (s *segmentFile) isCovered(older []segmentFile) bool {
	next := s.sequence
	for i := range older {
		if older[i].sequence > next {
			return false
		}
		next = max(next, older[i].through+1)
	}
	return next > s.through
}

// inspect reads header and seal of a segment. keep is false if the file is too
// short to hold a record. It is removed then, unless it cannot be read.
func (b *Bundle) inspect(key fileKey) (s segmentFile, keep bool, err error) {
	s.sequence, s.through, s.generation = key.sequence, key.sequence, key.generation
	s.inherited = key.Power > 0 // unless its header says that it is not
	file, err := b.files.get(key)
	if err != nil {
		return s, false, err
	}
	defer file.release()
	if s.size, err = file.Size(); err != nil {
		return s, false, fmt.Errorf("bundle: %w", err)
	}
	head, err := s.header(file)
	switch {
	case err == nil:
		refused := b.checkPlace(&head, key)
		if refused == nil {
			s.inherited = head.Power < key.Power
			return s, true, s.take(&head, file)
		}
		// A block that was written to the wrong place is damage; a file that was moved is not.
		salt, ok, err := tailSalt(file, s.size)
		if err != nil || !ok || salt == head.Salt() {
			return s, false, errors.Join(refused, err)
		}
		keep, err = s.rebuild(file)
		return s, keep, err
	case errors.Is(err, format.ErrUnsupported):
		return s, false, fmt.Errorf("%s: %w", b.files.path(key), err)
	case !format.IsDamage(err):
		return s, false, err
	case s.size <= format.SegmentHeaderSize && s.unreadable:
		return s, false, nil
	case s.size <= format.SegmentHeaderSize: // a crash while it was made
		return s, false, b.remove(format.SegmentName(key.sequence, key.generation))
	}
	keep, err = s.rebuild(file)
	return s, keep, err
}

// header reads the header of the file.
func (s *segmentFile) header(file *handle) (format.SegmentHeader, error) {
	buffer := make([]byte, min(format.SegmentHeaderSize, s.size))
	if err := readSpan(file, buffer, 0); err != nil {
		s.unreadable = errors.Is(err, format.ErrDamaged)
		return format.SegmentHeader{}, err
	}
	return format.ParseSegmentHeader(buffer)
}

// take notes what a good header says, and the seal that goes with it.
func (s *segmentFile) take(h *format.SegmentHeader, file *handle) error {
	s.salt, s.base, s.start = h.Salt(), h.BaseLSN, format.SegmentHeaderSize
	s.created, s.bundle = h.Created, h.Bundle
	s.through = max(s.through, h.Through)
	found, err := findSeal(file, s.size)
	if found != nil && found.Salt == s.salt && found.Base == s.base {
		s.seal = found
	}
	return err
}

// rebuild takes what the header would say from the footer, or from the first
// record that proves itself. keep is false if there is none, but for bad sectors: if
// records were lost, the gap to the next segment tells.
func (s *segmentFile) rebuild(file *handle) (keep bool, err error) {
	s.headless = true
	salt, salted, err := tailSalt(file, s.size)
	if err != nil {
		return false, err
	}
	if s.seal, err = findSeal(file, s.size); err != nil {
		return false, err
	}
	if s.seal != nil {
		s.start, s.salt, s.base, s.through = format.SegmentHeaderSize, s.seal.Salt, s.seal.Base, max(s.through, s.seal.Through)
		return true, nil
	}
	v := newWindow(file, s.size)
	defer v.free()
	seek := search{window: &v, end: s.size, limit: noLimit.lsn, salt: salt, salted: salted}
	if err := seek.run(0, 0); err != nil {
		return false, err
	}
	s.unreadable = s.unreadable || v.holes.behind(0)
	if !seek.found {
		return s.unreadable, nil
	}
	s.salt, s.base, s.start = seek.salt, seek.place.lsn, seek.place.offset
	s.watermark = seek.watermark
	return true, nil
}

// checkPlace refuses a segment that was moved or renamed by hand.
func (b *Bundle) checkPlace(h *format.SegmentHeader, key fileKey) error {
	if int(h.Policy) == key.Policy && h.Sequence == key.sequence && h.Generation == key.generation && key.descends(h) {
		return nil
	}
	return fmt.Errorf("%w: %s belongs to policy %d, partition %d of part power %d, sequence %d, generation %d", format.ErrUnsupported,
		b.files.path(key), h.Policy, h.Partition, h.Power, h.Sequence, h.Generation)
}

// readFull reads exactly p at the offset; io.ErrUnexpectedEOF past the end.
func readFull(r io.ReaderAt, p []byte, offset int64) error {
	n, err := r.ReadAt(p, offset)
	if n == len(p) {
		return nil
	}
	if err == nil || err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return err
}
