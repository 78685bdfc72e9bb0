package bundle

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Open reads the log of a partition and rebuilds its index; a missing
// directory is an empty bundle. The caller has flushed the file system since
// the last process wrote to it, so that all that is read is durable. New
// segments will have at most segmentSize bytes.
func Open(files *Files, id ID, segmentSize int64) (*Bundle, error) {
	b := &Bundle{
		id: id, directory: files.directory(id), files: files, segmentSize: segmentSize,
		index: newIndex(), nextSequence: 1,
	}
	segments, err := b.list()
	if err != nil {
		return nil, err
	}
	r := recovery{bundle: b, expected: 1}
	for i := range segments {
		if err := r.segment(&segments[i], boundary(segments[i+1:])); err != nil {
			return nil, err
		}
	}
	if err := r.finish(); err != nil {
		return nil, err
	}
	return b, b.sweepLarge()
}

// limit is where a segment ends at the latest: the LSN its successors start with.
type limit struct {
	lsn  uint64
	sure bool // everything before it was durable, as a base LSN proves
}

// noLimit is the limit of the newest segment.
var noLimit = limit{lsn: math.MaxUint64}

// boundary finds the lowest base LSN of the later segments. That of a segment
// without header and without its first record is a guess, and may be too high.
func boundary(later []segmentFile) limit {
	bound := noLimit
	for _, s := range later {
		if s.base < bound.lsn || s.base == bound.lsn && s.exact() {
			bound = limit{lsn: s.base, sure: s.exact()}
		}
	}
	return bound
}

// segmentFile is what listing a bundle finds.
type segmentFile struct {
	sequence  uint32
	size      int64
	salt      uint32
	base      uint64 // LSN of the first record
	start     int64  // offset of the first record
	headless  bool   // the header is damaged: the above is from the first valid record
	watermark uint64 // highest one in the records of a headless segment
}

// exact tells whether base is certain.
func (s *segmentFile) exact() bool { return !s.headless || s.start == segmentHeaderSize }

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
		sequence, generation, ok := parseSegmentName(entry.Name())
		if !ok {
			continue
		}
		if generation != 0 {
			return nil, fmt.Errorf("%w: %s/%s", ErrUnsupported, b.directory, entry.Name())
		}
		b.nextSequence = max(b.nextSequence, sequence+1)
		s, keep, err := b.inspect(sequence)
		if err != nil {
			return nil, err
		}
		if keep {
			segments = append(segments, s)
		}
	}
	slices.SortFunc(segments, func(x, y segmentFile) int { return int(int64(x.sequence) - int64(y.sequence)) })
	return segments, nil
}

// inspect reads the header of a segment. keep is false if the file was removed
// because it is too short to hold a record.
func (b *Bundle) inspect(sequence uint32) (s segmentFile, keep bool, err error) {
	key := fileKey{b.id, sequence}
	file, err := b.files.get(key)
	if err != nil {
		return s, false, err
	}
	defer file.release()
	s.sequence = sequence
	if s.size, err = file.Size(); err != nil {
		return s, false, fmt.Errorf("bundle: %w", err)
	}
	buffer := make([]byte, min(segmentHeaderSize, s.size))
	if err := readFull(file, buffer, 0); err != nil {
		return s, false, fmt.Errorf("bundle: %w", err)
	}
	head, err := parseSegmentHeader(buffer)
	switch {
	case err == nil:
		s.salt, s.base, s.start = head.salt(), head.BaseLSN, segmentHeaderSize
		return s, true, b.checkPlace(&head, sequence)
	case errors.Is(err, ErrUnsupported):
		return s, false, fmt.Errorf("%s: %w", b.files.path(key), err)
	case s.size <= segmentHeaderSize: // a crash while it was made
		if err := b.files.FS.Remove(b.files.path(key)); err != nil {
			return s, false, fmt.Errorf("bundle: %w", err)
		}
		return s, false, nil
	}
	keep, err = s.rebuild(file)
	return s, keep, err
}

// rebuild takes what the header would say from the first record that proves
// itself. keep is false if there is none: if records were lost, the gap to the
// next segment tells.
func (s *segmentFile) rebuild(file *handle) (keep bool, err error) {
	seek := search{window: newWindow(file, s.size), limit: noLimit.lsn}
	defer seek.window.free()
	if err := seek.run(0, 0); err != nil || !seek.found {
		return false, err
	}
	s.headless = true
	s.salt, s.base, s.start = seek.salt, seek.first.lsn, seek.first.offset
	s.watermark = seek.watermark
	return true, nil
}

// checkPlace refuses a segment that was moved or renamed by hand.
func (b *Bundle) checkPlace(h *segmentHeader, sequence uint32) error {
	if h.Policy == uint32(b.id.Policy) && h.Partition == b.id.Partition && h.Sequence == sequence {
		return nil
	}
	return fmt.Errorf("%w: %s belongs to policy %d, partition %d, sequence %d", ErrUnsupported,
		b.files.path(fileKey{b.id, sequence}), h.Policy, h.Partition, h.Sequence)
}

// sweepLarge removes large files that no live record names: a crash left them
// between two steps of a write. A bundle with damage keeps all of them.
func (b *Bundle) sweepLarge() error {
	if !b.largeDurable || len(b.report.Damaged) > 0 {
		return nil
	}
	entries, err := b.files.FS.ReadDir(filepath.Join(b.directory, largeDirectory))
	if err != nil {
		return fmt.Errorf("bundle: %w", err)
	}
	named := make(map[uint64]bool)
	for _, e := range b.index.entries {
		if e.Type == TypeSpill {
			named[e.Large] = true
		}
	}
	for _, entry := range entries {
		if id, ok := parseLargeName(entry.Name(), "", largeSuffix); ok && !named[id] {
			b.RemoveLarge(id)
			b.report.LargeSwept++
		}
		if id, ok := parseLargeName(entry.Name(), ".", largeTempSuffix); ok {
			b.RemoveLargeTemp(id)
			b.report.LargeSwept++
		}
	}
	return nil
}

func parseLargeName(name, prefix, suffix string) (id uint64, ok bool) {
	stem, hasPrefix := strings.CutPrefix(name, prefix)
	stem, hasSuffix := strings.CutSuffix(stem, suffix)
	id, err := strconv.ParseUint(stem, 16, 64)
	return id, hasPrefix && hasSuffix && err == nil && len(stem) == 16
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
