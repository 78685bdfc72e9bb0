package updates

import "sync"

// rounds tells when all writes that are under way have ended. It is safe for concurrent use.
type rounds struct {
	mu      sync.Mutex
	current *round // nil: no write has begun since the last one was over
}

// round are the writes that began in a time. Guarded by rounds.mu.
type round struct {
	writes int           // under way
	isOver bool          // no more begin in it
	ended  chan struct{} // closed once it is over and they have ended
}

func (r *rounds) begin() (end func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.current == nil {
		r.current = &round{ended: make(chan struct{})}
	}
	in := r.current
	in.writes++
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		in.writes--
		in.closeIfEnded()
	}
}

// over returns a channel that is closed when all writes have ended that have begun since the last call.
func (r *rounds) over() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	in := r.current
	if in == nil {
		in = &round{ended: make(chan struct{})}
	}
	r.current, in.isOver = nil, true
	in.closeIfEnded()
	return in.ended
}

func (r *round) closeIfEnded() {
	if r.isOver && r.writes == 0 {
		close(r.ended)
	}
}

// Begin says that a write of an object begins, before its record is durable. end says that its updates are delivered, or
// pending, or that it has failed.
func (p *Pending) Begin() (end func()) { return p.writes.begin() }

// WritesOver returns a channel that is closed when all writes have ended that have begun since the last call.
func (p *Pending) WritesOver() <-chan struct{} { return p.writes.over() }
