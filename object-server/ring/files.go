package ring

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// Files keeps the rings that were read last, by name. A ring whose new file cannot be read stays in use. The log says once, for
// each reason, that a file cannot be read, and once that it can be again. Safe for concurrent use.
type Files struct {
	Directory string
	Logger    *slog.Logger // nil: nothing is logged

	mu   sync.Mutex
	read map[string]readRing // guarded by mu
}

// readRing is what the last look at a file has found.
type readRing struct {
	*Ring
	modified time.Time // of the file that was read; it is not read again
	size     int64
	err      error // the file cannot be read; Ring is from before, or nil
}

// neverSize is no size of a file: the next look reads it.
const neverSize = -1

// Object reads the object ring of a policy if its file has changed; nil if there is none. If the file cannot be read the first
// look gets an error, and further ones get the ring from before, if there was one.
func (r *Files) Object(policy int) (*Ring, error) {
	found, err := r.look(objectRing(policy), true)
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

// Named reads a ring by its name, e.g. "container", if its file has changed; an error is as that of Object. One that is missing
// is an error.
func (r *Files) Named(name string) (*Ring, error) { return r.look(name, false) }

func (r *Files) look(name string, mayBeMissing bool) (*Ring, error) {
	path := filepath.Join(r.Directory, name+".ring.gz")
	info, err := os.Stat(path)
	if mayBeMissing && errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	known := r.read[name]
	if err == nil && known.modified.Equal(info.ModTime()) && known.size == info.Size() {
		return known.Ring, nil
	}
	now := readRing{Ring: known.Ring, size: neverSize, err: err}
	if err == nil {
		now = known.replacedBy(path, info)
	}
	if r.read == nil {
		r.read = map[string]readRing{}
	}
	r.read[name] = now
	isNews := r.tell(path, known.err, now.err)
	if now.Ring != nil && !isNews {
		return now.Ring, nil
	}
	return now.Ring, now.err
}

// replacedBy reads the file that is there now.
func (r readRing) replacedBy(path string, info fs.FileInfo) readRing {
	loaded, err := Load(path)
	if err == nil {
		return readRing{Ring: loaded, modified: info.ModTime(), size: info.Size()}
	}
	// The disk, or a want of descriptors, may be the reason, and the file good: it is tried again at each look.
	if unread := new(fs.PathError); r.Ring == nil || errors.As(err, &unread) {
		return readRing{Ring: r.Ring, size: neverSize, err: err}
	}
	return readRing{Ring: r.Ring, modified: info.ModTime(), size: info.Size(), err: err}
}

// tell logs that a file can no longer be read, or can be again. It reports whether there is a new reason.
func (r *Files) tell(path string, before, now error) (isNews bool) {
	log := r.Logger
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	switch {
	case now != nil && (before == nil || before.Error() != now.Error()):
		log.Error("a ring cannot be read", "path", path, "error", now)
		return true
	case now == nil && before != nil:
		log.Warn("a ring can be read again", "path", path)
	}
	return false
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
