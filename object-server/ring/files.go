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

// Files keeps the rings that were read last, by name. Safe for concurrent use.
type Files struct {
	Directory string

	mu   sync.Mutex
	read map[string]readRing // guarded by mu
}

type readRing struct {
	*Ring
	modified time.Time
	size     int64
}

// Object reads the object ring of a policy if its file has changed; nil if there is none.
func (r *Files) Object(policy int) (*Ring, error) {
	name := "object"
	if policy > 0 {
		name = fmt.Sprintf("object-%d", policy)
	}
	found, err := r.Named(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return found, err
}

// Named reads a ring by its name, e.g. "container", if its file has changed.
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
		return nil, err
	}
	if r.read == nil {
		r.read = map[string]readRing{}
	}
	r.read[name] = readRing{loaded, info.ModTime(), info.Size()}
	return loaded, nil
}

// Each calls do for each chosen device in the ring of each policy. A ring that cannot be read is an error, and those of the
// other policies go on.
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
