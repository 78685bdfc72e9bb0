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
	ctx      context.Context
	cancel   context.CancelFunc

	mu         sync.Mutex
	conns      map[*Conn]struct{}
	peers      map[string]*Peer
	isDraining bool
	empty      chan struct{} // closed when isDraining and there are no connections
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

// adopt begins to use a connection after its handshake. It returns false if the Grid is about to stop.
func (g *Grid) adopt(c *Conn) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.isDraining {
		return false
	}
	g.conns[c] = struct{}{}
	g.counters.handshakes.Add(1)
	g.counters.connections.Add(1)
	c.start()
	return true
}

func (g *Grid) forget(c *Conn) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if _, is := g.conns[c]; !is {
		return
	}
	delete(g.conns, c)
	g.counters.connections.Add(-1)
	if g.isDraining && len(g.conns) == 0 {
		close(g.empty)
	}
}

// Drain stops gracefully: it makes and accepts no more connections, tells the peers to send no more requests, and waits
// until those in flight have ended on both sides, or until the context ends. What is left then is ended.
func (g *Grid) Drain(ctx context.Context, reason string) error {
	g.stopConnecting()
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
	g.stopConnecting()
	for _, c := range g.Connections() {
		c.Close()
	}
	<-g.empty
	g.pool.stop()
}

func (g *Grid) stopConnecting() {
	g.cancel()
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.isDraining {
		g.isDraining = true
		if len(g.conns) == 0 {
			close(g.empty)
		}
	}
}
