package buffers

import (
	"math/bits"
	"sync"
)

// Sizes of pooled buffers are powers of two between these; larger ones are left
// to the garbage collector.
const (
	bufferBitsMin = 10
	bufferBitsMax = 22
)

var bufferPools [bufferBitsMax + 1]sync.Pool

// Buffer is a reusable slice. It must not be used after Free.
type Buffer struct{ B []byte }

// Get returns a buffer whose B has the given length and arbitrary content.
func Get(length int) *Buffer {
	class := max(bits.Len(uint(max(length, 1)-1)), bufferBitsMin)
	if class > bufferBitsMax {
		return &Buffer{B: make([]byte, length)}
	}
	if b, ok := bufferPools[class].Get().(*Buffer); ok {
		b.B = b.B[:length]
		return b
	}
	return &Buffer{B: make([]byte, length, 1<<class)}
}

// Free gives the buffer back; nil is allowed.
func (b *Buffer) Free() {
	if b == nil {
		return
	}
	size := cap(b.B)
	class := bits.Len(uint(size) - 1)
	if size != 0 && size == 1<<class && class >= bufferBitsMin && class <= bufferBitsMax {
		bufferPools[class].Put(b)
	}
}

// Grow makes room for n more bytes behind the present length.
func (b *Buffer) Grow(n int) {
	if cap(b.B)-len(b.B) >= n {
		return
	}
	larger := Get(len(b.B) + n)
	larger.B = larger.B[:copy(larger.B, b.B)]
	b.B, larger.B = larger.B, b.B
	larger.Free()
}
