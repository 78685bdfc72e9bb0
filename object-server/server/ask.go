package server

import (
	"errors"
	"sync"
	"time"
)

// answerWait is how long a request waits for a device that is opened or looked at. One in order takes milliseconds.
const answerWait = time.Second

// errNoAnswer says that a call to a file system has not returned in time.
var errNoAnswer = errors.New("no answer")

// asker makes calls to file systems, which may never return: the caller stops waiting, and no second call of the name
// is made before the first has returned. Safe for concurrent use.
type asker[T any] struct {
	keeps bool // what was answered last is told while there is no answer

	mu      sync.Mutex
	running map[string]*call[T] // guarded by mu
	last    map[string]T        // guarded by mu
}

type call[T any] struct {
	done  chan struct{}
	value T // valid once done is closed, as is err
	err   error
}

func newAsker[T any](keeps bool) *asker[T] {
	return &asker[T]{keeps: keeps, running: map[string]*call[T]{}, last: map[string]T{}}
}

// ask returns what do returns, or joins the call that runs. After wait it is errNoAnswer, and the last answer if
// those are kept.
func (a *asker[T]) ask(name string, wait time.Duration, do func() (T, error)) (T, error) {
	c := a.start(name, do)
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-c.done:
		return c.value, c.err
	case <-timer.C:
		a.mu.Lock()
		defer a.mu.Unlock()
		return a.last[name], errNoAnswer
	}
}

func (a *asker[T]) start(name string, do func() (T, error)) *call[T] {
	a.mu.Lock()
	defer a.mu.Unlock()
	if c := a.running[name]; c != nil {
		return c
	}
	c := &call[T]{done: make(chan struct{})}
	a.running[name] = c
	go func() {
		c.value, c.err = do()
		a.mu.Lock()
		delete(a.running, name)
		if a.keeps && c.err == nil {
			a.last[name] = c.value
		}
		a.mu.Unlock()
		close(c.done)
	}()
	return c
}

// askAll asks for many names side by side.
func (a *asker[T]) askAll(names []string, do func(name string) (T, error)) ([]T, []error) {
	values, errs := make([]T, len(names)), make([]error, len(names))
	var all sync.WaitGroup
	for i, name := range names {
		all.Add(1)
		go func() {
			defer all.Done()
			values[i], errs[i] = a.ask(name, answerWait, func() (T, error) { return do(name) })
		}()
	}
	all.Wait()
	return values, errs
}

// calls are those that run.
func (a *asker[T]) calls() []*call[T] {
	a.mu.Lock()
	defer a.mu.Unlock()
	var all []*call[T]
	for _, c := range a.running {
		all = append(all, c)
	}
	return all
}
