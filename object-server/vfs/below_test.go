//go:build linux

package vfs

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// A directory that takes the name of the one that is open gets nothing, and gives nothing.
func TestBelowStaysInItsDirectory(t *testing.T) {
	root := filepath.Join(t.TempDir(), "d1")
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.Mkdir(root, 0o700))
	b, err := OpenBelow(root)
	must(err)
	must(os.Rename(root, root+".away"))
	must(os.Mkdir(root, 0o700))
	must(os.WriteFile(filepath.Join(root, "foreign"), nil, 0o600))
	must(b.Mkdir(filepath.Join(root, "bundles")))
	file, err := b.Create(filepath.Join(root, "bundles", "1"))
	must(err)
	must(file.Close())
	if file, err = b.CreateTemp(root); err == nil {
		must(b.Link(file, filepath.Join(root, "linked")))
		must(file.Close())
	} else if !errors.Is(err, ErrNoTemp) {
		t.Error(err)
	}
	must(b.SyncDir(root))
	dir, err := b.OpenDir(root)
	must(err)
	must(dir.Close())
	if entries, err := b.ReadDir(root); err != nil || len(entries) == 0 || entries[0].Name() != "bundles" {
		t.Errorf("listed %v, %v", entries, err)
	}
	var failed *fs.PathError
	name := filepath.Join(root, "foreign")
	if _, err := b.Open(name); !errors.Is(err, fs.ErrNotExist) || !errors.As(err, &failed) || failed.Path != name {
		t.Errorf("opened a file of another directory: %v", err)
	}
	must(b.Remove(filepath.Join(root, "bundles", "1")))
	must(b.Close())
	if _, err := b.ReadDir(root); err == nil {
		t.Error("used after Close")
	}
	if entries, err := os.ReadDir(root); err != nil || len(entries) != 1 {
		t.Errorf("the other directory has %v, %v", entries, err)
	}
}
