package device

import (
	"fmt"
	"sync/atomic"
	"time"

	"martlet/object-server/vfs"
)

// room refuses PUTs and POSTs when the file system runs low, so that there is room for
// tombstones and for what must be written to free space.
type room struct {
	directory vfs.Dir
	bytes     int64
	percent   float64
	checked   atomic.Int64 // nanoseconds since 1970
	low       atomic.Bool
}

// roomCheckInterval bounds how often the file system is asked.
const roomCheckInterval = time.Second

// check returns ErrNoSpace below the reserve. It asks the file system at most
// once a second, and at once when the clock has been set back.
func (r *room) check() error {
	if r.bytes == 0 && r.percent == 0 {
		return nil
	}
	now, last := time.Now().UnixNano(), r.checked.Load()
	if (now < last || now-last >= int64(roomCheckInterval)) && r.checked.CompareAndSwap(last, now) {
		usage, err := r.directory.Usage()
		if err != nil {
			return fmt.Errorf("device: %w", err)
		}
		reserve := max(float64(r.bytes), float64(usage.Bytes)*r.percent/100)
		r.low.Store(float64(usage.BytesFree) < reserve)
	}
	if r.low.Load() {
		return fmt.Errorf("device: reserve reached: %w", ErrNoSpace)
	}
	return nil
}
