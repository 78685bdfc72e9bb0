package segment

import (
	"errors"
	"io"

	"martlet/object-server/bundle/format"
	"martlet/object-server/vfs"
)

// File is what is known of a segment file before its records are read: what its
// header and its footer say, or what takes the place of a damaged header.
type File struct {
	Origin
	Through    uint32       // last sequence that it stands for
	Size       int64        // bytes
	Start      int64        // offset of the first record
	Headless   bool         // the header is damaged: the rest is from the footer or from the first valid record
	Unreadable bool         // and it lies, or what follows it, on bad sectors: it may have been good
	watermark  uint64       // highest one in the records of a headless segment
	Seal       *format.Seal // nil without a footer

	Capacity int64                // of a recycled segment: bytes that records may take; Size is that up to its frontier. 0: of any other
	Worn     bool                 // one of its two headers is damaged: it gets no more records
	Head     format.SegmentHeader // of a recycled segment

	// As the header says; zero where it is damaged.
	Created uint64 // ticks
	Bundle  format.Identity
}

// IsBlank tells whether nothing of the segment can be read that proves itself.
// Its records are lost, up to where the next segment starts.
func (f *File) IsBlank() bool { return f.Unreadable && f.Base == 0 }

// LostBlank is the LSN behind the records that a blank segment may hold.
func (f *File) LostBlank(expected uint64, bound Limit) uint64 {
	return max(expected, min(bound.LSN, expected+mayHold(f.Size, f.Generation)))
}

// IsObscure tells whether it is not known which segments a compacted one stands for.
func (f *File) IsObscure() bool { return f.Generation > 0 && f.Headless && f.Seal == nil }

// Blank is the segment as if nothing of it proved itself.
func (f *File) Blank() File {
	return File{
		Origin:  Origin{Sequence: f.Sequence, Generation: f.Generation},
		Through: f.Through, Size: f.Size, Headless: true, Unreadable: true,
	}
}

// IsExact tells whether Base is certain. Otherwise it may be too high.
func (f *File) IsExact() bool {
	return !f.Headless || f.Seal != nil || f.Start == format.SegmentHeaderSize
}

// IsUnfinished tells whether a crash hit the segment while it was made, so that
// nothing of it was acknowledged. The expected LSN is the one behind the segment before.
func (f *File) IsUnfinished(expected uint64, bound Limit) bool {
	return f.Headless && f.Seal == nil && !f.Unreadable && !bound.Sure && f.watermark < expected &&
		(!f.IsExact() || f.Base == expected)
}

// End is where its records end: at the footer, if there is room for that in the file.
func (f *File) End() int64 {
	if f.Seal == nil {
		return f.Size
	}
	if end := f.Size - int64(f.Seal.Units)*format.UnitSize; end >= format.SegmentHeaderSize {
		return end
	}
	return f.Size
}

// Walk reads its records through a window that ends at End, up to a limit. What a
// footer lists was durable before the footer was written.
func (f *File) Walk(v Window, bound Limit) Walker {
	w := NewWalker(v, f.Origin, Place{f.Start, f.Base}, bound)
	w.window.isStale = f.Capacity > 0
	if !f.Headless {
		w.proven = f.Base - 1
	}
	if f.Seal != nil {
		w.proven, w.listed = f.Seal.Last, int(f.Seal.Count)
		w.limit = Limit{LSN: min(bound.LSN, f.Seal.Last+1), Sure: true}
	}
	return w
}

// ReadHeader reads the header of a file whose Size is set. ErrDamaged: there is none,
// or it is Unreadable; see Rebuild. ErrUnsupported: a later version wrote it. It notes
// nothing else: see Take.
func (f *File) ReadHeader(file io.ReaderAt) (format.SegmentHeader, error) {
	head, err := readHeader(file, 0, f.Size)
	f.Unreadable = IsBadSector(err)
	if IsRecycled(f.Size) && (errors.Is(err, format.ErrDamaged) || err == nil && head.Flags&format.FlagRecycled != 0) {
		return f.readSecond(file, head, err)
	}
	return head, err
}

// readHeader reads the header at an offset of a file of a size. ErrDamaged: there is
// none, or it cannot be read.
func readHeader(file io.ReaderAt, offset, size int64) (format.SegmentHeader, error) {
	b := make([]byte, min(format.SegmentHeaderSize, size-offset))
	if err := ReadSpan(file, b, offset); err != nil {
		return format.SegmentHeader{}, err
	}
	return format.ParseSegmentHeader(b)
}

// ReadFile reads header and footer of a segment file by itself, or what takes the place
// of a damaged header, which is nil then.
func ReadFile(file vfs.File, name string) (f File, head *format.SegmentHeader, err error) {
	f.Sequence, f.Generation, _ = format.ParseSegmentName(name)
	f.Through = f.Sequence
	if f.Size, err = file.Size(); err != nil {
		return f, nil, wrap(err)
	}
	h, err := f.ReadHeader(file)
	if err == nil {
		f.Sequence, f.Generation, f.Through = h.Sequence, h.Generation, h.Sequence
		return f, &h, f.Take(&h, file)
	}
	if !errors.Is(err, format.ErrDamaged) {
		return f, nil, err
	}
	_, err = f.Rebuild(file)
	return f, nil, err
}

// Take notes what a good header says, and the footer that goes with it.
func (f *File) Take(h *format.SegmentHeader, file io.ReaderAt) error {
	f.Salt, f.Base, f.Start = h.Salt(), h.BaseLSN, format.SegmentHeaderSize
	f.Created, f.Bundle = h.Created, h.Bundle
	f.Through = max(f.Through, h.Through)
	if f.Capacity > 0 { // with a footer it would have been cut
		return nil
	}
	found, err := FindSeal(file, f.Size)
	if found != nil && found.Salt == f.Salt && found.Base == f.Base {
		f.Seal = found
	}
	return err
}

// Rebuild takes what the header would say from the footer, or from the first
// record that proves itself. keep is false if there is none, but for bad sectors: if
// records were lost, the gap to the next segment tells.
func (f *File) Rebuild(file io.ReaderAt) (keep bool, err error) {
	f.Headless = true
	if f.Capacity > 0 { // anything found may be stale
		return true, nil
	}
	salt, salted, err := TailSalt(file, f.Size)
	if err != nil {
		return false, err
	}
	if f.Seal, err = FindSeal(file, f.Size); err != nil {
		return false, err
	}
	if f.Seal != nil {
		f.Start, f.Salt, f.Base, f.Through = format.SegmentHeaderSize, f.Seal.Salt, f.Seal.Base, max(f.Through, f.Seal.Through)
		return true, nil
	}
	v := NewWindow(file, f.Size, WindowSize)
	defer v.Close()
	seek := search{window: &v, end: f.Size, limit: NoLimit.LSN, salt: salt, salted: salted}
	if err := seek.run(0, 0); err != nil {
		return false, err
	}
	f.Unreadable = f.Unreadable || v.holes.behind(0)
	if !seek.found {
		return f.Unreadable, nil
	}
	f.Salt, f.Base, f.Start = seek.salt, seek.place.LSN, seek.place.Offset
	f.watermark = seek.watermark
	return true, nil
}
