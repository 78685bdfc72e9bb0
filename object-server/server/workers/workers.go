package workers

import "time"

// How long a worker waits for its next call, and how many wait at most.
const (
	idleTime = 10 * time.Second
	idleMax  = 256
)

// Pool runs calls in goroutines. Safe for concurrent use.
type Pool struct {
	calls chan func()
	idle  chan struct{} // one for each worker that waits
}

// New returns an empty pool.
func New() Pool {
	return Pool{make(chan func()), make(chan struct{}, idleMax)}
}

// Run calls f in a goroutine of its own, at once.
func (p Pool) Run(f func()) {
	select {
	case p.calls <- f:
	default:
		go p.serve(f)
	}
}

func (p Pool) serve(f func()) {
	timer := time.NewTimer(idleTime)
	defer timer.Stop()
	for {
		f()
		f = nil // frees what f holds
		select {
		case p.idle <- struct{}{}:
		default:
			return
		}
		timer.Reset(idleTime)
		select {
		case f = <-p.calls:
			<-p.idle
		case <-timer.C:
			<-p.idle
			return
		}
	}
}
