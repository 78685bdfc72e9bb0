package main

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// order is a random choice of the objects that rounds 0 to round have stored.
func (s *settings) order(round int) []int {
	return rand.New(rand.NewPCG(7, uint64(round))).Perm((round + 1) * s.objects)[:s.objects]
}

// bareLoop appends to as many files as there are partitions and preads from
// them: what the device and the system calls cost without an engine. All writers
// share each flush, which is one syncfs.
type bareLoop struct {
	settings *settings
	root     *os.File
	files    []*os.File
	tails    []atomic.Int64
	placed   [][]int64 // by round, then object: file and offset as one number
}

func newBareLoop(s *settings) (*bareLoop, error) {
	directory := filepath.Join(s.dir, "bare")
	if err := os.Mkdir(directory, 0o755); err != nil {
		return nil, err
	}
	root, err := os.Open(directory)
	if err != nil {
		return nil, err
	}
	b := &bareLoop{settings: s, root: root, tails: make([]atomic.Int64, s.partitions)}
	for i := range s.partitions {
		f, err := os.Create(filepath.Join(directory, fmt.Sprint(i)))
		if err != nil {
			b.close()
			return nil, err
		}
		b.files = append(b.files, f)
	}
	return b, nil
}

func (b *bareLoop) close() {
	for _, f := range b.files {
		_ = f.Close()
	}
	_ = b.root.Close()
}

// put appends, one object of each writer at a time, and flushes.
func (b *bareLoop) put(round int) error {
	s := b.settings
	b.placed = append(b.placed, make([]int64, s.objects))
	flush := newBarrier(s.writers, func() error { return unix.Syncfs(int(b.root.Fd())) })
	var all sync.WaitGroup
	errs := make([]error, s.writers)
	for w := range s.writers {
		all.Add(1)
		go func() {
			defer all.Done()
			for first := 0; first < s.objects; first += s.writers {
				if i := first + w; i < s.objects {
					errs[w] = errors.Join(errs[w], b.append(round, i))
				}
				errs[w] = errors.Join(errs[w], flush.wait())
			}
		}()
	}
	all.Wait()
	return errors.Join(errs...)
}

func (b *bareLoop) append(round, i int) error {
	s := b.settings
	at := s.place(nameOf(round*s.objects + i))
	size := int64(s.size)
	offset := b.tails[at.Partition].Add(size) - size
	b.placed[round][i] = offset*int64(s.partitions) + int64(at.Partition)
	_, err := b.files[at.Partition].WriteAt(s.body(i), offset)
	return err
}

func (b *bareLoop) get(round int) error {
	s := b.settings
	order := s.order(round)
	buffers := sync.Pool{New: func() any { p := make([]byte, s.size); return &p }}
	return parallel(s.writers, s.objects, func(i int) error {
		place := b.placed[order[i]/s.objects][order[i]%s.objects]
		p := buffers.Get().(*[]byte)
		defer buffers.Put(p)
		_, err := b.files[place%int64(s.partitions)].ReadAt(*p, place/int64(s.partitions))
		return err
	})
}

// barrier lets n goroutines wait for each other, and the last one do something
// for all.
type barrier struct {
	mu      sync.Mutex
	all     sync.Cond
	n, here int
	turn    int
	do      func() error
	err     error
}

func newBarrier(n int, do func() error) *barrier {
	b := &barrier{n: n, do: do}
	b.all.L = &b.mu
	return b
}

func (b *barrier) wait() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	turn := b.turn
	if b.here++; b.here == b.n {
		b.err = b.do()
		b.here = 0
		b.turn++
		b.all.Broadcast()
	}
	for turn == b.turn {
		b.all.Wait()
	}
	return b.err
}

// filePerObject stores each object in a file of its own, as Swift and others
// do: temporary file, fsync, rename, fsync of the directory.
type filePerObject struct {
	settings *settings
	root     string
}

func newFilePerObject(s *settings) (*filePerObject, error) {
	f := &filePerObject{settings: s, root: filepath.Join(s.dir, "files")}
	for i := range s.partitions {
		if err := os.MkdirAll(filepath.Join(f.root, fmt.Sprint(i)), 0o755); err != nil {
			return nil, err
		}
	}
	return f, nil
}

func (f *filePerObject) path(i int) (directory, name string) {
	at := f.settings.place(nameOf(i))
	return filepath.Join(f.root, fmt.Sprint(at.Partition)), fmt.Sprintf("%x.data", at.Hash)
}

func (f *filePerObject) put(round int) error {
	s := f.settings
	return parallel(s.writers, s.objects, func(i int) error { return f.store(round*s.objects + i) })
}

func (f *filePerObject) store(i int) error {
	directory, name := f.path(i)
	temporary, err := os.CreateTemp(directory, ".tmp-")
	if err != nil {
		return err
	}
	defer temporary.Close()
	if _, err := temporary.Write(f.settings.body(i)); err != nil {
		return err
	}
	if err := temporary.Sync(); err != nil {
		return err
	}
	if err := os.Rename(temporary.Name(), filepath.Join(directory, name)); err != nil {
		return err
	}
	parent, err := os.Open(directory)
	if err != nil {
		return err
	}
	defer parent.Close()
	return parent.Sync()
}

func (f *filePerObject) get(round int) error {
	s := f.settings
	order := s.order(round)
	return parallel(s.writers, s.objects, func(i int) error {
		directory, name := f.path(order[i])
		file, err := os.Open(filepath.Join(directory, name))
		if err != nil {
			return err
		}
		defer file.Close()
		_, err = io.Copy(io.Discard, file)
		return err
	})
}
