package relink

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"martlet/object-server/ring"
)

// rings keeps the object rings that were read last, by policy.
type rings struct {
	directory string
	mu        sync.Mutex
	read      map[int]readRing // guarded by mu
}

type readRing struct {
	*ring.Ring
	modified time.Time
	size     int64
}

// load reads the ring of a policy if its file has changed; nil if there is none.
func (r *rings) load(policy int) (*ring.Ring, error) {
	name := "object.ring.gz"
	if policy > 0 {
		name = fmt.Sprintf("object-%d.ring.gz", policy)
	}
	path := filepath.Join(r.directory, name)
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if known, ok := r.read[policy]; ok && known.modified.Equal(info.ModTime()) && known.size == info.Size() {
		return known.Ring, nil
	}
	loaded, err := ring.Load(path)
	if err != nil {
		return nil, err
	}
	if r.read == nil {
		r.read = map[int]readRing{}
	}
	r.read[policy] = readRing{loaded, info.ModTime(), info.Size()}
	return loaded, nil
}
