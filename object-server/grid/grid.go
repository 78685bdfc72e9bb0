package grid

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"martlet/object-server/grid/frame"
	"martlet/object-server/grid/rarely"
)

// Grid has the connections of one server. Safe for concurrent use.
type Grid struct {
	config   Config
	checksum atomic.Bool // what new connections ask for, in place of config.Options.Checksum
	pool     pool
	counters counters
	quiet    rarely.Log
	unproved chan struct{} // one for each connection whose peer has not proved itself

	ctx        context.Context // ends when the Grid is about to stop
	cancel     context.CancelFunc
	accepting  context.Context // ends a little later: the time of handshakes that others began
	cutAccepts context.CancelFunc

	mu         sync.Mutex
	conns      map[*Conn]struct{}
	peers      map[string]*Peer
	handshakes int // that are under way
	isDraining bool
	isClosed   bool          // connections end at once
	reason     string        // of the Drain
	empty      chan struct{} // closed when isDraining and there are neither connections nor handshakes
}

// New returns a Grid without connections. It fails if the secrets are missing or an option is out of bounds.
func New(config Config) (*Grid, error) {
	if config.Secrets == nil {
		return nil, errors.New("grid: there are no secrets")
	}
	config.complete()
	if err := config.Options.Check(); err != nil {
		return nil, err
	}
	g := &Grid{
		config: config, unproved: make(chan struct{}, config.HandshakesMax), conns: map[*Conn]struct{}{},
		peers: map[string]*Peer{}, empty: make(chan struct{}),
	}
	g.checksum.Store(config.Options.Checksum)
	g.pool.workersMax = config.WorkersMax
	g.ctx, g.cancel = context.WithCancel(context.Background())
	g.accepting, g.cutAccepts = context.WithCancel(context.Background())
	return g, nil
}

// UseChecksum says whether connections that begin from now on shall have checksums. Those that are open stay as they are.
func (g *Grid) UseChecksum(yes bool) { g.checksum.Store(yes) }

// options are ours for a new connection, which keeps them to its end.
func (g *Grid) options() frame.Options {
	options := g.config.Options
	options.Checksum = g.checksum.Load()
	return options
}

// Connections returns the open connections, in no order.
func (g *Grid) Connections() []*Conn {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Collect(maps.Keys(g.conns))
}

// beginHandshake returns false if the Grid is about to stop. Otherwise the Grid does not stop before endHandshake.
func (g *Grid) beginHandshake() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.isDraining {
		return false
	}
	g.handshakes++
	return true
}

func (g *Grid) endHandshake() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.handshakes--
	g.finishDrain()
}

// adopt begins to use a connection at the end of its handshake. If a Drain has begun meanwhile, the connection begins
// with GOAWAY: the peer may have sent requests already, and could not know after a mere end whether they ran.
func (g *Grid) adopt(c *Conn) {
	g.mu.Lock()
	g.conns[c] = struct{}{}
	g.counters.handshakes.Add(1)
	g.counters.connections.Add(1)
	if g.isDraining {
		c.drain(g.reason)
	}
	c.start()
	isClosed := g.isClosed
	g.mu.Unlock()
	if isClosed {
		c.Close()
	}
}

func (g *Grid) forget(c *Conn) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if _, is := g.conns[c]; !is {
		return
	}
	delete(g.conns, c)
	g.counters.connections.Add(-1)
	g.finishDrain()
}

// finishDrain tells the end of the last connection or handshake. The caller holds mu.
func (g *Grid) finishDrain() {
	if g.isDraining && len(g.conns) == 0 && g.handshakes == 0 {
		close(g.empty)
	}
}

// Drain stops gracefully: it makes and accepts no more connections, tells the peers to send no more requests, and waits
// until those in flight have ended on both sides, or until the context ends. What is left then is ended. Handshakes that
// peers have begun have a second to end.
func (g *Grid) Drain(ctx context.Context, reason string) error {
	g.stopConnecting(reason)
	cut := g.config.Clock.AfterFunc(leaveWait, g.cutAccepts)
	defer cut.Stop()
	for _, c := range g.Connections() {
		c.drain(reason)
	}
	defer g.Close()
	select {
	case <-g.empty:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Close ends all connections at once.
func (g *Grid) Close() {
	g.stopConnecting("")
	g.cutAccepts()
	g.mu.Lock()
	g.isClosed = true
	g.mu.Unlock()
	for _, c := range g.Connections() {
		c.Close()
	}
	<-g.empty
	g.pool.stop()
}

func (g *Grid) stopConnecting(reason string) {
	g.cancel()
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.isDraining {
		g.isDraining, g.reason = true, reason
		g.finishDrain()
	}
}
