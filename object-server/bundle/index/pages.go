package index

import (
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	pageSlots  = 64 // 512 bytes: with larger pages small tables miss 10 bytes an object
	pageSize   = pageSlots * 8
	chunkSize  = 1 << 20
	chunkPages = chunkSize / pageSize
)

type (
	page  = [pageSlots]Slot
	chunk = [chunkPages]page
)

// Pool is the memory of a device's indexes. It lies outside the Go heap, so
// the garbage collector neither walks it nor waits with it for a heap of twice
// the size. Pages that are given back are used again, but go back to the system
// only with close. It is safe for concurrent use; get takes no lock.
type Pool struct {
	chunks atomic.Pointer[[]*chunk] // only ever grows

	mu    sync.Mutex
	fresh uint32 // pages from here on were never used
	spare uint32 // 1 + number of the first page given back; its first word is the next's. 0: none
	used  int
}

// NewPool returns a pool that has no memory yet.
func NewPool() *Pool {
	p := &Pool{}
	p.chunks.Store(new([]*chunk))
	return p
}

// get is the page of a number that alloc gave.
func (p *Pool) get(number uint32) *page {
	return &(*p.chunks.Load())[number/chunkPages][number%chunkPages]
}

// alloc fills the slice with the numbers of empty pages. It panics when the
// system has no memory, as the Go heap does.
func (p *Pool) alloc(numbers []uint32) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range numbers {
		numbers[i] = p.take()
		clear(p.get(numbers[i])[:])
	}
	p.used += len(numbers)
}

// take returns a page with arbitrary content. p.mu is held.
func (p *Pool) take() uint32 {
	if p.spare != 0 {
		number := p.spare - 1
		p.spare = uint32(p.get(number)[0])
		return number
	}
	if chunks := *p.chunks.Load(); int(p.fresh) == len(chunks)*chunkPages {
		memory, err := unix.Mmap(-1, 0, chunkSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
		if err != nil {
			panic(fmt.Errorf("memory for the index: %w", os.NewSyscallError("mmap", err)))
		}
		// A reader of the old slice does not see the new element behind its end.
		chunks = append(chunks, (*chunk)(unsafe.Pointer(unsafe.SliceData(memory))))
		p.chunks.Store(&chunks)
	}
	p.fresh++
	return p.fresh - 1
}

// release gives pages back.
func (p *Pool) release(numbers []uint32) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, number := range numbers {
		p.get(number)[0] = Slot(p.spare)
		p.spare = number + 1
	}
	p.used -= len(numbers)
}

// Bytes is the size of the pages in use.
func (p *Pool) Bytes() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.used * pageSize
}

// Close gives all memory back to the system. No index of the pool may be used
// afterwards, not even freed.
func (p *Pool) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	chunks := *p.chunks.Load()
	p.chunks.Store(new([]*chunk))
	p.fresh, p.spare, p.used = 0, 0, 0
	var failed error
	for _, c := range chunks {
		if err := unix.Munmap(unsafe.Slice((*byte)(unsafe.Pointer(c)), chunkSize)); err != nil {
			failed = os.NewSyscallError("munmap", err)
		}
	}
	return failed
}
