package grid

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"martlet/object-server/grid/frame"
)

// Conn is a connection after its handshake. Safe for concurrent use.
type Conn struct {
	grid         *Grid
	socket       *socket
	address      string
	ours, theirs frame.Options // the limits of either side
	hasChecksums bool
	done         chan struct{} // closed when the connection has ended
	lastReceived atomic.Int64  // nanoseconds since began
	began        time.Time
	lastTheirs   uint64      // the id of the peer's newest request; the reader's
	isGone       atomic.Bool // the peer accepts no more requests, or the connection has ended

	answers atomic.Int64 // bytes of ANSWER that are queued
	share   share        // the pool's

	mu      sync.Mutex // guards everything below
	work    sync.Cond  // the writer waits for a batch
	reacted sync.Cond  // the reader waits for the writer
	cause   error      // why the connection ended

	queue, queueSpace        []*batch
	writerWaits, isWriting   bool
	data, requests, reactive int // bytes that are queued

	// our requests
	nextID            uint64
	calls             map[uint64]*call
	waiting           callList
	calling, callData int // requests in flight, and their payload bytes
	callSweep         sweep

	// the peer's requests
	active                  map[uint64]*requestContext
	parked                  taskList
	inFlight, inFlightBytes int
	serveSweep              sweep
	isDraining              bool // we accept no more

	streams      map[uint64]*Stream // both sides'
	ourStreams   int
	theirStreams int
	dataWaiters  []*Stream
	leaveTimer   Timer // nil: not begun
	isLeaveOver  bool  // the peer has had its time to close the connection
	liveness     Timer
	checkAt      time.Time // when liveness is due
	lastPing     uint64
}

// newConn begins to read and to write. Its first id is 1 if this side is the connector, otherwise 2.
func newConn(g *Grid, s *socket, address string, theirs frame.Options) *Conn {
	c := &Conn{
		grid: g, socket: s, address: address, ours: s.ours, theirs: theirs, done: make(chan struct{}),
		hasChecksums: s.ours.Checksum || theirs.Checksum, began: g.config.Clock.Now(), nextID: 2,
		calls: map[uint64]*call{}, active: map[uint64]*requestContext{}, streams: map[uint64]*Stream{},
	}
	if s.masks() {
		c.nextID = 1
	}
	c.queueSpace = make([]*batch, 0, 16)
	c.queue = c.queueSpace
	c.work.L, c.reacted.L = &c.mu, &c.mu
	c.callSweep = sweep{clock: g.config.Clock, call: c.sweepCalls}
	c.serveSweep = sweep{clock: g.config.Clock, call: c.sweepServed}
	s.limit, s.ponged = frame.MessageMax, c.pong
	return c
}

func (c *Conn) start() {
	c.mu.Lock()
	c.checkAt = c.grid.config.Clock.Now().Add(c.grid.config.PingAfter)
	c.liveness = c.grid.config.Clock.AfterFunc(c.grid.config.PingAfter, c.checkLiveness)
	c.mu.Unlock()
	go c.write()
	go c.receive()
}

// Address is that of the peer.
func (c *Conn) Address() string { return c.address }

// PeerName is what the peer calls itself in the handshake: for logs, it proves nothing.
func (c *Conn) PeerName() string { return c.theirs.Name }

// Done is closed when the connection has ended.
func (c *Conn) Done() <-chan struct{} { return c.done }

// Err says why the connection ended; nil while it is open. Errors: ErrLost, ErrProtocol, ErrClosed.
func (c *Conn) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.cause
}

// Close ends the connection at once; requests in flight fail on both sides. Grid.Drain ends all gracefully.
func (c *Conn) Close() { c.end(ErrClosed) }

var errPeerClosed = fmt.Errorf("%w: the peer closed it", ErrLost)

// lostBy is the cause of an end that the network brings.
func lostBy(err error) error {
	if errors.Is(err, ErrProtocol) {
		return err
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errPeerClosed
	}
	return fmt.Errorf("%w: %w", ErrLost, err)
}

