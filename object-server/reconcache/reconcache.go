package reconcache

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// DefaultDirectory is where the files are unless a conf says otherwise.
const DefaultDirectory = "/var/cache/martlet"

const (
	// lockWait is how long Update waits for another program that writes to the same file.
	lockWait  = 2 * time.Second
	lockPause = 10 * time.Millisecond
)

var errLocked = errors.New("another program holds its lock")

// entries are the figures of a file by their keys.
type entries map[string]json.RawMessage

func path(directory, kind string) string { return filepath.Join(directory, kind+".recon") }

// Read returns the figures of a kind of server, account, container or object, under these keys. One that no program has
// written is nil, also if there is no file, or not one of figures.
func Read(directory, kind string, keys []string) map[string]any {
	var all entries
	if text, err := os.ReadFile(path(directory, kind)); err == nil && json.Unmarshal(text, &all) != nil {
		all = nil
	}
	shown := make(map[string]any, len(keys))
	for _, key := range keys {
		shown[key] = nil
		if value, ok := all[key]; ok {
			shown[key] = value
		}
	}
	return shown
}

// Values is Read with each figure decoded, as encoding/json decodes into an any.
func Values(directory, kind string, keys []string) map[string]any {
	values := Read(directory, kind, keys)
	for key, value := range values {
		if text, ok := value.(json.RawMessage); ok {
			var decoded any
			if json.Unmarshal(text, &decoded) != nil {
				decoded = nil
			}
			values[key] = decoded
		}
	}
	return values
}

// Update sets figures. Those of a map are added to the map that is there; an empty map removes a key. Other keys stay.
func Update(directory, kind string, figures map[string]any) error {
	if err := os.MkdirAll(directory, 0o755); err != nil {
		return err
	}
	name := path(directory, kind)
	file, err := lock(name)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	defer file.Close()
	text, err := io.ReadAll(file)
	if err != nil {
		return err
	}
	var all entries
	if json.Unmarshal(text, &all) != nil || all == nil {
		all = entries{} // new, or damaged
	}
	if err := all.merge(figures); err != nil {
		return err
	}
	return replace(name, all)
}

// lock returns the file of the name, which may be new, with its lock. Closing it unlocks it.
func lock(name string) (*os.File, error) {
	for deadline := time.Now().Add(lockWait); ; time.Sleep(lockPause) {
		file, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o644)
		if err != nil {
			return nil, err
		}
		err = unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil && isCurrent(file, name) {
			return file, nil
		}
		file.Close()
		if err != nil && !errors.Is(err, unix.EWOULDBLOCK) {
			return nil, err
		}
		if time.Now().After(deadline) {
			return nil, errLocked
		}
	}
}

// isCurrent tells whether the file still has its name: another program may have replaced it before it was locked.
func isCurrent(file *os.File, name string) bool {
	locked, err := file.Stat()
	named, err2 := os.Stat(name)
	return err == nil && err2 == nil && os.SameFile(locked, named)
}

func (e entries) merge(figures map[string]any) error {
	for key, value := range figures {
		text, err := json.Marshal(value)
		if err != nil {
			return err
		}
		var inner entries
		if json.Unmarshal(text, &inner) != nil || inner == nil { // no map
			e[key] = text
			continue
		}
		if len(inner) == 0 {
			delete(e, key)
			continue
		}
		var before entries
		if json.Unmarshal(e[key], &before) != nil || before == nil {
			before = entries{}
		}
		for name, one := range inner {
			if string(one) == "{}" {
				delete(before, name)
			} else {
				before[name] = one
			}
		}
		if e[key], err = json.Marshal(before); err != nil {
			return err
		}
	}
	return nil
}

// replace writes the file anew. Its lock may be held on the old one.
func replace(name string, all entries) error {
	text, err := json.Marshal(all)
	if err != nil {
		return err
	}
	file, err := os.CreateTemp(filepath.Dir(name), filepath.Base(name)+".new-*")
	if err != nil {
		return err
	}
	_, err = file.Write(append(text, '\n'))
	err = errors.Join(err, file.Chmod(0o644), file.Close())
	if err == nil {
		err = os.Rename(file.Name(), name)
	}
	if err != nil {
		return errors.Join(err, os.Remove(file.Name()))
	}
	return nil
}
