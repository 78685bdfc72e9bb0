package grid

import (
	"runtime"
	"sync"

	"martlet/object-server/grid/frame"

	"github.com/gobwas/ws"
)

const (
	// mergeMax is how far frames are merged into one message; a longer frame has a message of its own.
	mergeMax = 256 << 10
	// dataMax bounds the bytes of DATA that wait to be written, so that requests need not wait behind more.
	dataMax = 1 << 20
	// requestsMax bounds the bytes of REQUEST and OPEN that wait to be written, also of those that were given up since;
	// further ones wait in the list of calls.
	requestsMax = 4 << 20
	// reactiveMax bounds the bytes that only answer what the reader got: refusals, PONG. More of them wait only if a peer
	// exceeds its limits and does not read.
	reactiveMax = 256 << 10
)

// batch is a message that waits to be written, and what ends when it is.
type batch struct {
	b  []byte // headRoom, then frames
	op ws.OpCode

	frames, ended, endedBytes, answers, data, requests, reactive int // counts, or bytes
}

var batches = sync.Pool{New: func() any { return &batch{b: make([]byte, headRoom, 4<<10)} }}

func (b *batch) free() {
	if cap(b.b) > keptMax {
		return
	}
	*b = batch{b: b.b[:headRoom]}
	batches.Put(b)
}

// room returns the batch that the next frame, of at most so many bytes, goes to. The caller holds mu.
func (c *Conn) room(size int) *batch {
	if n := len(c.queue); n > 0 {
		if last := c.queue[n-1]; last.op == ws.OpBinary && len(last.b)+size <= mergeMax {
			last.frames++
			return last
		}
	}
	b := batches.Get().(*batch)
	b.op, b.frames = ws.OpBinary, 1
	c.push(b)
	return b
}

// push queues a batch and wakes the writer. The caller holds mu.
func (c *Conn) push(b *batch) {
	c.queue = append(c.queue, b)
	if c.writerWaits {
		c.writerWaits = false
		c.work.Signal()
	}
}

// sendNumber queues a frame with one integer. The caller holds mu.
func (c *Conn) sendNumber(t frame.Type, number uint64) *batch {
	b := c.room(frame.Overhead)
	b.b = frame.AppendNumber(b.b, t, number)
	return b
}

// sendError queues an ERROR. The caller holds mu.
func (c *Conn) sendError(id uint64, e *Error) *batch {
	b := c.room(frame.Overhead + len(e.Reason))
	b.b = frame.AppendError(b.b, id, uint64(e.Code), e.Reason)
	return b
}

// react counts what was added to b since it had size bytes as an answer of the reader. The caller holds mu.
func (c *Conn) react(b *batch, bytes int) {
	b.reactive += bytes
	c.reactive += bytes
}

// pong queues the answer to a PING of RFC 6455. The reader calls it: it waits if the peer takes no answers.
func (c *Conn) pong(payload []byte) {
	c.mu.Lock()
	b := batches.Get().(*batch)
	b.op = ws.OpPong
	b.b = append(b.b, payload...)
	c.push(b)
	c.react(b, cap(b.b)) // a batch of its own
	c.mu.Unlock()
	c.awaitReaction()
}

// awaitReaction waits until the peer has taken what the reader answered, if that is too much.
func (c *Conn) awaitReaction() {
	c.mu.Lock()
	for c.reactive > reactiveMax && c.cause == nil {
		c.reacted.Wait()
	}
	c.mu.Unlock()
}

// write sends the batches, one message each, until the connection ends.
func (c *Conn) write() {
	c.mu.Lock()
	for c.cause == nil {
		if len(c.queue) == 0 {
			c.writerWaits = true
			c.work.Wait()
			continue
		}
		c.mu.Unlock()
		runtime.Gosched()
		c.mu.Lock()
		if c.cause != nil {
			break
		}
		b := c.queue[0]
		c.queue[0] = nil
		if c.queue = c.queue[1:]; len(c.queue) == 0 {
			c.queue = c.queueSpace[:0]
		}
		c.isWriting = true
		c.inFlight -= b.ended // before the peer can know
		c.inFlightBytes -= b.endedBytes
		c.mu.Unlock()
		if c.hasChecksums && b.op == ws.OpBinary {
			b.b = frame.AppendChecksum(b.b, headRoom)
		}
		err := c.socket.write(b.b, b.op)
		if err != nil {
			c.end(lostBy(err))
		}
		c.mu.Lock()
		c.isWriting = false
		c.written(b)
		b.free()
	}
	c.mu.Unlock()
}

// written ends what waited for the batch. The caller holds mu.
func (c *Conn) written(b *batch) {
	c.grid.counters.messagesOut.Add(1)
	c.grid.counters.framesOut.Add(int64(b.frames))
	c.data -= b.data
	if c.requests -= b.requests; b.requests > 0 && c.cause == nil {
		c.admit()
	}
	if b.reactive > 0 {
		if c.reactive > reactiveMax { // the reader waits, so what the peer takes shows that it lives
			c.lastReceived.Store(int64(c.grid.config.Clock.Now().Sub(c.began)))
		}
		c.reactive -= b.reactive
		c.reacted.Signal()
	}
	if b.answers > 0 && c.answers.Add(-int64(b.answers)) <= int64(c.grid.config.AnswersMax) {
		c.unpark()
	}
	if b.data > 0 {
		for i, s := range c.dataWaiters {
			s.isQueued = false
			s.wake()
			c.dataWaiters[i] = nil
		}
		c.dataWaiters = c.dataWaiters[:0]
	}
	c.finishDrain()
}
