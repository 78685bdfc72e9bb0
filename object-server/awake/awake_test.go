package awake

import (
	"sync/atomic"
	"testing"
	"time"

	"martlet/object-server/proof"
)

// hand is a clock whose time the test sets.
type hand struct{ atomic.Int64 }

func (h *hand) now() time.Duration { return time.Duration(h.Load()) }

func (h *hand) pass(d time.Duration) { h.Add(int64(d)) }

func TestTimeInWhichTheProcessRunsCounts(t *testing.T) {
	var real hand
	c := newClock(real.now)
	for range 1000 {
		real.pass(tickEvery)
		c.tick()
	}
	real.pass(tickEvery / 2) // between two ticks, too
	if want := 1000*tickEvery + tickEvery/2; c.now() != want {
		t.Errorf("%v, want %v", c.now(), want)
	}
}

func TestHaltCountsLittle(t *testing.T) {
	var real hand
	c := newClock(real.now)
	for halts := 1; halts <= 3; halts++ {
		real.pass(time.Hour)
		before := c.now() // the first one to ask, before the tick
		c.tick()
		want := time.Duration(halts) * gapMost
		if after := c.now(); before != want || after != want {
			t.Errorf("after %d halts: %v and %v, want %v", halts, before, after, want)
		}
	}
}

// While ticks come, no reader of the clock gets an earlier time than the one before.
func TestClockDoesNotGoBack(t *testing.T) {
	var real hand
	c := newClock(real.now)
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		for n := range 20_000 {
			real.pass(time.Duration(n%7) * gapMost / 4)
			if n%3 == 0 {
				c.tick()
			}
		}
	}()
	for last := c.now(); ; {
		now := c.now()
		if now < last {
			t.Fatalf("%v after %v", now, last)
		}
		last = now
		select {
		case <-stopped:
			return
		default:
		}
	}
}

func TestTimerWaitsForTheTimeAwake(t *testing.T) {
	var real hand
	c := newClock(real.now)
	called := make(chan struct{})
	timer := c.afterFunc(time.Millisecond, func() { close(called) })
	for range 20 { // the real timer fires, and the process has not run
		timer.look()
	}
	select {
	case <-called:
		t.Fatal("called while the clock stands still")
	default:
	}
	real.pass(time.Millisecond)
	<-called
	if timer.Stop() {
		t.Error("stopped after the call")
	}
	timer.look() // a late one calls nothing: the channel would be closed twice
}

func TestStoppedTimerCallsNothing(t *testing.T) {
	var real hand
	c := newClock(real.now)
	timer := c.afterFunc(time.Hour, func() { t.Error("called") })
	if !timer.Stop() || timer.Stop() {
		t.Error("the first Stop prevents the call, the second does not")
	}
	real.pass(2 * time.Hour)
	c.tick()
	timer.look()
}

// A real halt: neither the clock nor a timer counts it.
func TestHaltOfThisProcess(t *testing.T) {
	const halt = 3 * time.Second
	began, started := Now(), time.Now()
	timer := AfterFunc(halt, func() {})
	proof.Halt(t, halt)
	isPending := timer.Stop()
	counted, passed := Since(began), time.Since(started)
	if passed < halt || passed-counted < halt-2*gapMost {
		t.Errorf("of %v, %v counted", passed, counted)
	}
	if counted < halt && !isPending {
		t.Errorf("the timer fired after %v", counted)
	}
}
