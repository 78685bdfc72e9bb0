package server

import "time"

// workerIdleMax is how long a worker waits for its next call.
const workerIdleMax = 10 * time.Second

// workers run calls in goroutines that serve many, one after another: a new goroutine would begin with a small stack
// and copy it three times over until a request fits.
type workers struct{ calls chan func() }

func newWorkers() workers { return workers{make(chan func())} }

// run calls f in a goroutine of its own, at once.
func (w workers) run(f func()) {
	select {
	case w.calls <- f:
	default:
		go w.serve(f)
	}
}

func (w workers) serve(f func()) {
	idle := time.NewTimer(workerIdleMax)
	defer idle.Stop()
	for {
		f()
		idle.Reset(workerIdleMax)
		select {
		case f = <-w.calls:
		case <-idle.C:
			return
		}
	}
}
