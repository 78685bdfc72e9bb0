package background

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
)

// ReadCursor reads how far a program is on a device, a file of JSON, into what a pointer names. It tells whether there is one.
// An error means that it cannot be read: the passes then begin anew.
func ReadCursor(path string, into any) (found bool, err error) {
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return true, json.Unmarshal(b, into)
}

// WriteCursor replaces the file as a whole and flushes nothing: after a power cut the file may be the one before, or none.
func WriteCursor(path string, content []byte) error {
	if err := os.WriteFile(path+".tmp", content, 0o600); err != nil {
		return err
	}
	return os.Rename(path+".tmp", path)
}
