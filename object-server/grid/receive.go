package grid

import (
	"fmt"

	"martlet/object-server/grid/frame"
)

// receive reads messages until the connection ends.
func (c *Conn) receive() {
	for {
		message, err := c.socket.read()
		if err != nil {
			if err = lostBy(err); err == errPeerClosed && c.leaves() {
				err = fmt.Errorf("%w: the peer closed it after GOAWAY", ErrClosed)
			}
			c.end(err)
			return
		}
		c.lastReceived.Store(int64(c.grid.config.Clock.Now().Sub(c.began)))
		c.grid.counters.messagesIn.Add(1)
		if err := c.message(message); err != nil {
			c.end(err)
			return
		}
		c.awaitReaction()
	}
}

// message takes the frames of one message.
func (c *Conn) message(b []byte) error {
	var err error
	if c.hasChecksums {
		if b, err = frame.CutChecksum(b); err != nil {
			return protocolError("%w", err)
		}
	}
	if len(b) == 0 {
		return protocolError("a message without frames")
	}
	var tasks taskList
	defer func() { c.grid.pool.submit(&tasks) }()
	var f frame.Frame
	for len(b) > 0 {
		if b, err = f.Decode(b); err != nil {
			return protocolError("%w", err)
		}
		if err := c.frame(&f, &tasks); err != nil {
			return err
		}
	}
	return nil
}

// frame takes one frame; requests go to the tasks. An error ends the connection.
func (c *Conn) frame(f *frame.Frame, tasks *taskList) error {
	switch f.Type {
	case frame.Challenge, frame.Proof, frame.Welcome, frame.Refused:
		return protocolError("a frame of the handshake after its end (type %d)", f.Type)
	case frame.Request, frame.Open:
		if isOdd := f.ID%2 == 1; f.ID == 0 || isOdd == c.socket.masks() {
			return protocolError("the id %d is not one of the peer's", f.ID)
		}
		if f.ID <= c.lastTheirs {
			return protocolError("the id %d came after %d", f.ID, c.lastTheirs)
		}
		c.lastTheirs = f.ID
		if f.Type == frame.Open {
			return c.opened(f)
		}
		c.requested(f, tasks)
	case frame.Answer:
		return c.answered(f)
	case frame.Error:
		return c.failed(f)
	case frame.Cancel:
		c.cancelled(f.ID)
	case frame.Data, frame.Credit, frame.End:
		return c.streamed(f)
	case frame.Ping:
		c.mu.Lock()
		if c.cause == nil {
			c.react(c.sendNumber(frame.Pong, f.ID), frame.Overhead)
		}
		c.mu.Unlock()
	case frame.GoAway:
		c.mu.Lock()
		c.isGone.Store(true)
		for one := c.waiting.pop(); one != nil; one = c.waiting.pop() { // under mu, since their requesters may give up now
			one.complete(errUnsent)
		}
		c.finishDrain()
		c.mu.Unlock()
	}
	return nil
}

// unusedID is the error of an answer to what was never sent, if it was not. An answer that comes too late is ignored.
// The caller holds mu.
func (c *Conn) unusedID(id uint64) error {
	isOurs := (id%2 == 1) == c.socket.masks()
	if id == 0 || isOurs && id >= c.nextID || !isOurs && id > c.lastTheirs {
		return protocolError("an answer to the id %d, which was never used", id)
	}
	return nil
}
