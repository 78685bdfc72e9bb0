package grid

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"

	"martlet/object-server/grid/frame"
)

// deadlineMax is the longest deadline, in milliseconds; a longer one is as good as none.
const deadlineMax = 1 << 40

// task is a request of the peer that waits for a worker, or runs.
type task struct {
	next            *task
	conn            *Conn
	ctx             *requestContext
	id              uint64
	handler         Handler
	payload, answer []byte
}

var taskPool = sync.Pool{New: func() any { return &task{} }}

func (t *task) free() {
	if cap(t.payload)+cap(t.answer) <= keptMax {
		*t = task{payload: t.payload[:0], answer: t.answer[:0]}
		taskPool.Put(t)
	}
}

// requestContext is the context of a handler. It is not used again, because a handler may leave it behind.
type requestContext struct {
	conn     *Conn
	deadline time.Time // zero: none
	isResent bool

	mu   sync.Mutex
	done chan struct{} // made when asked for
	err  error
}

func (c *requestContext) Deadline() (time.Time, bool) { return c.deadline, !c.deadline.IsZero() }

func (c *requestContext) Done() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.done == nil {
		c.done = make(chan struct{})
		if c.err != nil {
			close(c.done)
		}
	}
	return c.done
}

func (c *requestContext) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

func (c *requestContext) Value(key any) any {
	if key == (contextKey{}) {
		return c
	}
	return nil
}

// end ends the context, once.
func (c *requestContext) end(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return
	}
	c.err = err
	if c.done != nil {
		close(c.done)
	}
}

// newContext returns the context of a request or stream. The caller holds mu.
func (c *Conn) newContext(f *frame.Frame) *requestContext {
	ctx := &requestContext{conn: c, isResent: f.Flags&frame.Resent != 0}
	if f.Deadline > 0 {
		left := time.Duration(min(f.Deadline, deadlineMax)) * time.Millisecond
		ctx.deadline = c.grid.config.Clock.Now().Add(left)
		c.serveSweep.add(ctx.deadline)
	}
	return ctx
}

// refuseRequest says why a request or stream is not begun; nil: it is. The caller holds mu.
func (c *Conn) refuseRequest(f *frame.Frame, hasHandler bool) *Error {
	switch {
	case c.isDraining:
		return &Error{CodeGoingAway, ""}
	case uint64(len(f.Payload)) > c.ours.MaxPayload:
		return &Error{CodeTooLarge, fmt.Sprintf("%d bytes, the limit is %d", len(f.Payload), c.ours.MaxPayload)}
	case !hasHandler:
		return &Error{CodeUnknownName, ""}
	case f.Type == frame.Request && uint64(c.inFlight) >= c.ours.MaxRequests:
		return &Error{CodeBusy, "max_requests"}
	case f.Type == frame.Request && uint64(c.inFlightBytes+len(f.Payload)) > c.ours.MaxBytes:
		return &Error{CodeBusy, "max_bytes"}
	case f.Type == frame.Open && uint64(c.theirStreams) >= c.ours.MaxStreams:
		return &Error{CodeBusy, "max_streams"}
	}
	return nil
}

// refuseWith answers a request that is not begun. The caller holds mu.
func (c *Conn) refuseWith(id uint64, e *Error) {
	if e.Code == CodeBusy {
		c.grid.counters.busy.Add(1)
	}
	c.react(c.sendError(id, e), frame.Overhead+len(e.Reason))
}

// requested takes a REQUEST.
func (c *Conn) requested(f *frame.Frame, tasks *taskList) {
	handler := c.grid.config.Mux.entries[string(f.Name)].request
	c.mu.Lock()
	if c.cause != nil {
		c.mu.Unlock()
		return
	}
	if e := c.refuseRequest(f, handler != nil); e != nil {
		c.refuseWith(f.ID, e)
		c.mu.Unlock()
		return
	}
	ctx := c.newContext(f)
	c.active[f.ID] = ctx
	c.inFlight++
	c.inFlightBytes += len(f.Payload)
	c.mu.Unlock()
	t := taskPool.Get().(*task)
	t.conn, t.ctx, t.id, t.handler = c, ctx, f.ID, handler
	t.payload = append(t.payload[:0], f.Payload...)
	tasks.push(t)
}

