package bundle

import (
	"errors"
	"slices"
	"strings"
	"syscall"
	"testing"

	"martlet/object-server/bundle/format"
	"martlet/object-server/vfs"
)

// However many segments were in use at once, no more than the bound stay open.
func TestFilesShrinkAfterAPeak(t *testing.T) {
	const most, peak = 4, 100
	fs := vfs.NewMem("/d")
	check(t, fs.Mkdir("/d/bundles"))
	check(t, fs.Mkdir("/d/bundles/7"))
	files := NewFiles(fs, "/d", most)
	var pinned []*handle
	for i := range peak {
		h, err := files.create(fileKey{ID{Partition: 7}, uint32(i + 1), 0})
		check(t, err)
		pinned = append(pinned, h)
	}
	for _, h := range pinned {
		h.release()
	}
	if len(files.open) != most {
		t.Errorf("%d files are open, at most %d should stay", len(files.open), most)
	}
	for i := range peak { // the last ones stay, and the others open again
		h, err := files.get(fileKey{ID{Partition: 7}, uint32(i + 1), 0})
		check(t, err)
		h.release()
	}
	if len(files.open) != most {
		t.Errorf("%d files are open after use", len(files.open))
	}
	check(t, files.Close())
}

// A new segment that a full disk refuses leaves neither a file nor an open one, which
// would keep its blocks taken.
func TestFullDiskLeavesNoOpenFile(t *testing.T) {
	isFull := false
	fs := vfs.NewFaults(vfs.NewMem("/d"), func(op, _ string) error {
		if isFull && op == "write" {
			return vfs.ErrNoSpace
		}
		return nil
	})
	files := NewFiles(fs, "/d", 4)
	b, err := Open(files, logID, tended)
	check(t, err)
	isFull = true
	if _, err := (&Writer{b}).Append([]*Draft{put(t, 1, 1)}); !errors.Is(err, ErrNotWritten) {
		t.Fatal(err)
	}
	entries, err := fs.ReadDir(b.directory)
	check(t, err)
	if len(entries) != 0 || len(files.open) != 0 {
		t.Errorf("%d files are left, %d are open", len(entries), len(files.open))
	}
	isFull = false
	appendBatch(t, b, put(t, 1, 2))
}

// A footer that cannot be read keeps the index of its segment in memory. It is no
// failure of the bundle's upkeep, which failures to write are.
func TestUnreadableFooterStaysInMemory(t *testing.T) {
	var failing string
	fs := vfs.NewFaults(vfs.NewMem("/d"), func(op, name string) error {
		if op == "read" && failing != "" && strings.HasSuffix(name, failing) {
			return syscall.EIO
		}
		return nil
	})
	config := filedConfig
	var told []error
	config.Damaged = func(err error) { told = append(told, err) }
	b, err := Open(NewFiles(fs, "/d", 4), logID, config)
	check(t, err)
	for i := 0; len(b.segments.inOrder()) < 3; i++ {
		appendBatch(t, b, put(t, i, uint64(i+1)))
		check(t, b.Seal())
	}
	first := b.segments.inOrder()[0]
	failing = format.SegmentName(first.sequence, first.generation)
	check(t, b.FileIndex(func(format.Hash) {}, func(format.Hash) {}))
	failing = ""
	if !first.unfit || first.filter != nil || len(told) != 1 {
		t.Errorf("the segment is unfit: %v; told %v", first.unfit, told)
	}
	others := slices.DeleteFunc(b.segments.inOrder()[1:], func(s *openSegment) bool { return s.filter == nil })
	if len(others) == 0 {
		t.Error("no other segment has its index on disk")
	}
	if _, ok, err := find(b, name(0)); !ok || err != nil {
		t.Error(ok, err)
	}
}
