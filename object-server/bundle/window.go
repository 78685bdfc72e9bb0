package bundle

import (
	"fmt"

	"martlet/object-server/bundle/buffers"
	"martlet/object-server/bundle/format"
)

const (
	windowSize = 256 << 10 // read at once
	aheadSize  = 1 << 20   // by one who reads on while he works
)

// window reads a file mostly forward, in large pieces. It is moved, not copied.
type window struct {
	file   *handle
	size   int64
	length int64 // how much is read at once, unless more is asked for
	offset int64 // of what the buffer holds
	buffer *buffers.Buffer
	read   []byte // what it holds, zeros where that cannot be read
	ahead  *ahead // nil: nothing is read before it is asked for
	holes  holes  // what was found unreadable so far
}

func newWindow(file *handle, size int64) window {
	return window{file: file, size: size, length: windowSize, buffer: buffers.Get(int(min(windowSize, size)))}
}

// newAheadWindow reads on in the background, behind what it was last asked for.
func newAheadWindow(file *handle, size int64) window {
	return window{file: file, size: size, length: aheadSize, buffer: buffers.Get(0), ahead: new(ahead)}
}

func (v *window) free() {
	if v.ahead != nil {
		v.ahead.wait()
		v.ahead.buffer.Free()
	}
	v.buffer.Free()
}

// at returns length bytes at the offset, valid until the next call; format.ErrDamaged
// if they would reach past the end, or cannot be read: see unreadableError.
func (v *window) at(offset int64, length int) ([]byte, error) {
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
func (v *window) fill(offset int64, length int) error {
	n := max(length, int(min(v.length, v.size-offset)))
	if cap(v.buffer.B) < n {
		v.buffer.Free()
		v.buffer = buffers.Get(n)
	}
	v.offset, v.read = offset, v.buffer.B[:n]
	err := v.holes.meet(offset, offset+int64(n))
	if err == nil {
		err = readFull(v.file, v.read, offset)
	}
	if isBadSector(err) {
		err = v.holes.read(v.file, v.read, offset)
	}
	if err != nil {
		v.read = nil
	}
	return wrap(err)
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
func (a *ahead) start(file *handle, offset, size int64) {
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
		a.err = readFull(file, a.buffer.B[aheadRoom:], offset)
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
func (v *window) take(offset int64, length int) bool {
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
