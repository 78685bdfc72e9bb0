package awake

import (
	"sync"
	"sync/atomic"
	"time"
)

const (
	// tickEvery is how often the process notes that it runs.
	tickEvery = 100 * time.Millisecond
	// gapMost of the time between two ticks counts. On a busy machine a tick is late, too. It is much less than the
	// shortest wait for a disk.
	gapMost = 250 * time.Millisecond
)

// clock counts the time that a process has run.
type clock struct {
	real func() time.Duration // goes on while the process stands still
	last atomic.Pointer[tick]
}

// tick is the last time that the process is known to have run, by both clocks.
type tick struct{ real, awake time.Duration }

func newClock(real func() time.Duration) *clock {
	c := &clock{real: real}
	c.last.Store(&tick{real: real()})
	return c
}

// now never goes back: the tick is read before the time, and later ticks only add to what it says.
func (c *clock) now() time.Duration {
	last := c.last.Load()
	return last.awake + min(c.real()-last.real, gapMost)
}

// tick is called by one goroutine.
func (c *clock) tick() {
	last, real := c.last.Load(), c.real()
	c.last.Store(&tick{real, last.awake + min(real-last.real, gapMost)})
}

// process is the clock of this process. Its goroutine begins with the first use, and does not end.
var process = sync.OnceValue(func() *clock {
	started := time.Now()
	c := newClock(func() time.Duration { return time.Since(started) })
	go func() {
		for range time.Tick(tickEvery) {
			c.tick()
		}
	}()
	return c
})

// Now returns how long the process has run since the clock was first used. It never goes back.
func Now() time.Duration { return process().now() }

// Since returns how long the process has run since Now returned then.
func Since(then time.Duration) time.Duration { return Now() - then }

// Timer is a call that AfterFunc has planned.
type Timer struct {
	clock *clock
	due   time.Duration
	call  func()

	mu     sync.Mutex
	timer  *time.Timer // guarded by mu
	isOver bool        // the call has begun, or Stop was called; guarded by mu
}

// AfterFunc calls f in a goroutine of its own, once the process has run for d more.
func AfterFunc(d time.Duration, f func()) *Timer { return process().afterFunc(d, f) }

func (c *clock) afterFunc(d time.Duration, f func()) *Timer {
	t := &Timer{clock: c, due: c.now() + d, call: f}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.timer = time.AfterFunc(d, t.look)
	return t
}

// look makes the call if it is due. Otherwise the process has stood still, and the timer waits for the rest.
func (t *Timer) look() {
	t.mu.Lock()
	left := t.due - t.clock.now()
	isDue := !t.isOver && left <= 0
	if isDue {
		t.isOver = true
	} else if !t.isOver {
		t.timer.Reset(left)
	}
	t.mu.Unlock()
	if isDue {
		t.call()
	}
}

// Stop prevents the call. It returns false if the call has begun, or was prevented before.
func (t *Timer) Stop() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	isFirst := !t.isOver
	t.isOver = true
	t.timer.Stop()
	return isFirst
}
