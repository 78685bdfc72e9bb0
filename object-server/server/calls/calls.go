package calls

import (
	"errors"
	"sync"
	"time"

	"martlet/object-server/awake"
)

// Wait is how long a request waits for a call to a device. A device in order answers in milliseconds.
const Wait = time.Second

// ErrNoAnswer means that a call has not returned in time.
var ErrNoAnswer = errors.New("no answer")

// Group makes calls by name. Safe for concurrent use.
type Group[T any] struct {
	keepsLast bool // Do returns the last result of the name while there is no new one

	mu      sync.Mutex
	running map[string]*call[T] // guarded by mu
	last    map[string]T        // guarded by mu
}

type call[T any] struct {
	done  chan struct{}
	value T // valid once done is closed, as is err
	err   error
}

// New returns a group. With keepsLast a caller whose call has not returned gets the last result of that name.
func New[T any](keepsLast bool) *Group[T] {
	return &Group[T]{keepsLast: keepsLast, running: map[string]*call[T]{}, last: map[string]T{}}
}

// Do returns the result of do, or of the call of that name that already runs. After wait it returns ErrNoAnswer, and the
// last result if the group keeps those. Time in which the process was halted does not count.
func (g *Group[T]) Do(name string, wait time.Duration, do func() (T, error)) (T, error) {
	c := g.start(name, do)
	over := make(chan struct{})
	defer awake.AfterFunc(wait, func() { close(over) }).Stop()
	select {
	case <-c.done:
		return c.value, c.err
	case <-over:
		g.mu.Lock()
		defer g.mu.Unlock()
		return g.last[name], ErrNoAnswer
	}
}

func (g *Group[T]) start(name string, do func() (T, error)) *call[T] {
	g.mu.Lock()
	defer g.mu.Unlock()
	if c := g.running[name]; c != nil {
		return c
	}
	c := &call[T]{done: make(chan struct{})}
	g.running[name] = c
	go func() {
		c.value, c.err = do()
		g.mu.Lock()
		delete(g.running, name)
		if g.keepsLast && c.err == nil {
			g.last[name] = c.value
		}
		g.mu.Unlock()
		close(c.done)
	}()
	return c
}

// DoAll calls do for many names in parallel; each call has the time Wait.
func (g *Group[T]) DoAll(names []string, do func(name string) (T, error)) ([]T, []error) {
	values, errs := make([]T, len(names)), make([]error, len(names))
	var all sync.WaitGroup
	for i, name := range names {
		all.Add(1)
		go func() {
			defer all.Done()
			values[i], errs[i] = g.Do(name, Wait, func() (T, error) { return do(name) })
		}()
	}
	all.Wait()
	return values, errs
}

// Running returns a channel for each call that runs now; it is closed when that call has returned.
func (g *Group[T]) Running() []<-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	var all []<-chan struct{}
	for _, c := range g.running {
		all = append(all, c.done)
	}
	return all
}
