package server

import "time"

// How long a worker waits for its next call, and how many wait at most.
const (
	workerIdleTime = 10 * time.Second
	workersIdleMax = 256
)

// workers run calls in goroutines that serve many, one after another: a new goroutine would begin with a small stack
// and copy it three times over until a request fits.
type workers struct {
	calls chan func()
	idle  chan struct{} // one for each that waits
}

func newWorkers() workers {
	return workers{make(chan func()), make(chan struct{}, workersIdleMax)}
}

// run calls f in a goroutine of its own, at once.
func (w workers) run(f func()) {
	select {
	case w.calls <- f:
	default:
		go w.serve(f)
	}
}

func (w workers) serve(f func()) {
	timer := time.NewTimer(workerIdleTime)
	defer timer.Stop()
	for {
		f()
		f = nil // what it holds is not needed meanwhile
		select {
		case w.idle <- struct{}{}:
		default:
			return
		}
		timer.Reset(workerIdleTime)
		select {
		case f = <-w.calls:
			<-w.idle
		case <-timer.C:
			<-w.idle
			return
		}
	}
}
