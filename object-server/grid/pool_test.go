package grid

import (
	"context"
	"sync"
	"testing"
)

// newTask returns a task that calls f. It belongs to a connection that has ended, so it answers nothing.
func newTask(f func()) *task {
	c := &Conn{grid: &Grid{}, cause: ErrClosed}
	c.grid.config.AnswersMax = 1
	return &task{conn: c, ctx: &requestContext{conn: c}, handler: func(context.Context, []byte, []byte) ([]byte, error) {
		f()
		return nil, nil
	}}
}

func (p *pool) counts() (workers, idle int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.workers, len(p.idle)
}

func TestTasksThatBlockDoNotHoldUpOthers(t *testing.T) {
	p := &pool{workersMax: 50}
	for range 3 { // the later rounds also use workers of the first
		var all, done sync.WaitGroup
		all.Add(50)
		done.Add(50)
		var tasks taskList
		for range 50 {
			tasks.push(newTask(func() {
				defer done.Done()
				all.Done()
				all.Wait() // ends only when all have begun
			}))
		}
		p.submit(&tasks)
		done.Wait()
	}
	eventually(t, "all wait", func() bool { _, idle := p.counts(); return idle == 50 })
	p.stop()
	eventually(t, "all end", func() bool { workers, _ := p.counts(); return workers == 0 })
}

func TestTheWorkersAreBounded(t *testing.T) {
	p := &pool{workersMax: 3}
	var mu sync.Mutex
	var running, most int
	var order []int
	var done sync.WaitGroup
	release := make(chan struct{})
	for i := range 100 {
		done.Add(1)
		var tasks taskList
		tasks.push(newTask(func() {
			defer done.Done()
			mu.Lock()
			running++
			most = max(most, running)
			order = append(order, i)
			mu.Unlock()
			<-release
			mu.Lock()
			running--
			mu.Unlock()
		}))
		p.submit(&tasks)
	}
	eventually(t, "three run", func() bool { mu.Lock(); defer mu.Unlock(); return running == 3 })
	close(release)
	done.Wait()
	if most != 3 || len(order) != 100 {
		t.Error(most, len(order))
	}
	p.stop()
	eventually(t, "all end", func() bool { workers, _ := p.counts(); return workers == 0 })
}

func TestOneConnectionLeavesWorkersToOthers(t *testing.T) {
	p := &pool{workersMax: 16}
	release := make(chan struct{})
	var done sync.WaitGroup
	var mu sync.Mutex
	begun := map[*Conn]int{}
	hang := func(c *Conn, count int) {
		var tasks taskList
		for range count {
			done.Add(1)
			one := newTask(func() {
				defer done.Done()
				mu.Lock()
				begun[c]++
				mu.Unlock()
				<-release
			})
			one.conn, one.ctx.conn = c, c
			tasks.push(one)
		}
		p.submit(&tasks)
	}
	conns := []*Conn{newTask(nil).conn, newTask(nil).conn, newTask(nil).conn}
	for i, most := range []int{8, 4, 2} {
		hang(conns[i], 20)
		eventually(t, "the share is used", func() bool {
			mu.Lock()
			defer mu.Unlock()
			return begun[conns[i]] == most
		})
	}
	var order []int
	for i := range 3 { // of a connection that begins now, one at a time
		ended := make(chan struct{})
		var tasks taskList
		tasks.push(newTask(func() { order = append(order, i); close(ended) }))
		p.submit(&tasks)
		<-ended
	}
	close(release)
	done.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	if begun[conns[0]] != 20 || len(order) != 3 || len(p.withheld) != 0 {
		t.Error(begun, order, p.withheld)
	}
}

func TestIdleWorkersAreBounded(t *testing.T) {
	p := &pool{workersMax: 2 * idleMax}
	var all, done sync.WaitGroup
	all.Add(2 * idleMax)
	done.Add(2 * idleMax)
	var tasks taskList
	for range 2 * idleMax {
		tasks.push(newTask(func() {
			all.Done()
			all.Wait()
			done.Done()
		}))
	}
	p.submit(&tasks)
	done.Wait()
	eventually(t, "the others end", func() bool { workers, idle := p.counts(); return workers == idleMax && idle == idleMax })
	p.stop()
}
