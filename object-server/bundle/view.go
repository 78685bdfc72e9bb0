package bundle

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"martlet/object-server/bundle/format"
	"martlet/object-server/bundle/segment"
	"martlet/object-server/vfs"
)

// View is a bundle that is only looked at, by package inspect. The bundle may be in use
// meanwhile, so that files may vanish: fs.ErrNotExist. Its own methods change nothing. Of
// those of Bundle only what reads may be called, and RemoveLarge in a repair. It is not
// safe for concurrent use.
type View struct {
	*Bundle                // without an index before Recover: reads find nothing
	Segments []SegmentFile // in the order of the log
	Floor    uint64        // see Files.Floor; 0 where there is no directory
}

// SegmentFile is a segment as its directory, its header and its footer tell.
type SegmentFile struct {
	segment.File
	Inherited bool // made before the partition was split off: see Split
}

// Look lists the segments of a bundle as opening it would, and reads no records. A
// missing directory is an empty bundle. ErrUnsupported: a file was moved there by
// hand, or a later version wrote it.
func Look(files *Files, id ID) (*View, error) {
	b := newBundle(files, id, Config{})
	b.readOnly = true
	segments, err := b.list()
	if err != nil {
		return nil, err
	}
	v := &View{Bundle: b, Segments: segments}
	if b.dirDurable {
		v.Floor = files.floor(id, b.identity)
	}
	return v, nil
}

// Close frees the index that Recover has made, and nothing else. It must follow Recover,
// even one that fails.
func (v *View) Close() { v.index.Free() }

// Found is a record that counts and has a name.
type Found struct {
	format.Entry
	Segment  int  // index in what Recover returns
	IsNewest bool // of its name
}

// Recovered is a segment as recovery leaves it.
type Recovered struct {
	Sequence, Through, Generation uint32
	Base, Last                    uint64 // LSNs
	Sealed                        bool
	Checkpoint                    int64 // offset of the one that reading began from; 0: none
}

// Recover reads as much of the segments as opening the bundle does, once. From then on
// the records can be read, and Report tells what was met. It returns the records
// sorted by name and LSN, and their segments.
func (v *View) Recover() ([]Found, []Recovered, error) {
	records, err := v.replay(v.Segments)
	if err != nil {
		return nil, nil, err
	}
	entries := make([]Found, len(records))
	for i := range records {
		entries[i] = Found{records[i].Entry, int(records[i].segment.number), isNewest(records, i)}
	}
	segments := make([]Recovered, len(v.segments.table))
	for i, s := range v.segments.table {
		segments[i] = Recovered{
			Sequence: s.sequence, Through: s.through, Generation: s.generation, Base: s.base, Last: s.last,
			Sealed: s.sealed, Checkpoint: int64(s.checkpoint) * format.UnitSize,
		}
	}
	return entries, segments, nil
}

// Open opens the file of a segment. It is closed by release, not by the caller, and
// may serve others at the same time.
func (v *View) Open(sequence, generation uint32) (file vfs.File, release func(), err error) {
	h, err := v.files.get(fileKey{v.id, sequence, generation})
	if err != nil {
		return nil, nil, err
	}
	return h.File, h.release, nil
}

// LargeFiles lists the large files that have their name, by path and number.
func (v *View) LargeFiles() (map[string]uint64, error) {
	directory := filepath.Join(v.directory, largeDirectory)
	entries, err := v.files.FS.ReadDir(directory)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("bundle: %w", err)
	}
	all := make(map[string]uint64)
	for _, entry := range entries {
		if id, ok := parseLargeName(entry.Name(), "", largeSuffix); ok {
			all[filepath.Join(directory, entry.Name())] = id
		}
	}
	return all, nil
}