// end ends the connection for a cause, once, and with it all requests and streams.
func (c *Conn) end(cause error) {
	c.mu.Lock()
	if c.cause != nil {
		c.mu.Unlock()
		return
	}
	c.cause = cause
	c.isGone.Store(true)
	calls, active, streams, waiting := c.calls, c.active, c.streams, c.waiting
	c.calls, c.active, c.streams, c.waiting, c.parked = nil, nil, nil, callList{}, taskList{}
	c.callSweep.stop()
	c.serveSweep.stop()
	for _, timer := range []Timer{c.liveness, c.leaveTimer} {
		if timer != nil {
			timer.Stop()
		}
	}
	for _, b := range c.queue {
		b.free()
	}
	c.queue, c.queueSpace, c.dataWaiters = nil, nil, nil
	c.work.Broadcast()
	c.reacted.Broadcast()
	c.mu.Unlock()
	c.socket.conn.Close()
	failed := cause
	if !errors.Is(cause, ErrLost) {
		failed = fmt.Errorf("%w: %w", ErrLost, cause)
	}
	for _, one := range calls {
		one.complete(failed)
	}
	for one := waiting.pop(); one != nil; one = waiting.pop() {
		one.complete(errUnsent)
	}
	for _, ctx := range active {
		ctx.end(context.Canceled)
	}
	for _, s := range streams {
		s.fail(failed)
	}
	c.report(cause)
	c.grid.forget(c)
	close(c.done)
}

func (c *Conn) report(cause error) {
	peer := []any{slog.String("peer", c.address), slog.String("name", c.theirs.Name), slog.Any("error", cause)}
	switch log := c.grid.config.Log; {
	case errors.Is(cause, ErrProtocol):
		c.grid.counters.protocolErrors.Add(1)
		c.grid.quiet.Warn(log, c.grid.config.Clock.Now(), "protocol", "grid: a peer broke the protocol", peer...)
	case errors.Is(cause, ErrLost):
		c.grid.counters.lost.Add(1)
		log.Info("grid: a connection was lost", peer...)
	default:
		log.Debug("grid: a connection was closed", peer...)
	}
}

// checkLiveness sends PING after a silence and ends the connection after a long one.
func (c *Conn) checkLiveness() {
	config := &c.grid.config
	now := config.Clock.Now()
	silence := now.Sub(c.began) - time.Duration(c.lastReceived.Load())
	c.mu.Lock()
	stoodStill := now.Sub(c.checkAt) >= config.PingAfter
	c.mu.Unlock()
	if silence >= config.DeadAfter {
		if !stoodStill {
			c.end(fmt.Errorf("%w: nothing came for %v", ErrLost, silence))
			return
		}
		silence = config.PingAfter // so it asks once more
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cause != nil {
		return
	}
	next := config.PingAfter - silence
	if next <= 0 {
		c.lastPing++
		c.sendNumber(frame.Ping, c.lastPing)
		next = min(config.PingAfter, config.DeadAfter-silence)
	}
	c.checkAt = now.Add(next)
	c.liveness.Reset(next)
}

// drain tells the peer that no more requests are accepted. The connection ends when those in flight have ended.
func (c *Conn) drain(reason string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.isDraining || c.cause != nil {
		return
	}
	c.isDraining = true
	b := c.room(frame.Overhead + len(reason))
	b.b = frame.AppendReason(b.b, frame.GoAway, reason)
	c.finishDrain()
}

// leaveWait is how long the peer has to close an idle connection after GOAWAY, before this side does.
const leaveWait = time.Second

// finishDrain ends a connection on which a side has sent GOAWAY, and which has nothing left to do. The receiver of
// GOAWAY closes it, because requests that it has sent meanwhile get an answer then. The caller holds mu.
func (c *Conn) finishDrain() {
	isGone := c.isGone.Load()
	if !c.isDraining && !isGone || c.cause != nil {
		return
	}
	isIdle := c.inFlight == 0 && c.theirStreams == 0 && c.calling == 0 && c.ourStreams == 0 && c.waiting.head == nil
	switch {
	case !isIdle || len(c.queue) > 0 || c.isWriting:
	case isGone || c.isLeaveOver:
		go c.end(ErrClosed)
	case c.leaveTimer == nil:
		c.leaveTimer = c.grid.config.Clock.AfterFunc(leaveWait, c.endLeave)
	}
}

// endLeave closes the connection in place of a peer that does not; it may still have to wait for requests.
func (c *Conn) endLeave() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.isLeaveOver = true
	c.finishDrain()
}

// leaves says whether a side has sent GOAWAY, or the connection has ended.
func (c *Conn) leaves() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.isDraining || c.isGone.Load()
}

// HasGoneAway says whether the peer accepts no more requests on this connection, or has lost it.
func (c *Conn) HasGoneAway() bool { return c.isGone.Load() }

type contextKey struct{}

// FromContext returns the connection that a handler serves, so that it can send requests to the peer; nil outside of
// handlers.
func FromContext(ctx context.Context) *Conn {
	if own, is := ctx.Value(contextKey{}).(*requestContext); is {
		return own.conn
	}
	return nil
}

// IsResent says, in a handler, whether the request may have been executed before, over a connection that was lost.
func IsResent(ctx context.Context) bool {
	own, is := ctx.Value(contextKey{}).(*requestContext)
	return is && own.isResent
}
