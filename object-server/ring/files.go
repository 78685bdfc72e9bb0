package ring

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// Files keeps the rings that were read last, by name. A ring whose new file cannot be read stays in use. Safe for concurrent use.
type Files struct {
	Directory string

	mu   sync.Mutex
	read map[string]readRing // guarded by mu
}

type readRing struct {
	*Ring
	modified time.Time
	size     int64
	err      error // the file of this time and size cannot be read; Ring is from before it
}

// Object reads the object ring of a policy if its file has changed; nil if there is none. If the file cannot be read the first
// look gets an error, and further ones get the ring from before, if there was one.
func (r *Files) Object(policy int) (*Ring, error) {
	found, err := r.Named(objectRing(policy))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return found, err
}

// Intact is as Object, with an error as long as the file cannot be read: for what must not be done by an old ring.
func (r *Files) Intact(policy int) (*Ring, error) {
	found, err := r.Object(policy)
	if err != nil || found == nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	known := r.read[objectRing(policy)]
	return known.Ring, known.err
}

func objectRing(policy int) string {
	if policy > 0 {
		return fmt.Sprintf("object-%d", policy)
	}
	return "object"
}

// Named reads a ring by its name, e.g. "container", if its file has changed; an error is as that of Object.
func (r *Files) Named(name string) (*Ring, error) {
	path := filepath.Join(r.Directory, name+".ring.gz")
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if known, ok := r.read[name]; ok && known.modified.Equal(info.ModTime()) && known.size == info.Size() {
		return known.Ring, nil
	}
	loaded, err := Load(path)
	if err != nil {
		loaded = r.read[name].Ring
		// The disk, or a want of descriptors, may be the reason, and the file good: it is tried again at each look.
		if unread := new(fs.PathError); loaded == nil || errors.As(err, &unread) {
			return loaded, err
		}
	}
	if r.read == nil {
		r.read = map[string]readRing{}
	}
	r.read[name] = readRing{loaded, info.ModTime(), info.Size(), err}
	return loaded, err
}

// Each calls do for each chosen device in the ring of each policy. A ring that cannot be read is an error. Those of the
// other policies go on, as does the ring that was read before it.
func (r *Files) Each(policies []int, isChosen func(*Device) bool, do func(current *Ring, policy int, d *Device)) (err error) {
	for _, policy := range policies {
		current, unread := r.Object(policy)
		if unread != nil {
			err = errors.Join(err, unread)
		}
		if current == nil {
			continue
		}
		for _, d := range current.Devices {
			if d != nil && isChosen(d) {
				do(current, policy, d)
			}
		}
	}
	return err
}
