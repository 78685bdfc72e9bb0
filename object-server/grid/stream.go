package grid

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"sync"
	"time"

	"martlet/object-server/grid/frame"
)

// Stream is one stream, seen from either side. One goroutine may send while another one receives; Cancel and Context are
// safe at any time.
type Stream struct {
	conn   *Conn
	id     uint64
	isOurs bool            // this side is the requester
	ctx    *requestContext // of the handler; nil if isOurs
	free   func() bool     // ends the watch over the requester's context
	inbox  inbox

	// guarded by the connection's mu
	window    uint64 // bytes of DATA that the peer accepts now
	windowMax uint64 // the largest message that Send takes
	outErr    error  // why nothing can be sent any more
	writable  chan struct{}
	isQueued  bool // among those that wait until less data are queued
}

// Open begins a stream to the handler of that name; payload is its first message. The stream ends with the context, too.
// The requester must end it: read it to its end or error, or Cancel. Errors: Error if a limit of the peer forbids it,
// ErrUnreachable, and the error of the context.
func (c *Conn) Open(ctx context.Context, name string, payload []byte) (*Stream, error) {
	s, err := c.open(ctx, name, payload)
	if errors.Is(err, errUnsent) {
		err = fmt.Errorf("%w: the connection ends", ErrUnreachable)
	}
	return s, err
}

func (c *Conn) open(ctx context.Context, name string, payload []byte) (*Stream, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if size := len(payload); uint64(size) > c.theirs.MaxPayload {
		return nil, &Error{CodeTooLarge, fmt.Sprintf("%d bytes", size)}
	}
	if len(name) > frame.NameMax {
		return nil, &Error{CodeUnknownName, name}
	}
	var deadline uint64
	if until, is := ctx.Deadline(); is {
		deadline = milliseconds(time.Until(until))
	}
	c.mu.Lock()
	if c.isGone.Load() {
		c.mu.Unlock()
		return nil, errUnsent
	}
	if uint64(c.ourStreams) >= c.theirs.MaxStreams || c.requests >= requestsMax {
		c.mu.Unlock()
		return nil, &Error{CodeBusy, "max_streams, or too much waits to be written"}
	}
	s := c.newStream(c.nextID, c.theirs.Window)
	s.isOurs = true
	c.nextID += 2
	c.ourStreams++
	b := c.room(frame.Overhead + len(name) + len(payload))
	before := len(b.b)
	b.b = frame.AppendOpen(b.b, s.id, name, deadline, 0, s.inbox.window, payload)
	b.requests += len(b.b) - before
	c.requests += len(b.b) - before
	c.mu.Unlock()
	c.grid.counters.opened.Add(1)
	if ctx.Done() != nil {
		free := context.AfterFunc(ctx, func() { s.cancel(ctx.Err()) })
		c.mu.Lock()
		s.free = free
		c.mu.Unlock()
	}
	return s, nil
}

// newStream adds a stream. The caller holds mu.
func (c *Conn) newStream(id, theirWindow uint64) *Stream {
	s := &Stream{
		conn: c, id: id, window: theirWindow, windowMax: min(theirWindow, frame.DataMax), writable: make(chan struct{}, 1),
	}
	s.inbox.window = c.ours.Window
	s.inbox.allowed = c.ours.Window
	s.inbox.readable = make(chan struct{}, 1)
	c.streams[id] = s
	return s
}

// opened takes an OPEN.
func (c *Conn) opened(f *frame.Frame) error {
	handler := c.grid.config.Mux.entries[string(f.Name)].stream
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cause != nil {
		return nil
	}
	if e := c.refuseRequest(f, handler != nil); e != nil {
		c.refuseWith(f.ID, e)
		return nil
	}
	s := c.newStream(f.ID, f.Window)
	s.ctx = c.newContext(f)
	c.theirStreams++
	c.grid.counters.streams.Add(1)
	go s.serve(handler, append([]byte(nil), f.Payload...))
	return nil
}

// serve runs the handler of a stream and ends the stream.
func (s *Stream) serve(handler StreamHandler, payload []byte) {
	err := s.call(handler, payload)
	c := s.conn
	c.mu.Lock()
	defer c.mu.Unlock()
	s.ctx.end(context.Canceled)
	c.theirStreams--
	if c.cause != nil {
		return
	}
	isOpen := c.streams[s.id] == s
	delete(c.streams, s.id)
	s.outErr = ErrClosed
	switch {
	case !isOpen:
	case err != nil: // its bytes are bounded as those of a refusal, since the peer may open another stream
		e := asError(err)
		c.react(c.sendError(s.id, e), frame.Overhead+len(e.Reason))
	default:
		c.react(c.sendNumber(frame.End, s.id), frame.Overhead)
	}
	c.finishDrain()
}

