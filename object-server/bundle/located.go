package bundle

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"

	"martlet/object-server/bundle/format"
	"martlet/object-server/bundle/segment"
	"martlet/object-server/vfs"
)

// Located are records of one segment that count, in the order in which they lie.
type Located struct {
	Sequence   uint32
	Generation uint32
	Salt       uint32
	Base       uint64 // LSN of the first record of the segment
	Entries    []format.Entry
}

// Locate tells where the records lie that Export would visit, for a process that reads
// them itself. Nothing keeps them there: see Outside.
func (b *Bundle) Locate(since uint64, want func(e *format.Entry) bool) (all []Located, done Exported, err error) {
	extents, counts, done, err := b.countingSince(since, want)
	defer unpin(extents)
	if err != nil {
		return nil, done, err
	}
	for i := range counts {
		e := &counts[i]
		s := e.segment
		if i == 0 || counts[i-1].segment != s {
			all = append(all, Located{Sequence: s.sequence, Generation: s.generation, Salt: s.salt, Base: s.base})
		}
		last := &all[len(all)-1]
		last.Entries = append(last.Entries, e.Entry)
	}
	return all, done, nil
}

// Outside reads located records of a bundle from its files, beside the process that
// writes them. A record that has been moved, replaced or damaged since is left out, and
// its name noted: every byte of the others is checked.
type Outside struct {
	// Moved are the names of records that were left out.
	Moved []format.Hash

	files     vfs.FS
	directory string
	left      []Located
	at        int // in the entries of the first of left
	file      vfs.File
	window    segment.Window
	large     vfs.File
}

// ReadOutside begins to read records of the bundle in a directory. Close must follow.
func ReadOutside(files vfs.FS, directory string, all []Located) *Outside {
	return &Outside{files: files, directory: directory, left: all}
}

// Next reads the next record; io.EOF after the last. large is the object of a SPILL. All
// are valid until the next call.
func (o *Outside) Next() (p []byte, large vfs.File, err error) {
	for len(o.left) > 0 {
		s := &o.left[0]
		if o.at == len(s.Entries) {
			o.closeSegment()
			o.left, o.at = o.left[1:], 0
			continue
		}
		e := &s.Entries[o.at]
		o.at++
		p, large, err := o.read(s, e)
		switch {
		case err == nil:
			return p, large, nil
		case format.IsDamage(err), isUnreadable(err), errors.Is(err, fs.ErrNotExist), errors.Is(err, io.ErrUnexpectedEOF):
			o.Moved = append(o.Moved, e.Hash)
		default:
			return nil, nil, err
		}
	}
	return nil, nil, io.EOF
}

func (o *Outside) read(s *Located, e *format.Entry) (p []byte, large vfs.File, err error) {
	o.closeLarge()
	if o.file == nil {
		if err := o.openSegment(s); err != nil {
			return nil, nil, err
		}
	}
	if p, err = o.window.At(int64(e.Unit)*format.UnitSize, int(e.Units)*format.UnitSize); err != nil {
		return nil, nil, err
	}
	r, err := checked(p, s.Salt, e)
	if err != nil || r.Type() != format.TypeSpill {
		return p, nil, err
	}
	if o.large, err = o.files.Open(filepath.Join(o.directory, largeDirectory, largeName(r.LargeID))); err != nil {
		return nil, nil, err
	}
	return p, o.large, nil
}

func (o *Outside) openSegment(s *Located) (err error) {
	end := &s.Entries[len(s.Entries)-1]
	if o.file, err = o.files.Open(filepath.Join(o.directory, format.SegmentName(s.Sequence, s.Generation))); err != nil {
		o.file = nil
		return err
	}
	o.window = segment.NewWindow(o.file, (int64(end.Unit)+int64(end.Units))*format.UnitSize, segment.WindowSize)
	return nil
}

func (o *Outside) closeSegment() {
	if o.file != nil {
		o.window.Close()
		_ = o.file.Close() // only read from
		o.file = nil
	}
}

func (o *Outside) closeLarge() {
	if o.large != nil {
		_ = o.large.Close() // only read from
		o.large = nil
	}
}

// Close closes the files.
func (o *Outside) Close() {
	o.closeSegment()
	o.closeLarge()
}

func largeName(id uint64) string { return fmt.Sprintf("%016x%s", id, largeSuffix) }
