package grid

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"martlet/object-server/grid/frame"
)

// Request is what a requester sends.
type Request struct {
	Name    string
	Payload []byte        // the requester's again when Do returns
	Timeout time.Duration // from now, in addition to the deadline of the context; 0: none
	Resent  bool          // the request may have been executed before, over a connection that was lost
}

// Requester is a Peer or a Conn.
type Requester interface {
	Do(ctx context.Context, r Request, answer []byte) ([]byte, error)
}

// call is a request in flight, or one that waits for the limits of the peer.
type call struct {
	done    chan struct{} // of capacity 1
	request Request
	answer  []byte
	err     error

	id        uint64        // 0: not sent
	left      time.Duration // until the deadline when it began; 0: no deadline
	began     time.Time     // set if left is
	deadline  time.Time     // that the sweep looks at; zero: none
	previous  *call
	next      *call
	isWaiting bool
}

var calls = sync.Pool{New: func() any { return &call{done: make(chan struct{}, 1)} }}

func (c *call) free() {
	*c = call{done: c.done}
	calls.Put(c)
}

// complete hands the call back to its requester. It must be in no list any more.
func (c *call) complete(err error) {
	c.err = err
	c.done <- struct{}{}
}

// callList is first in, first out.
type callList struct{ head, tail *call }

func (l *callList) push(c *call) {
	c.isWaiting, c.previous, c.next = true, l.tail, nil
	if l.tail == nil {
		l.head = c
	} else {
		l.tail.next = c
	}
	l.tail = c
}

func (l *callList) remove(c *call) {
	if c.previous == nil {
		l.head = c.next
	} else {
		c.previous.next = c.next
	}
	if c.next == nil {
		l.tail = c.previous
	} else {
		c.next.previous = c.previous
	}
	c.isWaiting, c.previous, c.next = false, nil, nil
}

func (l *callList) pop() *call {
	c := l.head
	if c != nil {
		l.remove(c)
	}
	return c
}

// Do sends a request and waits for its answer, which it appends to answer. Requests beyond the limits of the peer wait
// for their turn. Errors: Error, ErrLost, ErrUnreachable if the request was not sent, and the error of the context. If
// the context ends, the responder gets CANCEL; it may still be busy with the request, and then refuse another one
// with CodeBusy.
func (c *Conn) Do(ctx context.Context, r Request, answer []byte) ([]byte, error) {
	answer, err := c.do(ctx, r, answer)
	if errors.Is(err, errUnsent) {
		err = fmt.Errorf("%w: the connection ends", ErrUnreachable)
	}
	return answer, err
}

// do is Do with errUnsent in place of ErrUnreachable.
func (c *Conn) do(ctx context.Context, r Request, answer []byte) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return answer, err
	}
	one := calls.Get().(*call)
	defer one.free()
	one.request, one.answer = r, answer
	c.setDeadline(ctx, one)
	if err := c.begin(one); err != nil {
		return answer, err
	}
	if ctx.Done() == nil {
		<-one.done
		return one.answer, one.err
	}
	select {
	case <-one.done:
	case <-ctx.Done():
		if c.abandon(one) {
			return answer, ctx.Err()
		}
		<-one.done
	}
	return one.answer, one.err
}

// setDeadline notes the time that is left.
func (c *Conn) setDeadline(ctx context.Context, one *call) {
	one.left = one.request.Timeout
	if until, is := ctx.Deadline(); is {
		if left := max(time.Until(until), 1); one.left == 0 || left < one.left {
			one.left = left
		}
	}
	if one.left > 0 {
		one.began = c.grid.config.Clock.Now()
	}
	if one.request.Timeout > 0 {
		one.deadline = one.began.Add(one.request.Timeout)
	}
}

