package device

import (
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"martlet/object-server/vfs"
)

// room refuses writes when the file system runs low. Three take from it, each
// down to a mark of its own, so that the next one can always go on:
//
//	PUTs and POSTs   down to the reserve: the operator's, and twice the floor
//	DELETEs          down to the floor
//	compaction       what is left, for one rewrite, which gives back more
type room struct {
	directory vfs.Dir
	bytes     int64 // that the operator wants to stay free
	percent   float64
	floor     int64 // that compaction needs
	log       *slog.Logger
	scarce    *atomic.Bool // segments get no room ahead

	short atomic.Bool // below twice the reserve

	nearlyFull atomic.Bool
	low        atomic.Bool // DELETEs will soon be refused: compaction is content with any garbage

	mu       sync.Mutex
	checked  time.Time // when the file system was last asked; guarded by mu
	known    int64     // left when it was asked; guarded by mu
	left     int64     // above the floor, when it was asked, less what was let in since; guarded by mu
	margin   int64     // from the floor to the reserve; guarded by mu
	pending  int64     // let in and not yet done; guarded by mu
	lent     int64     // written by the compaction that runs; guarded by mu
	free     int64     // when it was asked; guarded by mu
	isFull   bool      // PUTs are refused, and the log says so; guarded by mu
	refusals uint64    // guarded by mu
}

const (
	// roomCheckInterval bounds how often the file system is asked.
	roomCheckInterval = time.Second
	// floorPercentMax of the file system is the most that is kept for compaction.
	floorPercentMax = 5
	// nearlyFullPercent in use make compaction content with less garbage.
	nearlyFullPercent = 85
	// eraseRoom is what a DELETE may take: a record, perhaps in a new segment.
	eraseRoom = 8 << 10
)

// enter lets a PUT or POST of so many bytes in; leave must follow when they are
// written or given up. ErrNoSpace if that would touch the reserve.
func (r *room) enter(bytes int64) error { return r.admit(bytes, false) }

// erase is enter for a DELETE, which only the floor stops.
func (r *room) erase(bytes int64) error { return r.admit(bytes, true) }

// admit asks the file system once a second, when a quarter of what it knew to be
// left above the reserve is used up (segments get room ahead, without a
// question), and when the clock has been set back.
func (r *room) admit(bytes int64, isErase bool) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if age := time.Since(r.checked); age < 0 || age >= roomCheckInterval || r.known-r.left > (r.known-r.margin)/4 || !r.holds(bytes, isErase) {
		if err := r.ask(); err != nil {
			return err
		}
	}
	if !r.holds(bytes, isErase) {
		r.refusals++
		r.tell(true)
		return fmt.Errorf("device: reserve reached: %w", ErrNoSpace)
	}
	r.left -= bytes
	r.pending += bytes
	return nil
}

// holds tells whether so many bytes more are left. mu is held.
func (r *room) holds(bytes int64, isErase bool) bool {
	switch {
	case r.floor == 0 && r.margin == 0:
		return true
	case isErase:
		return r.floor == 0 || r.left >= bytes
	}
	return r.left-r.margin >= bytes
}

func (r *room) leave(bytes int64) {
	r.mu.Lock()
	r.pending -= bytes
	r.mu.Unlock()
}

// lend is told what a compaction is about to write, which the floor is there for;
// returned, that it has ended.
func (r *room) lend(bytes int64) {
	r.mu.Lock()
	r.lent += bytes
	r.mu.Unlock()
}

func (r *room) returned() {
	r.mu.Lock()
	r.lent, r.checked = 0, time.Time{}
	r.mu.Unlock()
}

// look asks the file system how many bytes are free.
func (r *room) look() (free int64, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	err = r.ask()
	return r.free, err
}

// ask brings what is known up to date. mu is held.
func (r *room) ask() error {
	usage, err := r.directory.Usage()
	if err != nil {
		return fmt.Errorf("device: %w", err)
	}
	reserve := r.reserve(&usage)
	r.checked, r.free = time.Now(), int64(min(usage.BytesFree, 1<<62))
	r.margin = reserve - r.floor
	r.left = r.free + r.lent - r.pending - r.floor
	r.known = r.left
	r.short.Store(r.free < 2*reserve)
	r.low.Store(r.free < r.floor+r.floor/2)
	r.nearlyFull.Store(float64(r.free) < float64(usage.Bytes)*(100-nearlyFullPercent)/100)
	r.scarce.Store(r.short.Load() || r.nearlyFull.Load())
	if r.free > reserve+reserve/4 {
		r.tell(false)
	}
	return nil
}

// reserve is how many bytes PUTs leave free.
func (r *room) reserve(usage *vfs.Usage) int64 {
	return max(r.bytes, int64(float64(usage.Bytes)*r.percent/100)) + 2*r.floor
}

// tell logs when the device gets full, and when it has room again. mu is held.
func (r *room) tell(isFull bool) {
	if isFull == r.isFull {
		return
	}
	r.isFull = isFull
	if isFull {
		r.log.Warn("device is full: PUTs are refused with 507 until objects are deleted or its weight in the ring is lowered",
			"free", r.free, "reserve", r.margin+r.floor)
	} else {
		r.log.Warn("device has room again", "free", r.free, "reserve", r.margin+r.floor)
	}
}

// floorOf is what compaction needs on a file system: the largest segment with a
// footer, and what its neighbours take meanwhile.
func floorOf(usage *vfs.Usage, segmentBytes int64) int64 {
	return min(segmentBytes+segmentBytes/4+256<<10, int64(usage.Bytes/100*floorPercentMax))
}

// recycledShare of a device at most is in emptied segments that wait to be used
// again. While segments are filled and emptied all the time few have to wait.
const recycledShare = 64

// recycledBytes bounds them. Only writes past the page cache gain by them: others
// would have to read what is around a record.
func (d *Device) recycledBytes(usage *vfs.Usage) int64 {
	switch most := d.options.RecycledBytes; {
	case d.options.SyncMethod != SyncDirect:
		return 0
	case most != 0:
		return max(most, 0)
	}
	return int64(min(usage.Bytes, 1<<62)) / recycledShare
}

// segmentShare of a device at least is in other segments: one can be rewritten
// where little is free.
const (
	segmentShare    = 128
	segmentBytesLow = 1 << 20
)

// segmentBytesOf bounds the segments of a small device.
func segmentBytesOf(usage *vfs.Usage, most int64) int64 {
	return min(most, max(int64(min(usage.Bytes, 1<<62))/segmentShare, segmentBytesLow))
}
