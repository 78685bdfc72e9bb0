// Command prewritten measures what small appends cost a block device, in blocks
// that were written before and in blocks that were only reserved.
//
// It appends records to files chosen by chance, past the page cache and in
// sectors, as bundle_sync_method = direct does, without the rest of the engine.
// Records come in groups; after each group all of it is durable. The file system
// needs a block device of its own, for example a loop device. It explains
// doc/decisions/0002-sharing-a-flush.md.
package main

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"text/tabwriter"
	"time"

	"golang.org/x/sys/unix"

	"martlet/object-server/bench/blockstat"
)

const (
	sector    = 512
	alignment = 4096
	// recordExtra is what a record has beside the object's bytes: header,
	// metadata, chunk table and padding.
	recordExtra = 256
)

// flush makes a group durable that was written to the files.
type flush struct {
	name string
	each bool // every write is durable by itself
	run  func(root int, files []*file) error
}

var flushes = []flush{
	{"syncfs", false, func(root int, _ []*file) error { return unix.Syncfs(root) }},
	// Where only bytes of written blocks change, the flush of the device is all that is left to do.
	{"one fdatasync", false, func(_ int, files []*file) error { return unix.Fdatasync(files[0].fd) }},
	{"RWF_DSYNC", true, func(int, []*file) error { return nil }},
}

type settings struct {
	dir                      string
	files, puts, size, group int
}

func main() {
	var s settings
	flag.StringVar(&s.dir, "dir", "", "work below this directory, on a block device of its own")
	flag.IntVar(&s.files, "files", 1024, "files, as there are partitions")
	flag.IntVar(&s.puts, "puts", 20000, "records of each run")
	flag.IntVar(&s.size, "size", 4096, "bytes of an object")
	flag.IntVar(&s.group, "group", 64, "records that are made durable together, each in another file")
	flag.Parse()
	if err := s.measure(); err != nil {
		fmt.Fprintln(os.Stderr, "prewritten:", err)
		os.Exit(1)
	}
}

func (s *settings) measure() error {
	if s.dir == "" || s.group <= 0 || s.files < s.group || s.puts < s.group {
		return errors.New("-dir is needed, and at least as many files and records as are in a group")
	}
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "blocks\tdurable by\tbytes per byte\twrites per PUT\tflushes per PUT\tPUT/s")
	for _, isWritten := range []bool{false, true} {
		for _, f := range flushes {
			// One fdatasync does not make the blocks of other files written.
			if !isWritten && f.name == "one fdatasync" {
				continue
			}
			if err := s.round(w, f, isWritten); err != nil {
				return err
			}
		}
	}
	return w.Flush()
}

// round measures one way of writing in a new directory.
func (s *settings) round(w *tabwriter.Writer, how flush, isWritten bool) (err error) {
	dir, err := os.MkdirTemp(s.dir, "martlet-prewritten-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	root, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return err
	}
	defer unix.Close(root) // only read from
	files, err := s.makeFiles(dir, isWritten)
	defer closeAll(files)
	if err != nil {
		return err
	}
	if err := unix.Syncfs(root); err != nil {
		return err
	}
	device, err := blockstat.Of(dir)
	if err != nil {
		return err
	}
	before, err := device.Read()
	if err != nil {
		return err
	}
	start := time.Now()
	for range s.puts / s.group {
		if err := s.putGroup(root, files, how); err != nil {
			return err
		}
	}
	took := time.Since(start)
	if err := unix.Syncfs(root); err != nil { // what was left to be written later counts as well
		return err
	}
	after, err := device.Read()
	if err != nil {
		return err
	}
	puts, done := float64(s.puts/s.group*s.group), after.Since(before)
	kind := map[bool]string{false: "reserved", true: "written before"}[isWritten]
	fmt.Fprintf(w, "%s\t%s\t%.2f\t%.2f\t%.3f\t%.0f\n", kind, how.name, float64(done.WrittenBytes)/puts/float64(s.size),
		float64(done.Writes)/puts, float64(done.Flushes)/puts, puts/took.Seconds())
	return nil
}

// putGroup appends a record to each file of a group, at the same time, and makes
// all of them durable.
func (s *settings) putGroup(root int, files []*file, how flush) error {
	rand.Shuffle(len(files), func(i, j int) { files[i], files[j] = files[j], files[i] })
	chosen := files[:s.group]
	failed := make([]error, len(chosen))
	var writers sync.WaitGroup
	for i, f := range chosen {
		writers.Add(1)
		go func() {
			defer writers.Done()
			failed[i] = f.put(s.size+recordExtra, how.each)
		}()
	}
	writers.Wait()
	if err := errors.Join(failed...); err != nil {
		return err
	}
	return how.run(root, chosen)
}

// file is a segment that grows. The last sector is kept in memory.
type file struct {
	fd      int
	tail    int
	partial []byte
}

// makeFiles makes the files with room for their share of records, and twice that.
func (s *settings) makeFiles(dir string, isWritten bool) (files []*file, err error) {
	room := (2*s.puts/s.files*(s.size+recordExtra)/alignment + 64) * alignment
	old := make([]byte, room)
	for i := range s.files {
		name := filepath.Join(dir, fmt.Sprint(i))
		if isWritten {
			if err := os.WriteFile(name, old, 0o600); err != nil {
				return files, err
			}
		}
		fd, err := unix.Open(name, unix.O_RDWR|unix.O_CREAT|unix.O_DIRECT, 0o600)
		if err != nil {
			return files, err
		}
		files = append(files, &file{fd: fd})
		if !isWritten {
			if err := unix.Fallocate(fd, unix.FALLOC_FL_KEEP_SIZE, 0, int64(room)); err != nil {
				return files, err
			}
		}
	}
	return files, nil
}

func closeAll(files []*file) {
	for _, f := range files {
		_ = unix.Close(f.fd)
	}
}

// put appends a record of so many bytes. What the first sector holds already is
// written again.
func (f *file) put(length int, isDurable bool) error {
	start := f.tail / sector * sector
	end := (f.tail + length + sector - 1) / sector * sector
	p, err := unix.Mmap(-1, 0, end-start, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE) // aligned
	if err != nil {
		return err
	}
	defer unix.Munmap(p) // nothing is left to do if it fails
	for i := copy(p, f.partial); i < f.tail+length-start; i++ {
		p[i] = byte(i)
	}
	flags := 0
	if isDurable {
		flags = unix.RWF_DSYNC
	}
	if _, err := unix.Pwritev2(f.fd, [][]byte{p}, int64(start), flags); err != nil {
		return err
	}
	f.tail += length
	f.partial = append(f.partial[:0], p[f.tail/sector*sector-start:f.tail-start]...)
	return nil
}
