package grid

import "sync"

// idleMax bounds the workers that wait for tasks.
const idleMax = 256

// pool runs tasks in goroutines that are used again, WorkersMax at most. A worker that takes a task wakes another one if
// more wait, unless one is on its way already. So short tasks share the few goroutines that the processors can run, and a
// task that blocks does not hold up the others. The first task in is the first to begin.
type pool struct {
	mu          sync.Mutex
	tasks       taskList
	idle        []chan struct{}
	workers     int
	workersMax  int
	isSearching bool // a worker was woken and has not taken a task yet
	isStopped   bool
}

// taskList is first in, first out.
type taskList struct{ head, tail *task }

func (l *taskList) push(t *task) {
	if l.tail == nil {
		l.head = t
	} else {
		l.tail.next = t
	}
	l.tail = t
}

// add moves all tasks of the other list behind those of this one.
func (l *taskList) add(other *taskList) {
	if other.head == nil {
		return
	}
	if l.tail == nil {
		l.head = other.head
	} else {
		l.tail.next = other.head
	}
	l.tail = other.tail
	*other = taskList{}
}

func (l *taskList) pop() *task {
	t := l.head
	if t != nil {
		if l.head = t.next; l.head == nil {
			l.tail = nil
		}
		t.next = nil
	}
	return t
}

// submit takes over the tasks of the list.
func (p *pool) submit(tasks *taskList) {
	if tasks.head == nil {
		return
	}
	p.mu.Lock()
	p.tasks.add(tasks)
	p.wake()
	p.mu.Unlock()
}

// wake sees to it that a worker is on its way to the tasks that wait. The caller holds mu.
func (p *pool) wake() {
	if p.tasks.head == nil || p.isSearching {
		return
	}
	if n := len(p.idle); n > 0 {
		p.isSearching = true
		p.idle[n-1] <- struct{}{}
		p.idle = p.idle[:n-1]
	} else if p.workers < p.workersMax {
		p.isSearching = true
		p.workers++
		go p.work()
	}
}

// work runs tasks until enough other workers wait for them.
func (p *pool) work() {
	woken := make(chan struct{}, 1)
	p.mu.Lock()
	for {
		p.isSearching = false
		for t := p.tasks.pop(); t != nil; t = p.tasks.pop() {
			p.wake()
			p.mu.Unlock()
			t.run()
			p.mu.Lock()
		}
		if p.isStopped || len(p.idle) >= idleMax {
			p.workers--
			p.mu.Unlock()
			return
		}
		p.idle = append(p.idle, woken)
		p.mu.Unlock()
		<-woken
		p.mu.Lock()
	}
}

// stop ends the workers as soon as there are no tasks.
func (p *pool) stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.isStopped = true
	for _, worker := range p.idle {
		worker <- struct{}{}
	}
	p.idle = nil
}