// begin sends the request, or lets it wait.
func (c *Conn) begin(one *call) error {
	r := &one.request
	if size := uint64(len(r.Payload)); size > min(c.theirs.MaxPayload, c.theirs.MaxBytes) {
		return &Error{CodeTooLarge, fmt.Sprintf("%d bytes", size)}
	}
	if len(r.Name) > frame.NameMax {
		return &Error{CodeUnknownName, r.Name}
	}
	if c.theirs.MaxRequests == 0 {
		return &Error{CodeBusy, "the peer takes no requests"}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.isGone.Load() {
		return errUnsent
	}
	c.callSweep.add(one.deadline)
	if c.waiting.head == nil && c.fits(one) {
		c.send(one)
	} else {
		c.waiting.push(one)
	}
	return nil
}

// fits says whether the limits of the peer allow the request now, and ours. The caller holds mu.
func (c *Conn) fits(one *call) bool {
	return c.requests < requestsMax && uint64(c.calling) < c.theirs.MaxRequests &&
		uint64(c.callData+len(one.request.Payload)) <= c.theirs.MaxBytes
}

// send queues the REQUEST. The caller holds mu.
func (c *Conn) send(one *call) {
	r := &one.request
	one.id = c.nextID
	c.nextID += 2
	c.calls[one.id] = one
	c.calling++
	c.callData += len(r.Payload)
	var flags uint64
	if r.Resent {
		flags = frame.Resent
	}
	b := c.room(frame.Overhead + len(r.Name) + len(r.Payload))
	before := len(b.b)
	b.b = frame.AppendRequest(b.b, one.id, r.Name, c.millisecondsLeft(one), flags, r.Payload)
	b.requests += len(b.b) - before
	c.requests += len(b.b) - before
	c.grid.counters.sent.Add(1)
}

// millisecondsLeft is at least 1 if there is a deadline, because 0 means none.
func (c *Conn) millisecondsLeft(one *call) uint64 {
	if one.left == 0 {
		return 0
	}
	left := one.left
	if one.isWaiting {
		left -= c.grid.config.Clock.Now().Sub(one.began)
	}
	return milliseconds(left)
}

func milliseconds(left time.Duration) uint64 {
	return uint64(max((left+time.Millisecond-1)/time.Millisecond, 1))
}

// take removes the call of an id from those in flight, and sends calls that have waited. It returns nil if there is
// none: the requester has given up. The caller holds mu.
func (c *Conn) take(id uint64) *call {
	one := c.calls[id]
	if one == nil {
		return nil
	}
	delete(c.calls, id)
	c.calling--
	c.callData -= len(one.request.Payload)
	c.admit()
	return one
}

// admit sends the calls that have waited for others to end. The caller holds mu.
func (c *Conn) admit() {
	for next := c.waiting.head; next != nil && c.fits(next); next = c.waiting.head {
		c.send(next)
		c.waiting.remove(next)
	}
	c.finishDrain()
}

// abandon ends a call whose requester gives up. It returns false if the call has ended already, or is about to.
func (c *Conn) abandon(one *call) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cause != nil {
		return false
	}
	if one.isWaiting {
		c.waiting.remove(one)
		c.admit()
		return true
	}
	if one.id == 0 || c.calls[one.id] != one {
		return false
	}
	c.sendNumber(frame.Cancel, one.id)
	c.take(one.id)
	return true
}

// answered takes an ANSWER.
func (c *Conn) answered(f *frame.Frame) error {
	if uint64(len(f.Payload)) > c.ours.MaxPayload {
		return protocolError("an answer of %d bytes", len(f.Payload))
	}
	c.mu.Lock()
	one := c.take(f.ID)
	if one == nil {
		defer c.mu.Unlock()
		return c.unusedID(f.ID)
	}
	c.mu.Unlock()
	one.answer = append(one.answer, f.Payload...)
	one.complete(nil)
	return nil
}

// failed takes an ERROR.
func (c *Conn) failed(f *frame.Frame) error {
	err := &Error{Code(f.Code), string(f.Reason)}
	c.mu.Lock()
	one, s, unused := c.take(f.ID), c.streams[f.ID], c.unusedID(f.ID)
	c.mu.Unlock()
	switch {
	case one == nil && s == nil:
		return unused
	case one == nil:
		s.stop(err)
	case err.Code == CodeGoingAway:
		one.complete(errUnsent)
	default:
		one.complete(err)
	}
	return nil
}

// sweepCalls ends the calls whose deadline has passed. The responder ends them by itself.
func (c *Conn) sweepCalls() {
	var late []*call
	c.mu.Lock()
	now := c.grid.config.Clock.Now()
	c.callSweep.begin()
	for one := c.waiting.head; one != nil; {
		next := one.next
		if isLate(one.deadline, now) {
			c.waiting.remove(one)
			late = append(late, one)
		} else {
			c.callSweep.add(one.deadline)
		}
		one = next
	}
	for _, one := range c.calls {
		if isLate(one.deadline, now) {
			late = append(late, one)
		} else {
			c.callSweep.add(one.deadline)
		}
	}
	for _, one := range late {
		c.take(one.id)
	}
	if c.cause == nil {
		c.admit()
	}
	c.mu.Unlock()
	for _, one := range late {
		one.complete(&Error{CodeDeadline, "no answer came in time"})
	}
}

func isLate(deadline, now time.Time) bool { return !deadline.IsZero() && !deadline.After(now) }

// callBuffer has the buffers of a typed call.
type callBuffer struct{ payload, answer []byte }

var callBuffers = sync.Pool{New: func() any { return &callBuffer{} }}

func (b *callBuffer) free() {
	if cap(b.payload)+cap(b.answer) <= keptMax {
		callBuffers.Put(b)
	}
}
