package bundle

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"martlet/object-server/bundle/format"
	"martlet/object-server/vfs"
)

// Extent is a run of bytes in a segment, with nothing but what is needed to
// write it again.
type Extent struct {
	ID
	Sequence uint32
	Offset   int64
	Bytes    [][]byte // one after the other
}

// Extent returns what Append has written; its bytes are valid until Publish or
// Discard.
func (a *Appended) Extent() Extent {
	return Extent{ID: a.bundle.id, Sequence: a.bundle.active.sequence, Offset: a.tail - a.Bytes, Bytes: a.iovecs}
}

// Restore writes an extent again, and makes the segment and its directories
// where a power cut has taken the names away. Nothing is flushed. A segment that
// is missing although the extent does not begin it was removed after it had been
// durable, so it is left alone; unless damage may have hidden the extent that
// begins it.
func (f *Files) Restore(e Extent, damage bool) error {
	directory := f.Directory(e.ID)
	name := filepath.Join(directory, format.SegmentName(e.Sequence, 0))
	file, err := f.FS.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		if e.Offset > 0 && !damage {
			return nil
		}
		file, err = f.recreate(directory, name)
	}
	if err != nil {
		return fmt.Errorf("bundle: %w", err)
	}
	defer file.Close() // the caller flushes the file system, which tells of all errors
	if err := file.Writev(e.Bytes, e.Offset); err != nil {
		return fmt.Errorf("bundle: %w", err)
	}
	return nil
}

func (f *Files) recreate(directory, name string) (vfs.File, error) {
	for _, d := range []string{filepath.Dir(directory), directory} {
		if err := f.FS.Mkdir(d); err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, err
		}
	}
	return f.FS.Create(name)
}
