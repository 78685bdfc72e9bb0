package segment

import (
	"errors"
	"io"

	"martlet/object-server/bundle/format"
)

// A recycled segment lies in a file that was another segment before, so stale bytes
// follow its records: doc/formats/bundle.md, "Recycled segments".

// RecycledTail is how many bytes of a recycled file lie behind those for records: the
// sector with the second header, and half a unit, by which the file is known.
const RecycledTail = SectorSize + format.UnitSize/2

// IsRecycled tells whether a file of that length is recycled: all others consist of
// whole units.
func IsRecycled(length int64) bool { return length%BlockSize == RecycledTail && length > BlockSize }

// RecycledCapacity is how many bytes a file of that length has for records, once it
// is recycled; 0 or less if it is too short.
func RecycledCapacity(length int64) int64 { return length/BlockSize*BlockSize - BlockSize }

// readSecond reads the second header of a recycled segment, of which the first has been
// read, or was found damaged.
func (f *File) readSecond(file io.ReaderAt, head format.SegmentHeader, damage error) (format.SegmentHeader, error) {
	f.Capacity = f.Size - RecycledTail
	second, err := readHeader(file, f.Capacity, f.Size)
	if err != nil && !errors.Is(err, format.ErrDamaged) {
		return head, err
	}
	isGood := err == nil && second.Flags&format.FlagRecycled != 0 && (damage != nil || second.UUID == head.UUID)
	f.Size, f.Worn = f.Capacity, damage != nil || !isGood
	switch {
	case err == nil && damage == nil && !isGood: // one of them is another segment's
		f.Head = second
		return head, nil
	case isGood:
		f.Unreadable = false
		f.Size = min(max(int64(second.Frontier)*format.UnitSize, format.SegmentHeaderSize), f.Capacity)
	case damage != nil: // nothing tells of which life the records are
		f.Unreadable = true
		return head, damage
	}
	if second.Frontier = 0; damage != nil {
		head = second
	}
	f.Head = head
	return head, nil
}

// TakeSecond is Take where the first header, though good, is of another segment.
func (f *File) TakeSecond(file io.ReaderAt) error {
	f.Size = min(max(int64(f.Head.Frontier)*format.UnitSize, format.SegmentHeaderSize), f.Capacity)
	return f.Take(&f.Head, file)
}
