package segment

import (
	"errors"
	"fmt"
	"io"

	"martlet/object-server/bundle/buffers"
	"martlet/object-server/bundle/format"
	"martlet/object-server/vfs"
)

// ReadSeal reads the footer of a segment file of the given size.
func ReadSeal(file io.ReaderAt, size int64, s *format.Seal) ([]format.Entry, []format.Sample, error) {
	length := int64(s.Units) * format.UnitSize
	if length > size-format.SegmentHeaderSize {
		return nil, nil, fmt.Errorf("%w: footer longer than its segment", format.ErrDamaged)
	}
	buffer := buffers.Get(int(length - format.HeaderSize))
	defer buffer.Free()
	if err := ReadSpan(file, buffer.B, size-length); err != nil {
		return nil, nil, err
	}
	run, samples, err := s.Check(buffer.B)
	if err != nil {
		return nil, nil, err
	}
	entries, err := format.ParseRun(nil, run, s.Base, size-length)
	return entries, format.ParseSamples(samples), err
}

// ReadFooter reads the run and the samples of a segment that must have a footer;
// ErrDamaged if there is none that is good.
func ReadFooter(file vfs.File) ([]format.Entry, []format.Sample, error) {
	size, err := file.Size()
	if err != nil {
		return nil, nil, wrap(err)
	}
	s, err := FindSeal(file, size)
	if err == nil && s == nil {
		err = fmt.Errorf("%w: footer", format.ErrDamaged)
	}
	if err != nil {
		return nil, nil, err
	}
	return ReadSeal(file, size, s)
}

// FindSeal reads the header at the end of a segment file; nil if there is none, or
// none that can be read.
func FindSeal(file io.ReaderAt, size int64) (*format.Seal, error) {
	if size < format.SegmentHeaderSize+format.HeaderSize {
		return nil, nil
	}
	var b [format.HeaderSize]byte
	if err := ReadSpan(file, b[:], size-format.HeaderSize); errors.Is(err, format.ErrDamaged) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	s, err := format.ParseSeal(b[:])
	if err != nil { // bytes of an object, torn, or of another version: the records themselves tell
		return nil, nil
	}
	return &s, nil
}

// TailSalt is the salt of the record, or the footer, that ends where the file
// does. It is the segment's own: what a client stored as bytes of an object is
// followed by that object's chunk table at least. A torn end has none.
func TailSalt(file io.ReaderAt, size int64) (salt uint32, ok bool, err error) {
	v := NewWindow(file, size, WindowSize)
	defer v.Close()
	var failed error
	err = searchBack(file, size, func(h *format.Header, at int64) bool {
		end := at + int64(h.Units)*format.UnitSize
		if h.Type == format.TypeSeal {
			end = at + format.HeaderSize
		}
		salt, ok = h.Salt, end == size
		if !ok {
			ok, failed = v.padded(end)
		}
		return ok || failed != nil
	})
	return salt, ok, errors.Join(err, failed)
}

// searchBack visits the headers in a file from its end on until visit returns
// true. Most are of records, some may be the bytes of an object. It leaves out what
// cannot be read.
func searchBack(file io.ReaderAt, size int64, visit func(h *format.Header, at int64) bool) error {
	buffer := buffers.Get(WindowSize)
	defer buffer.Free()
	var bad holes
	for end := size; end > format.SegmentHeaderSize; {
		start := max(end-WindowSize, 0) / format.UnitSize * format.UnitSize
		p := buffer.B[:min(WindowSize, size-start)]
		err := ReadFull(file, p, start)
		if IsBadSector(err) {
			err = bad.read(file, p, start)
		}
		if err != nil {
			return wrap(err)
		}
		for at := (len(p) - format.HeaderSize) / format.UnitSize * format.UnitSize; at >= 0; at -= format.UnitSize {
			if !format.IsHeader(p[at:]) {
				continue
			}
			if h, err := format.ParseHeader(p[at:]); err == nil && visit(&h, start+int64(at)) {
				return nil
			}
		}
		if start <= format.SegmentHeaderSize {
			break
		}
		end = start + format.HeaderSize // a header may lie across
	}
	return nil
}
