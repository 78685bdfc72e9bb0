package segment

import (
	"errors"
	"fmt"
	"io"

	"martlet/object-server/bundle/buffers"
	"martlet/object-server/bundle/format"
)

// WindowSize is the number of bytes that a reader of a whole segment reads at once.
const WindowSize = 256 << 10

// aheadSize is the number of bytes read at once by a reader that reads the next ones while
// the caller works on these.
const aheadSize = 1 << 20

// Window reads a file mostly forward, in large pieces. It is moved, not copied.
type Window struct {
	file   io.ReaderAt
	size   int64
	length int64 // how much is read at once, unless more is asked for
	offset int64 // of what the buffer holds
	buffer *buffers.Buffer
	read   []byte // what it holds, zeros where that cannot be read
	ahead  *ahead // nil: nothing is read before it is asked for
	holes  holes  // what was found unreadable so far

	isStale bool // bytes of an earlier life of the file may follow the records; the writer may cut them off
}

// NewWindow makes a window of a file, up to a size, that reads so many bytes at once.
// Close frees its buffer.
func NewWindow(file io.ReaderAt, size int64, length int) Window {
	return Window{file: file, size: size, length: int64(length), buffer: buffers.Get(int(min(int64(length), size)))}
}

// NewAheadWindow reads on in the background, behind what it was last asked for.
func NewAheadWindow(file io.ReaderAt, size int64) Window {
	return Window{file: file, size: size, length: aheadSize, buffer: buffers.Get(0), ahead: new(ahead)}
}

// Close ends what is read in the background and frees the buffer.
func (v *Window) Close() {
	if v.ahead != nil {
		v.ahead.wait()
		v.ahead.buffer.Free()
	}
	v.buffer.Free()
}

// File is what the window reads.
func (v *Window) File() io.ReaderAt { return v.file }

// At returns length bytes at the offset, valid until the next call; ErrDamaged
// if they would reach past the end, or cannot be read: see UnreadableError.
func (v *Window) At(offset int64, length int) ([]byte, error) {
	if offset+int64(length) > v.size {
		return nil, fmt.Errorf("%w: past the end", format.ErrDamaged)
	}
	if offset < v.offset || offset+int64(length) > v.offset+int64(len(v.read)) {
		if v.ahead == nil || !v.take(offset, length) {
			if err := v.fill(offset, length); err != nil {
				return nil, err
			}
		}
		if v.ahead != nil {
			v.ahead.start(v.file, v.offset+int64(len(v.read)), v.size)
		}
	}
	if err := v.holes.meet(offset, offset+int64(length)); err != nil {
		return nil, err
	}
	return v.read[offset-v.offset:][:length], nil
}

// fill reads at the offset.
func (v *Window) fill(offset int64, length int) error {
	n := max(length, int(min(v.length, v.size-offset)))
	if cap(v.buffer.B) < n {
		v.buffer.Free()
		v.buffer = buffers.Get(n)
	}
	v.offset, v.read = offset, v.buffer.B[:n]
	err := v.holes.meet(offset, offset+int64(n))
	if err == nil {
		err = ReadFull(v.file, v.read, offset)
	}
	if v.isStale && errors.Is(err, io.ErrUnexpectedEOF) {
		return v.cut(length)
	}
	if IsBadSector(err) {
		err = v.holes.read(v.file, v.read, offset)
	}
	if err != nil {
		v.read = nil
	}
	return wrap(err)
}

// cut ends the window where the file does, which was found shorter than it was.
func (v *Window) cut(length int) error {
	n, err := v.file.ReadAt(v.read, v.offset)
	if err != nil && err != io.EOF {
		v.read = nil
		return wrap(err)
	}
	v.size, v.read = v.offset+int64(n), v.read[:n]
	if n < length {
		return fmt.Errorf("%w: past the end", format.ErrDamaged)
	}
	return nil
}

// ahead is a read in the background. In its buffer there is room before the bytes
// for those that are still wanted of the window before.
type ahead struct {
	buffer *buffers.Buffer
	offset int64
	length int
	err    error
	done   chan struct{} // nil: none is under way
}

// aheadRoom is more than most records need.
const aheadRoom = 1 << 20

// start reads from the offset on.
func (a *ahead) start(file io.ReaderAt, offset, size int64) {
	a.offset, a.length = offset, int(min(aheadSize, size-offset))
	if a.length <= 0 {
		return
	}
	if a.buffer == nil || cap(a.buffer.B) < aheadRoom+aheadSize {
		a.buffer.Free()
		a.buffer = buffers.Get(aheadRoom + aheadSize)
	}
	a.buffer.B = a.buffer.B[:aheadRoom+a.length]
	a.done = make(chan struct{})
	go func() {
		a.err = ReadFull(file, a.buffer.B[aheadRoom:], offset)
		close(a.done)
	}()
}

// wait ends the read; false if there was none.
func (a *ahead) wait() bool {
	if a.done == nil {
		return false
	}
	<-a.done
	a.done = nil
	return true
}

// take makes what was read in the background the window, if it has what is asked
// for.
func (v *Window) take(offset int64, length int) bool {
	a := v.ahead
	if !a.wait() || a.err != nil {
		return false
	}
	kept := a.offset - offset // of the present window
	if kept < 0 || kept > aheadRoom || offset < v.offset || int64(length) > kept+int64(a.length) {
		return false
	}
	start := aheadRoom - int(kept)
	copy(a.buffer.B[start:], v.read[offset-v.offset:])
	v.buffer, a.buffer = a.buffer, v.buffer
	v.offset, v.read = offset, v.buffer.B[start:aheadRoom+a.length]
	return true
}

// padded tells whether nothing but the rest of a sector, in zeros, follows the
// offset: direct writes leave it behind the last record. What cannot be read is
// something else.
func (v *Window) padded(offset int64) (bool, error) {
	rest := v.size - offset
	if rest <= 0 || rest >= SectorSize || v.size%SectorSize != 0 {
		return false, nil
	}
	p, err := v.At(offset, int(rest))
	if errors.Is(err, format.ErrDamaged) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	for _, b := range p {
		if b != 0 {
			return false, nil
		}
	}
	return true, nil
}
