package grid

import (
	"sync"
	"testing"
	"time"
)

// fakeClock stands still until a test moves it.
type fakeClock struct {
	mu     sync.Mutex
	now    time.Time
	timers map[*fakeTimer]struct{}
}

type fakeTimer struct {
	clock *fakeClock
	at    time.Time
	call  func()
}

func newFakeClock() *fakeClock {
	return &fakeClock{now: time.Unix(1e9, 0), timers: map[*fakeTimer]struct{}{}}
}

func (c *fakeClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *fakeClock) AfterFunc(d time.Duration, f func()) Timer {
	t := &fakeTimer{clock: c, call: f}
	t.Reset(d)
	return t
}

func (t *fakeTimer) Reset(d time.Duration) bool {
	t.clock.mu.Lock()
	defer t.clock.mu.Unlock()
	_, was := t.clock.timers[t]
	t.at = t.clock.now.Add(d)
	t.clock.timers[t] = struct{}{}
	return was
}

func (t *fakeTimer) Stop() bool {
	t.clock.mu.Lock()
	defer t.clock.mu.Unlock()
	_, was := t.clock.timers[t]
	delete(t.clock.timers, t)
	return was
}

func (c *fakeClock) hasTimers() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.timers) > 0
}

// advance moves the time, and calls what is due in its order.
func (c *fakeClock) advance(d time.Duration) {
	c.mu.Lock()
	end := c.now.Add(d)
	c.mu.Unlock()
	for call := c.next(end); call != nil; call = c.next(end) {
		call()
	}
}

func (c *fakeClock) next(end time.Time) func() {
	c.mu.Lock()
	defer c.mu.Unlock()
	var first *fakeTimer
	for t := range c.timers {
		if !t.at.After(end) && (first == nil || t.at.Before(first.at)) {
			first = t
		}
	}
	if first == nil {
		c.now = end
		return nil
	}
	if first.at.After(c.now) {
		c.now = first.at
	}
	delete(c.timers, first)
	return first.call
}

func TestASweepIsDueAtTheEarliestDeadline(t *testing.T) {
	clock := newFakeClock()
	var due []time.Duration
	start := clock.Now()
	s := sweep{clock: clock}
	deadlines := []time.Duration{9 * time.Second, 3 * time.Second, 5 * time.Second, 3 * time.Second}
	s.call = func() {
		s.begin()
		now := clock.Now()
		due = append(due, now.Sub(start))
		for _, d := range deadlines {
			if !isLate(start.Add(d), now) {
				s.add(start.Add(d))
			}
		}
	}
	for _, d := range deadlines {
		s.add(start.Add(d))
	}
	s.add(time.Time{}) // no deadline
	clock.advance(time.Minute)
	if len(due) != 3 || due[0] != 3*time.Second || due[1] != 5*time.Second || due[2] != 9*time.Second {
		t.Error(due)
	}
}
