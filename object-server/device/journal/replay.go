package journal

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strconv"

	"martlet/object-server/bundle"
	"martlet/object-server/bundle/format"
	"martlet/object-server/vfs"
)

// Directory is where the files 0 and 1 of the journal lie, under the device.
const Directory = "journal"

func (c *Config) path(i int) string {
	return filepath.Join(c.Root, Directory, strconv.Itoa(i))
}

// reader reads the batches of one file in order.
type reader struct {
	file   vfs.File
	size   int64 // where to stop
	offset int64 // of the next batch
	salt   uint64
	number uint64 // of the batch before, 0 at the start
	damage bool   // a batch is missing before this one
}

// next returns the next batch, whose extents are in memory of their own;
// errNoBatch where there is none.
func (r *reader) next() (header, []bundle.Extent, error) {
	head, err := r.header(r.offset)
	if err == nil && r.number > 0 && (head.Salt != r.salt || head.Number != r.number+1) {
		err = errNoBatch // of an earlier round
	}
	if err != nil {
		return head, nil, err
	}
	body := make([]byte, head.Length-headerSize)
	if n, err := r.file.ReadAt(body, r.offset+headerSize); n < len(body) {
		return head, nil, fmt.Errorf("journal: %w", err)
	}
	r.salt, r.number = head.Salt, head.Number // even if the body is damaged: what follows may be whole
	r.offset += padded(int64(head.Length))
	extents, err := head.parseBody(body)
	return head, extents, err
}

// header reads a header whose batch fits into the file.
func (r *reader) header(offset int64) (header, error) {
	if offset+headerSize > r.size {
		return header{}, errNoBatch
	}
	var b [headerSize]byte
	if n, err := r.file.ReadAt(b[:], offset); n < len(b) {
		return header{}, fmt.Errorf("journal: %w", err)
	}
	head, err := parseHeader(b[:])
	if offset > 0 && errors.Is(err, format.ErrUnsupported) {
		err = errNoBatch // the first header is always ours; here may be bytes of an old object
	}
	if err == nil && offset+int64(head.Length) > r.size {
		err = errNoBatch
	}
	return head, err
}

// skip looks behind a bad place for a later batch of the same round. If there is
// one, what lies between was acknowledged and is damaged; if not, the bad place
// is the write that a crash interrupted.
func (r *reader) skip() (found bool, err error) {
	if r.number == 0 {
		return false, nil // without a salt nothing proves a batch
	}
	for offset := r.offset; offset < r.size; offset += block {
		head, err := r.header(offset)
		if err == nil && head.Salt == r.salt && head.Number > r.number {
			r.offset, r.number, r.damage = offset, head.Number-1, true
			return true, nil
		}
		if err != nil && !errors.Is(err, errNoBatch) {
			return false, err
		}
	}
	return false, nil
}

// each calls use for every batch of a file in order, and notes damage in the log.
func (c *Config) each(file vfs.File, use func(h header, e []bundle.Extent, damage bool) error) error {
	size, err := file.Size()
	if err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	r := reader{file: file, size: size}
	for {
		head, extents, err := r.next()
		switch {
		case err == nil:
			if err := use(head, extents, r.damage); err != nil {
				return err
			}
		case errors.Is(err, errNoBatch):
			at := r.offset
			if found, err := r.skip(); err != nil || !found {
				return err
			}
			c.Logger.Error("damaged batch in the journal", "device", c.Root, "offset", at, "next", r.offset)
		default:
			return err
		}
	}
}

