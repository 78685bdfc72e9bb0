package bundle

import (
	"fmt"

	"martlet/object-server/bundle/buffers"
	"martlet/object-server/bundle/segment"
	"martlet/object-server/vfs"
)

// directBlock is the unit of writes past the page cache. The last block of the
// log is written again with the next record, so a block must be what a disk
// writes as a whole: the sector that the format assumes.
const directBlock = 512

// Room is reserved in steps, so that most appends find blocks at hand, and a
// segment that grows takes little more than it holds: an eighth of it, within
// these bounds.
const (
	roomMin = 64 << 10
	roomMax = 1 << 20
)

// write puts the batch into the segment, behind its durable end.
func (a *Appended) write() error {
	if a.bundle.files.Direct && isDirect(a.file) {
		return a.writeDirect()
	}
	if a.bundle.files.Reserve {
		a.reserve(a.tail)
	}
	if err := a.advance(); err != nil {
		return err
	}
	return a.file.Writev(a.iovecs, a.tail-a.Bytes)
}

func isDirect(file vfs.File) bool {
	block := file.DirectBlock()
	return block > 0 && directBlock%block == 0
}

// reserve makes sure that there is room for the segment up to an end. Where it
// fails the write that follows tells.
func (a *Appended) reserve(end int64) {
	active := a.bundle.active
	if end <= active.reserved {
		return
	}
	if a.bundle.files.Scarce.Load() {
		active.reserved = end
		_ = a.file.Allocate(end)
		return
	}
	step := min(max(end/8/directBlock*directBlock, roomMin), roomMax)
	active.reserved = min(end+step, max(a.bundle.config.SegmentBytes, end))
	_ = a.file.Allocate(active.reserved)
}

// writeDirect writes whole blocks past the page cache, which would write whole
// pages. What the first block holds already is written again as it is; zeros
// follow the last record.
func (a *Appended) writeDirect() error {
	active := a.bundle.active
	offset := a.tail - a.Bytes
	start, end := offset/directBlock*directBlock, (a.tail+directBlock-1)/directBlock*directBlock
	buffer := buffers.Get(int(end-start) + vfs.DirectAlignment)
	defer buffer.Free()
	p := vfs.Aligned(buffer.B)[:end-start]
	old := p[:offset-start]
	if len(active.partial) == len(old) {
		copy(old, active.partial)
	} else if err := segment.ReadFull(a.file, old, start); err != nil { // the first append since the bundle was opened
		return fmt.Errorf("bundle: %w", err)
	}
	n := len(old)
	for _, b := range a.iovecs {
		n += copy(p[n:], b)
	}
	clear(p[n:])
	a.reserve(end)
	a.partial = append(a.partial[:0], p[a.tail/directBlock*directBlock-start:n]...)
	if err := a.advance(); err != nil {
		return err
	}
	if err := a.file.WriteDirect(p, start); err != nil {
		return err
	}
	a.inPlace = a.isInPlace(start, end)
	return nil
}
