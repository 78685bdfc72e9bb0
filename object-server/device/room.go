package device

import (
	"fmt"
	"sync/atomic"
	"time"

	"martlet/object-server/vfs"
)

// room refuses PUTs and POSTs when the file system runs low, so that there is room
// for tombstones and for what must be written to free space.
type room struct {
	directory  vfs.Dir
	bytes      int64 // that the operator wants to stay free
	percent    float64
	compaction int64 // that compaction needs

	checked    atomic.Int64 // nanoseconds since 1970
	left       atomic.Int64 // bytes until the reserve is reached, when last looked and less what was let in since
	short      atomic.Bool  // below twice the reserve
	nearlyFull atomic.Bool
}

const (
	// roomCheckInterval bounds how often the file system is asked.
	roomCheckInterval = time.Second
	// compactionPercentMax of the file system is the most that is kept for
	// compaction.
	compactionPercentMax = 2
	// nearlyFullPercent in use make compaction content with less garbage.
	nearlyFullPercent = 85
)

// check returns ErrNoSpace unless so many bytes can be written without touching
// the reserve. It asks the file system once a second, when what it knew to be
// left is used up, and when the clock has been set back.
func (r *room) check(bytes int64) error {
	if r.bytes == 0 && r.percent == 0 && r.compaction == 0 {
		return nil
	}
	now, last := time.Now().UnixNano(), r.checked.Load()
	isDue := (now < last || now-last >= int64(roomCheckInterval)) && r.checked.CompareAndSwap(last, now)
	if !isDue && r.left.Add(-bytes) >= 0 {
		return nil
	}
	if _, err := r.look(); err != nil {
		return err
	}
	if r.left.Add(-bytes) < 0 {
		return fmt.Errorf("device: reserve reached: %w", ErrNoSpace)
	}
	return nil
}

// look asks the file system how many bytes are free.
func (r *room) look() (free int64, err error) {
	usage, err := r.directory.Usage()
	if err != nil {
		return 0, fmt.Errorf("device: %w", err)
	}
	reserve, unused := r.reserve(&usage), float64(usage.BytesFree)
	r.left.Store(int64(min(unused-reserve, 1<<62)))
	r.short.Store(unused < 2*reserve)
	r.nearlyFull.Store(unused < float64(usage.Bytes)*(100-nearlyFullPercent)/100)
	return int64(min(usage.BytesFree, 1<<62)), nil
}

// reserve is how many bytes are to stay free.
func (r *room) reserve(usage *vfs.Usage) float64 {
	size := float64(usage.Bytes)
	return max(float64(r.bytes), size*r.percent/100, min(float64(r.compaction), size*compactionPercentMax/100))
}