// Replay writes the batches of an earlier process to their bundles, unless they
// are known to be durable there, and returns the number of the newest. Nothing
// is flushed: after a crash the same is done again. No bundle may be open.
func (c *Config) Replay() (newest uint64, err error) {
	var files [2]vfs.File
	var last [2]uint64
	var destaged uint64
	defer func() {
		for _, f := range files {
			if f != nil {
				_ = f.Close() // nothing was written
			}
		}
	}()
	for i := range files {
		files[i], err = c.FS.Open(c.path(i))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return 0, fmt.Errorf("journal: %w", err)
		}
		err = c.each(files[i], func(h header, _ []bundle.Extent, _ bool) error {
			last[i], destaged = max(last[i], h.Number), max(destaged, h.Destaged)
			return nil
		})
		if err != nil {
			return 0, err
		}
	}
	order := []int{0, 1}
	if last[0] > last[1] {
		order = []int{1, 0}
	}
	replayed := 0
	for _, i := range order {
		if last[i] <= destaged {
			continue
		}
		err = c.each(files[i], func(h header, extents []bundle.Extent, damage bool) error {
			if h.Number <= destaged {
				return nil
			}
			replayed++
			return restore(c.Files, extents, damage)
		})
		if err != nil {
			return 0, err
		}
	}
	if replayed > 0 {
		c.Logger.Info("journal replayed", "device", c.Root, "batches", replayed)
	}
	return max(last[0], last[1]), nil
}

// Open begins a journal anew, behind the batch number that Replay returned. The bundles
// are durable. The caller must Close it. A crash in here leaves the old journal, whose replay changes nothing,
// or files that do not yet have their size.
//
// A batch with the next number may be there, torn by a crash. Its number counts as used and destaged. Otherwise a
// later write to its file, torn as well, could complete it, and its replay would overwrite newer records.
func (c *Config) Open(newest uint64) (*Journal, error) {
	j := &Journal{
		config: *c, size: c.Bytes / 2 / block * block,
		wake: make(chan struct{}, 1), requests: make(chan chan error), stopping: make(chan struct{}), stopped: make(chan struct{}),
		number: newest + 1, destaged: newest + 1,
	}
	j.freed.L = &j.mu
	err := j.openFiles()
	if err == nil {
		j.rotate() // a salt of its own
		err = j.note()
	}
	if err == nil {
		j.directory, err = c.FS.OpenDir(c.Root)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("journal: %w", err), j.closeFiles())
	}
	go j.run()
	return j, nil
}

// openFiles opens both files, made anew unless they have the right size.
func (j *Journal) openFiles() error {
	c := &j.config
	for i := range j.files {
		f, err := c.FS.Open(c.path(i))
		if errors.Is(err, fs.ErrNotExist) {
			break
		}
		if err != nil {
			return err
		}
		j.files[i].File = f
		if size, err := f.Size(); err != nil || size != j.size {
			break
		}
		if i == len(j.files)-1 {
			return nil
		}
	}
	if err := errors.Join(j.closeFiles(), c.Remove()); err != nil {
		return err
	}
	directory := filepath.Join(c.Root, Directory)
	if err := c.FS.Mkdir(directory); err != nil {
		return err
	}
	for i := range j.files {
		f, err := c.FS.Create(c.path(i))
		if err != nil {
			return err
		}
		j.files[i].File = f
		if err := zero(f, j.size); err != nil {
			return err
		}
	}
	if err := c.FS.SyncDir(directory); err != nil {
		return err
	}
	return c.FS.SyncDir(c.Root)
}

// zero gives a file its size once and for all, with blocks that are written, so
// that no later flush has to change what the file system knows of it.
func zero(f vfs.File, size int64) error {
	if err := f.Allocate(size); err != nil {
		return err
	}
	zeros := make([]byte, min(size, 1<<20))
	for offset := int64(0); offset < size; offset += int64(len(zeros)) {
		if err := f.Writev([][]byte{zeros[:min(size-offset, int64(len(zeros)))]}, offset); err != nil {
			return err
		}
	}
	return f.Datasync()
}

func (j *Journal) closeFiles() error {
	var errs []error
	for i := range j.files {
		if f := j.files[i].File; f != nil {
			errs = append(errs, f.Close())
			j.files[i].File = nil
		}
	}
	return errors.Join(errs...)
}

// Remove takes the journal away, for good before it returns: files that
// came back after a crash would be replayed. The bundles are durable.
func (c *Config) Remove() error {
	directory := filepath.Join(c.Root, Directory)
	if _, err := c.FS.ReadDir(directory); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for i := range 2 {
		if err := c.FS.Remove(c.path(i)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("journal: %w", err)
		}
	}
	if err := c.FS.SyncDir(directory); err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	if err := c.FS.Remove(directory); err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	if err := c.FS.SyncDir(c.Root); err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	return nil
}