// run executes the request in a worker.
func (t *task) run() {
	c := t.conn
	if c.answers.Load() > int64(c.grid.config.AnswersMax) && c.park(t) {
		return
	}
	err := t.ctx.Err()
	if err == nil {
		c.grid.counters.served.Add(1)
		err = c.grid.call(t)
	}
	c.finish(t, err)
	t.free()
}

// park lets a task wait until the peer has taken answers. It returns false if that has happened meanwhile.
func (c *Conn) park(t *task) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cause != nil || c.answers.Load() <= int64(c.grid.config.AnswersMax) {
		return false
	}
	c.parked.push(t)
	return true
}

// unpark begins the tasks that have waited. The caller holds mu.
func (c *Conn) unpark() {
	if c.cause == nil {
		c.grid.pool.submit(&c.parked)
	}
}

// call runs the handler; a panic is an error, as it is in net/http.
func (g *Grid) call(t *task) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = g.panicked(p)
		}
	}()
	answer, err := t.handler(t.ctx, t.payload, t.answer[:0])
	if err == nil {
		t.answer = answer
	}
	return err
}

func (g *Grid) panicked(p any) error {
	g.counters.panics.Add(1)
	g.config.Log.Error("grid: a handler panicked", slog.Any("panic", p), slog.String("stack", string(debug.Stack())))
	return &Error{CodeFailed, "the handler panicked"}
}

// finish answers a request, unless the requester has cancelled it.
func (c *Conn) finish(t *task, err error) {
	if err == nil && uint64(len(t.answer)) > c.theirs.MaxPayload {
		err = &Error{CodeTooLarge, fmt.Sprintf("the answer has %d bytes, the limit is %d", len(t.answer), c.theirs.MaxPayload)}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cause != nil {
		return
	}
	isWanted := c.active[t.id] == t.ctx
	delete(c.active, t.id)
	t.ctx.end(context.Canceled)
	if !isWanted {
		c.inFlight--
		c.inFlightBytes -= len(t.payload)
		c.finishDrain()
		return
	}
	var b *batch
	if err != nil {
		b = c.sendError(t.id, asError(err))
	} else {
		b = c.room(frame.Overhead + len(t.answer))
		b.b = frame.AppendAnswer(b.b, t.id, t.answer)
		b.answers += len(t.answer)
		c.answers.Add(int64(len(t.answer)))
	}
	b.ended++
	b.endedBytes += len(t.payload)
}

// cancelled takes a CANCEL.
func (c *Conn) cancelled(id uint64) {
	c.mu.Lock()
	ctx, s := c.active[id], c.streams[id]
	delete(c.active, id)
	c.mu.Unlock()
	if ctx != nil {
		ctx.end(context.Canceled)
	}
	if s != nil && !s.isOurs {
		s.stop(&Error{CodeCancelled, "the requester cancelled"})
	}
}

// sweepServed ends the requests and streams of the peer whose deadline has passed.
func (c *Conn) sweepServed() {
	var late []*requestContext
	var lateStreams []*Stream
	c.mu.Lock()
	now := c.grid.config.Clock.Now()
	c.serveSweep.begin()
	for _, ctx := range c.active {
		if isLate(ctx.deadline, now) {
			late = append(late, ctx)
		} else {
			c.serveSweep.add(ctx.deadline)
		}
	}
	for _, s := range c.streams {
		switch {
		case s.isOurs:
		case isLate(s.ctx.deadline, now):
			lateStreams = append(lateStreams, s)
		default:
			c.serveSweep.add(s.ctx.deadline)
		}
	}
	c.mu.Unlock()
	for _, ctx := range late {
		ctx.end(context.DeadlineExceeded)
	}
	for _, s := range lateStreams {
		s.cancel(&Error{CodeDeadline, ""})
	}
}
