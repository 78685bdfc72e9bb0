package bundle

import (
	"testing"

	"martlet/object-server/vfs"
)

// There is one writer of a bundle, so its owner alone can append.
func TestOneWriter(t *testing.T) {
	b, err := Open(NewFiles(vfs.NewMem("/d"), "/d", 4), logID, logConfig)
	if err != nil {
		t.Fatal(err)
	}
	w := b.TakeWriter()
	if w == nil || w.Bundle() != b || b.TakeWriter() != nil {
		t.Fatal("not one writer")
	}
}
