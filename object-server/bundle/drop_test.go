package bundle

import (
	"path/filepath"
	"testing"

	"martlet/object-server/vfs"
)

// A crash may leave nothing of a dropped partition but the mark. What is put into its
// directory by a split afterwards is not void.
func TestDiscardTakesTheMarkOfADrop(t *testing.T) {
	fs := vfs.NewMem("/d")
	files := NewFiles(fs, "/d", 10)
	child := ID{Partition: 6, Power: 4}
	for _, d := range []string{PolicyDirectory(0), filepath.Join(PolicyDirectory(0), "6")} {
		check(t, fs.Mkdir(filepath.Join("/d", d)))
	}
	mark, err := fs.Create(filepath.Join(files.Directory(child), droppedName))
	check(t, err)
	check(t, mark.Close())
	check(t, files.Discard(child))
	b, err := Open(files, ID{Partition: 3}, Config{SegmentBytes: 1 << 20, CheckpointBytes: 1 << 20})
	check(t, err)
	appendBatch(t, b, put(t, 1, 10))
	check(t, files.Share(b.ID(), child))
	if names, err := fs.ReadDir(files.Directory(child)); err != nil || len(names) != 1 {
		t.Fatal(names, err)
	}
}
