package device

import (
	"fmt"
	"sync/atomic"
	"time"

	"martlet/object-server/awake"
)

const (
	// busyAfter is how long an operation waits for others before it is refused. A device
	// in order serves hundreds meanwhile.
	busyAfter = 2 * time.Second
	// stuckAfter is how long nothing comes back from a device before it counts as hanging.
	stuckAfter = 10 * time.Second
	// largeWait times as long a large file may take: a rotating disk flushes one after the other.
	largeWait = 6
)

// limit bounds the number of calls at a time. Each call to a disk that does not answer
// takes a thread, and a process has a limited number of them. Calls that wait take memory,
// and the places of requests that other devices would serve.
type limit struct {
	places   chan struct{} // one token for each that is in
	progress atomic.Int64  // when one left, or the first came in; by the clock
	wait     time.Duration // for a place
	stuck    time.Duration // without progress while one is in
}

func newLimit(most int, wait, stuck time.Duration) limit {
	return limit{places: make(chan struct{}, most), wait: wait, stuck: stuck}
}

// clock is a time in nanoseconds. It stands still while the process does: a halt is no silence of the disk.
func clock() int64 { return int64(awake.Now()) }

// enter waits for a place, which leave gives back. ErrBusy if none gets free in time,
// ErrStuck at once if none has for long.
func (l *limit) enter() error {
	if len(l.places) == 0 { // before it is taken, or an old time would count for a moment
		l.progress.Store(clock())
	}
	select {
	case l.places <- struct{}{}:
		return nil
	default:
		return l.queue()
	}
}

func (l *limit) queue() error {
	if err := l.check(); err != nil {
		return err
	}
	over := make(chan struct{})
	defer awake.AfterFunc(l.wait, func() { close(over) }).Stop()
	select {
	case l.places <- struct{}{}:
		return nil
	case <-over:
		if err := l.check(); err != nil {
			return err
		}
		return fmt.Errorf("%w: %d at once", ErrBusy, cap(l.places))
	}
}

func (l *limit) leave() {
	l.progress.Store(clock())
	<-l.places
}

// during does something while it has a place.
func (l *limit) during(do func() error) error {
	if err := l.enter(); err != nil {
		return err
	}
	defer l.leave()
	return do()
}

// check returns ErrStuck if some are in and none has left for long.
func (l *limit) check() error {
	if len(l.places) == 0 {
		return nil
	}
	if idle := time.Duration(clock() - l.progress.Load()); idle > l.stuck {
		return fmt.Errorf("%w for %v", ErrStuck, idle.Round(time.Second))
	}
	return nil
}
