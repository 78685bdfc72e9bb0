package bundle

import (
	"errors"
	"fmt"

	"martlet/object-server/bundle/buffers"
	"martlet/object-server/bundle/format"
	"martlet/object-server/bundle/segment"
	"martlet/object-server/vfs"
)

// frontierStep is how far the frontier of a recycled segment may be ahead of its
// records.
const frontierStep = 1 << 20

// life is what a segment knows that lies in a recycled file.
type life struct {
	head     format.SegmentHeader
	capacity int64 // bytes of the file that records may take
	frontier int64 // no record lies behind it
}

// newLife is that of a segment found in a recycled file; nil of any other.
func newLife(s *SegmentFile) *life {
	if s.Capacity == 0 {
		return nil
	}
	return &life{head: s.Head, capacity: s.Capacity, frontier: s.Size}
}

// step is how far the frontier is moved at once.
func (l *life) step() int64 {
	return max(min(frontierStep, l.capacity/8/segment.BlockSize*segment.BlockSize), segment.BlockSize)
}

// ahead is a frontier that leaves room for records up to the end.
func (l *life) ahead(end int64) int64 {
	return min((end+segment.BlockSize-1)/segment.BlockSize*segment.BlockSize+l.step(), l.capacity)
}

// recycle makes a segment of a file of the pool: both headers are durable before
// it gets its name. nil if there is no file that suits.
func (f *Files) recycle(key fileKey, head format.SegmentHeader, least, wanted int64) (*handle, *life, error) {
	if f.pool == nil || !f.Direct {
		return nil, nil, nil
	}
	for {
		e, ok := f.pool.take(least+format.SegmentHeaderSize, wanted)
		if !ok {
			return nil, nil, nil
		}
		file, err := f.FS.Open(f.pool.path(e.number))
		if err != nil {
			continue
		}
		l := &life{head: head, capacity: e.capacity}
		err = l.begin(file)
		if err == nil {
			err = f.FS.Link(file, f.path(key))
		}
		f.pool.remove(e.number)
		if err == nil {
			return f.add(key, file), l, nil
		}
		_ = file.Close() // nothing in it counts
		if !errors.Is(err, errShared) {
			return nil, nil, fmt.Errorf("bundle: %w", err)
		}
	}
}

// begin makes an empty segment of the file.
func (l *life) begin(file vfs.File) error {
	if sole, err := file.Sole(); err != nil || !sole || !isDirect(file) {
		return errors.Join(err, errShared)
	}
	l.head.Flags |= format.FlagRecycled
	l.frontier = l.ahead(format.SegmentHeaderSize)
	if err := writeSector(file, l.head.Encode(), 0); err != nil {
		return err
	}
	if err := l.note(file, l.frontier); err != nil {
		return err
	}
	isAnchored, err := file.Anchor()
	if err == nil && !isAnchored { // nothing is gained by it, and nothing is durable yet
		err = errShared
	}
	return err
}

// note writes the second header with a frontier.
func (l *life) note(file vfs.File, frontier int64) error {
	h := l.head
	h.Frontier = uint32(frontier / format.UnitSize)
	return writeSector(file, h.Encode(), l.capacity)
}

// writeSector writes past the page cache, unless the disk or the file has changed so
// that it cannot be done any more.
func writeSector(file vfs.File, p []byte, offset int64) error {
	buffer := buffers.Get(directBlock + vfs.DirectAlignment)
	defer buffer.Free()
	sector := vfs.Aligned(buffer.B)[:directBlock]
	clear(sector[copy(sector, p):])
	if !isDirect(file) {
		return file.Writev([][]byte{sector}, offset)
	}
	return file.WriteDirect(sector, offset)
}

// advance moves the frontier of a recycled segment ahead of the records that are about
// to be written. It may be durable with them as long as they do not pass the one before.
func (a *Appended) advance() error {
	l := a.bundle.active.life
	if l == nil {
		return nil
	}
	if _, err := a.file.Anchor(); err != nil {
		return fmt.Errorf("bundle: %w", err)
	}
	next := l.ahead(a.tail)
	if a.tail <= l.frontier-l.step()/2 || next <= l.frontier {
		return nil
	}
	if err := l.note(a.file, next); err != nil {
		return fmt.Errorf("bundle: %w", err)
	}
	if a.tail <= l.frontier {
		a.frontier = next
		return nil
	}
	if err := a.file.Datasync(); err != nil {
		return fmt.Errorf("bundle: %w", err)
	}
	l.frontier = next
	return nil
}

// isInPlace tells whether what was written is durable once the disk's write cache
// is flushed.
func (a *Appended) isInPlace(start, end int64) bool {
	l := a.bundle.active.life
	return l != nil && a.file.InPlace(start, end) && (a.frontier == 0 || a.file.InPlace(l.capacity, l.capacity+directBlock))
}
