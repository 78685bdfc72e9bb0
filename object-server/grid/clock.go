package grid

import "time"

// Clock is the time that deadlines and liveness go by. Safe for concurrent use.
type Clock interface {
	Now() time.Time
	// AfterFunc calls f in a goroutine of its own after d.
	AfterFunc(d time.Duration, f func()) Timer
}

// Timer is a call that is due later.
type Timer interface {
	Stop() bool
	Reset(d time.Duration) bool
}

type systemClock struct{}

func (systemClock) Now() time.Time                            { return time.Now() }
func (systemClock) AfterFunc(d time.Duration, f func()) Timer { return time.AfterFunc(d, f) }

// sweep calls a function when the earliest of many deadlines has passed. It does not know which one that is: the
// function looks at all of them and says which is next. Most requests end long before their deadline, so this costs
// less than a timer for each. Its user guards it with a lock.
type sweep struct {
	clock Clock
	call  func()
	timer Timer
	next  time.Time // zero: the timer is not set
}

// add makes sure that the sweep is not later than the deadline.
func (s *sweep) add(deadline time.Time) {
	if deadline.IsZero() || !s.next.IsZero() && !deadline.Before(s.next) {
		return
	}
	s.next = deadline
	wait := max(deadline.Sub(s.clock.Now()), 0)
	if s.timer == nil {
		s.timer = s.clock.AfterFunc(wait, s.call)
	} else {
		s.timer.Reset(wait)
	}
}

// begin is called when the timer is due; the user adds what is left afterwards.
func (s *sweep) begin() { s.next = time.Time{} }

func (s *sweep) stop() {
	if s.timer != nil {
		s.timer.Stop()
	}
}
