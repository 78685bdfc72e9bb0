package grid

import (
	"slices"
	"sync"
)

// idleMax bounds the workers that wait for tasks.
const idleMax = 256

// pool runs tasks in goroutines that are used again, WorkersMax at most. A worker that takes a task wakes another one if
// more wait, unless one is on its way already. So short tasks share the few goroutines that the processors can run, and a
// task that blocks does not hold up the others. The first task in is the first to begin, with one exception: a connection
// gets no more workers than it leaves free. So peers whose handlers hang do not stop those of the others.
type pool struct {
	mu          sync.Mutex
	tasks       taskList
	admitted    taskList // tasks that had to wait for a share of their connection, and have one now
	running     int      // tasks that run, and the admitted ones
	withheld    []*Conn  // connections with tasks that wait for a share
	idle        []chan struct{}
	workers     int
	workersMax  int
	isSearching bool // a worker was woken and has not taken a task yet
	isStopped   bool
}

// share is the part of a connection in the pool, which guards it.
type share struct {
	running int
	waiting taskList
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
	if p.tasks.head == nil && p.admitted.head == nil || p.isSearching {
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
		for t := p.next(); t != nil; t = p.next() {
			p.wake()
			c := t.conn
			p.mu.Unlock()
			t.run()
			p.mu.Lock()
			p.ended(c)
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

// next is the task to run now; nil: none. The caller holds mu.
func (p *pool) next() *task {
	if t := p.admitted.pop(); t != nil {
		return t
	}
	for t := p.tasks.pop(); t != nil; t = p.tasks.pop() {
		if t.conn.share.waiting.head == nil && p.admit(t.conn) {
			return t
		}
		if t.conn.share.waiting.head == nil {
			p.withheld = append(p.withheld, t.conn)
		}
		t.conn.share.waiting.push(t)
	}
	return nil
}

// admit counts one more task of a connection, if the connection leaves as many workers free as it has.
func (p *pool) admit(c *Conn) bool {
	if c.share.running >= p.workersMax-p.running {
		return false
	}
	c.share.running++
	p.running++
	return true
}

// ended counts the end of a task, after which others may be admitted. The caller holds mu.
func (p *pool) ended(c *Conn) {
	c.share.running--
	p.running--
	p.withheld = slices.DeleteFunc(p.withheld, func(other *Conn) bool {
		for other.share.waiting.head != nil && p.admit(other) {
			p.admitted.push(other.share.waiting.pop())
		}
		return other.share.waiting.head == nil
	})
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