func (s *Stream) call(handler StreamHandler, payload []byte) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = s.conn.grid.panicked(p)
		}
	}()
	return handler(s.ctx, s, payload)
}

// Send sends one message. It waits while the window of the peer has no room for all of it, or too much waits to be
// written. A message has at most 64 KiB and fits the peer's window; an empty one says nothing and is not sent. Errors:
// why the stream has ended: Error, ErrLost, ErrClosed, the error of the requester's context.
func (s *Stream) Send(p []byte) error {
	if uint64(len(p)) > s.windowMax {
		return &Error{CodeTooLarge, fmt.Sprintf("%d bytes, a message of this stream has at most %d", len(p), s.windowMax)}
	}
	_, err := s.send(p, len(p))
	return err
}

// Write sends the bytes in as many messages as needed. Errors: those of Send.
func (s *Stream) Write(p []byte) (int, error) {
	for sent := 0; ; {
		n, err := s.send(p[sent:], 1)
		sent += n
		if err != nil || sent == len(p) {
			return sent, err
		}
	}
}

// send sends at least so many bytes of p, and more if the window has room.
func (s *Stream) send(p []byte, atLeast int) (int, error) {
	c := s.conn
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		if s.outErr != nil {
			return 0, s.outErr
		}
		if len(p) == 0 {
			return 0, nil
		}
		if s.window >= uint64(atLeast) {
			if c.data < dataMax {
				break
			}
			if !s.isQueued { // a CREDIT may have woken it meanwhile
				s.isQueued = true
				c.dataWaiters = append(c.dataWaiters, s)
			}
		}
		c.mu.Unlock()
		<-s.writable
		c.mu.Lock()
	}
	n := int(min(uint64(len(p)), s.window, frame.DataMax))
	b := c.room(frame.Overhead + n)
	b.b = frame.AppendData(b.b, s.id, p[:n])
	b.data += n
	c.data += n
	s.window -= uint64(n)
	return n, nil
}

// wake lets a sender look again.
func (s *Stream) wake() {
	select {
	case s.writable <- struct{}{}:
	default:
	}
}

// CloseSend says that this side sends no more. A handler need not call it: its return does the same.
func (s *Stream) CloseSend() error {
	c := s.conn
	c.mu.Lock()
	defer c.mu.Unlock()
	if s.outErr != nil {
		return s.outErr
	}
	if s.isOurs {
		s.outErr = ErrClosed
		c.sendNumber(frame.End, s.id)
	}
	return nil
}

// Cancel ends the stream in both directions, if it has not ended yet.
func (s *Stream) Cancel() { s.cancel(context.Canceled) }

func (s *Stream) cancel(cause error) {
	c := s.conn
	c.mu.Lock()
	if c.cause == nil && c.streams[s.id] == s {
		if s.isOurs {
			c.sendNumber(frame.Cancel, s.id)
		} else {
			c.sendError(s.id, asError(cause))
		}
	}
	c.mu.Unlock()
	s.stop(cause)
}

// stop ends both directions, without a word to the peer.
func (s *Stream) stop(cause error) {
	c := s.conn
	c.mu.Lock()
	s.remove()
	c.mu.Unlock()
	s.fail(cause)
}

// remove takes a stream of ours out of the connection's, once. The handler's return does it for others; until then
// their frames are ignored. The caller holds the connection's mu.
func (s *Stream) remove() {
	c := s.conn
	if c.streams[s.id] != s {
		return
	}
	delete(c.streams, s.id)
	if s.isOurs {
		c.ourStreams--
		c.finishDrain()
	}
}

// fail wakes all that wait for the stream.
func (s *Stream) fail(cause error) {
	c := s.conn
	c.mu.Lock()
	if s.outErr == nil {
		s.outErr = cause
	}
	free := s.free
	c.mu.Unlock()
	s.wake()
	s.inbox.end(cause)
	if s.ctx != nil {
		s.ctx.end(contextError(cause))
	}
	if free != nil {
		free()
	}
}

// contextError is what a context may say.
func contextError(cause error) error {
	if errors.Is(cause, context.DeadlineExceeded) {
		return context.DeadlineExceeded
	}
	return context.Canceled
}

