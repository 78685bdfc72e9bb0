package background

import (
	"context"
	"sync"
	"time"
)

// stopWait is how long Await waits for passes that are to stop. A disk that hangs does not delay the end.
const stopWait = 5 * time.Second

// Passes runs a pass over each piece of work in a goroutine of its own, so that one that takes long, or hangs, delays no
// other. Safe for concurrent use.
type Passes[W comparable, R any] struct {
	add func(total, report *R)

	mu      sync.Mutex
	running map[W]chan struct{} // closed when the pass has ended; guarded by mu
	ended   R                   // of the passes that no Await has reported yet; guarded by mu
}

// NewPasses returns Passes whose reports are added by add.
func NewPasses[W comparable, R any](add func(total, report *R)) *Passes[W, R] {
	return &Passes[W, R]{add: add, running: map[W]chan struct{}{}}
}

// Begin starts a pass, unless the one before over the same goes on.
func (p *Passes[W, R]) Begin(what W, run func(report *R)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.running[what] != nil {
		return
	}
	done := make(chan struct{})
	p.running[what] = done
	go func() {
		report := new(R)
		defer func() {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.add(&p.ended, report)
			close(done)
			delete(p.running, what)
		}()
		run(report)
	}()
}

// Add adds a report of no pass.
func (p *Passes[W, R]) Add(report *R) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.add(&p.ended, report)
}

// Await waits for all passes, so long at most; 0: however long it takes. It returns what those have done that have ended, and
// how many go on.
func (p *Passes[W, R]) Await(ctx context.Context, patience time.Duration) (report R, running int) {
	p.mu.Lock()
	var all []chan struct{}
	for _, done := range p.running {
		all = append(all, done)
	}
	p.mu.Unlock()
	over, end := context.WithCancel(context.Background())
	defer end()
	if patience > 0 {
		defer time.AfterFunc(patience, end).Stop()
	}
	defer context.AfterFunc(ctx, func() { time.AfterFunc(stopWait, end) })()
	for _, done := range all {
		select {
		case <-done:
		case <-over.Done():
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	var none R
	report, p.ended = p.ended, none
	return report, len(p.running)
}
