package bundle

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
)

// droppedName is the file in a partition's directory that says that all else in it is
// void.
const droppedName = "dropped"

// Drop removes a bundle for good. The caller keeps all others from using it. Its files
// cannot go at once, and the log without its last segments would be one in which what
// was deleted lives. So a mark comes first:
//
//	mark, flush of the directory -> files, flush -> mark, directory
//
// A crash after the first step leaves a bundle that opening finds empty, and removes.
func (f *Files) Drop(id ID) error {
	directory := f.Directory(id)
	mark, err := f.FS.Create(filepath.Join(directory, droppedName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil // without a directory there is nothing to drop
	}
	if err == nil {
		err = mark.Close()
	} else if errors.Is(err, fs.ErrExist) {
		err = nil
	}
	if err == nil {
		err = f.FS.SyncDir(directory)
	}
	if err != nil {
		return fmt.Errorf("bundle: %w", err)
	}
	return f.Discard(id)
}