// streamed takes DATA, CREDIT and END. Those of a stream that has ended are ignored.
func (c *Conn) streamed(f *frame.Frame) error {
	c.mu.Lock()
	s := c.streams[f.ID]
	if s != nil && f.Type == frame.Credit {
		s.window += f.Window
		if s.window > math.MaxInt64 || f.Window > math.MaxInt64 {
			c.mu.Unlock()
			return protocolError("a window of %d", s.window)
		}
		s.wake()
	}
	if s != nil && f.Type == frame.End && s.isOurs {
		s.remove()
		s.outErr = ErrClosed
	}
	c.mu.Unlock()
	switch {
	case s == nil:
	case f.Type == frame.Data:
		return s.inbox.add(f.Payload)
	case f.Type == frame.End && s.isOurs:
		s.fail(io.EOF)
	case f.Type == frame.End:
		return s.inbox.endOfData()
	}
	return nil
}

// Receive returns the next message of the peer. It is valid until the next call of Receive or Read. Errors: io.EOF after
// the last message, otherwise why the stream has ended.
func (s *Stream) Receive() ([]byte, error) {
	for {
		message, credit, err := s.inbox.next()
		if credit > 0 {
			s.credit(credit)
		}
		if message != nil || err != nil {
			return message, err
		}
		<-s.inbox.readable
	}
}

// Read reads the bytes of the messages; the borders between messages are lost. Errors: those of Receive.
func (s *Stream) Read(p []byte) (int, error) {
	if len(s.inbox.rest) == 0 {
		message, err := s.Receive()
		if err != nil {
			return 0, err
		}
		s.inbox.rest = message
	}
	n := copy(p, s.inbox.rest)
	s.inbox.rest = s.inbox.rest[n:]
	return n, nil
}

// credit tells the peer that it may send more.
func (s *Stream) credit(bytes uint64) {
	c := s.conn
	c.mu.Lock()
	if c.cause == nil && c.streams[s.id] == s {
		b := c.room(frame.Overhead)
		b.b = frame.AppendCredit(b.b, s.id, bytes)
	}
	c.mu.Unlock()
}

// inbox has the DATA that the peer has sent and the application has not taken. It holds at most window bytes: the peer
// gets credit for a message when the application asks for the one after it.
type inbox struct {
	rest []byte // of the message that Read reads; the receiver's

	mu       sync.Mutex
	window   uint64
	allowed  uint64 // bytes that the peer may send now
	consumed uint64 // bytes without credit yet
	taken    int    // size of the message that the application has
	new, old messages
	ended    error
	readable chan struct{} // of capacity 1
}

// messages are the bytes of messages and their lengths.
type messages struct {
	b       []byte
	lengths []uint32
	bytesAt int
	at      int
}

func (m *messages) next() []byte {
	n := int(m.lengths[m.at])
	message := m.b[m.bytesAt : m.bytesAt+n : m.bytesAt+n]
	m.at++
	m.bytesAt += n
	return message
}

// add takes the payload of a DATA.
func (i *inbox) add(payload []byte) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if uint64(len(payload)) > i.allowed {
		return protocolError("DATA of %d bytes where the window is %d", len(payload), i.allowed)
	}
	if len(payload) == 0 {
		return nil
	}
	if i.ended == io.EOF {
		return protocolError("DATA after END")
	}
	if i.ended != nil {
		return nil
	}
	i.allowed -= uint64(len(payload))
	i.new.b = append(i.new.b, payload...)
	i.new.lengths = append(i.new.lengths, uint32(len(payload)))
	i.signal()
	return nil
}

func (i *inbox) signal() {
	select {
	case i.readable <- struct{}{}:
	default:
	}
}

// end makes cause what the receiver gets after the messages that have come; at once, unless it is io.EOF.
func (i *inbox) end(cause error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.ended == nil || i.ended == io.EOF && cause != io.EOF {
		i.ended = cause
	}
	i.signal()
}

// endOfData takes END.
func (i *inbox) endOfData() error {
	i.mu.Lock()
	isSecond := i.ended == io.EOF
	i.mu.Unlock()
	if isSecond {
		return protocolError("END after END")
	}
	i.end(io.EOF)
	return nil
}

// next returns a message, or what ended the stream, or neither if the receiver must wait. The credit, if not 0, is to be
// sent: when half of the window is consumed, or when a message might not fit and the receiver waits for one.
func (i *inbox) next() (message []byte, credit uint64, err error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.consumed += uint64(i.taken)
	i.taken = 0
	if i.ended != nil && i.ended != io.EOF {
		return nil, 0, i.ended
	}
	if i.old.at == len(i.old.lengths) {
		i.old, i.new = i.new, messages{b: i.old.b[:0], lengths: i.old.lengths[:0]}
	}
	if i.old.at < len(i.old.lengths) {
		message = i.old.next()
		i.taken = len(message)
	} else if i.ended != nil {
		return nil, 0, i.ended
	}
	if i.consumed >= (i.window+1)/2 || message == nil && i.allowed < frame.DataMax {
		credit, i.consumed = i.consumed, 0
		i.allowed += credit
	}
	return message, credit, nil
}
