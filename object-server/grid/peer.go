package grid

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gobwas/ws"
)

// responseMax bounds the response to the upgrade, with the CHALLENGE that may follow it at once.
const responseMax = 16 << 10

// Peer is the way to one server: a connection that all callers share, made when the first of them needs it and made
// again when it is lost. Safe for concurrent use.
type Peer struct {
	grid    *Grid
	address string

	conn     atomic.Pointer[Conn] // nil: none
	mu       sync.Mutex           // guards what follows, and changes of conn
	dialling *attempt             // nil: none
	failures int                  // dials that failed since the last one that did not
	retryAt  time.Time
	lastErr  error
}

// attempt is a dial that is under way; err and conn are set when done is closed.
type attempt struct {
	done chan struct{}
	conn *Conn
	err  error
}

// Peer returns the way to the server at host:port, the same one for equal addresses. It does not connect yet.
func (g *Grid) Peer(address string) *Peer {
	g.mu.Lock()
	defer g.mu.Unlock()
	p := g.peers[address]
	if p == nil {
		p = &Peer{grid: g, address: address}
		g.peers[address] = p
	}
	return p
}

// Forget drops the way to a server that is no longer used, and ends its connection. The Peer works on, but a later call of
// Grid.Peer returns another one.
func (p *Peer) Forget() {
	p.grid.mu.Lock()
	if p.grid.peers[p.address] == p {
		delete(p.grid.peers, p.address)
	}
	p.grid.mu.Unlock()
	if c := p.conn.Load(); c != nil {
		c.Close()
	}
}

// attemptsMax bounds how many connections a request tries that go away before they take it.
const attemptsMax = 3

// Do is Conn.Do over the shared connection. Requests that were not sent because the connection went away go to another
// one; those that may have been executed fail with ErrLost. While the peer cannot be reached, requests fail at once
// between the dials. The time to connect counts for the timeout.
func (p *Peer) Do(ctx context.Context, r Request, answer []byte) ([]byte, error) {
	for range attemptsMax {
		c := p.conn.Load()
		if c == nil || c.isGone.Load() {
			began := p.grid.config.Clock.Now()
			var err error
			if c, err = p.connWithin(ctx, r.Timeout); err != nil {
				return answer, err
			}
			if r.Timeout > 0 {
				r.Timeout = max(r.Timeout-p.grid.config.Clock.Now().Sub(began), 1)
			}
		}
		var err error
		if answer, err = c.do(ctx, r, answer); !errors.Is(err, errUnsent) {
			return answer, err
		}
	}
	return answer, p.goesAway()
}

// Open is Conn.Open over the shared connection.
func (p *Peer) Open(ctx context.Context, name string, payload []byte) (*Stream, error) {
	for range attemptsMax {
		c, err := p.Conn(ctx)
		if err != nil {
			return nil, err
		}
		if s, err := c.open(ctx, name, payload); !errors.Is(err, errUnsent) {
			return s, err
		}
	}
	return nil, p.goesAway()
}

func (p *Peer) goesAway() error {
	return fmt.Errorf("%w: %s goes away again and again", ErrUnreachable, p.address)
}

// connWithin is Conn with a timeout, if it is not 0.
func (p *Peer) connWithin(ctx context.Context, timeout time.Duration) (*Conn, error) {
	if timeout == 0 {
		return p.Conn(ctx)
	}
	within, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	c, err := p.Conn(within)
	if err != nil && within.Err() != nil && ctx.Err() == nil {
		return nil, &Error{CodeDeadline, "no connection in time"}
	}
	return c, err
}

// Conn returns the shared connection; it makes one if there is none. Errors: ErrUnreachable, with ErrRefused if a side
// refused the other and ErrNoGrid if the server has none, and the error of the context.
func (p *Peer) Conn(ctx context.Context) (*Conn, error) {
	p.mu.Lock()
	if c := p.conn.Load(); c != nil && !c.isGone.Load() {
		p.mu.Unlock()
		return c, nil
	}
	p.conn.Store(nil)
	if p.dialling == nil {
		if p.failures > 0 && p.grid.config.Clock.Now().Before(p.retryAt) {
			defer p.mu.Unlock()
			return nil, p.lastErr
		}
		p.dialling = &attempt{done: make(chan struct{})}
		go p.dial(p.dialling)
	}
	a := p.dialling
	p.mu.Unlock()
	select {
	case <-a.done:
		return a.conn, a.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// dial makes the connection for all that wait.
func (p *Peer) dial(a *attempt) {
	a.conn, a.err = p.grid.connectTo(p.address)
	if a.err != nil {
		a.err = fmt.Errorf("%w: %s: %w", ErrUnreachable, p.address, a.err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.dialling, p.lastErr = nil, a.err
	p.conn.Store(a.conn)
	if a.err == nil {
		p.failures = 0
	} else {
		p.retryAt = p.grid.config.Clock.Now().Add(p.grid.backoff(p.failures))
		p.failures++
	}
	close(a.done)
}

// backoff is the pause after so many failures and another one: doubled each time, and a random half of it, so that many
// servers do not dial one at the same time.
func (g *Grid) backoff(failures int) time.Duration {
	pause := g.config.BackoffMax
	if failures < 16 {
		pause = min(pause, g.config.BackoffMin<<failures)
	}
	return pause/2 + rand.N(pause/2+1)
}

// connectTo dials, upgrades and proves.
func (g *Grid) connectTo(address string) (*Conn, error) {
	if !g.beginHandshake() {
		return nil, ErrClosed
	}
	defer g.endHandshake()
	ctx, cancel := context.WithTimeout(g.ctx, g.config.HandshakeTimeout)
	defer cancel()
	conn, err := g.config.Dial(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	c, err := g.proveTo(conn, address)
	if err != nil {
		g.refuse(kindOf(err), address, err)
		conn.Close()
		return nil, err
	}
	return c, nil
}

func (g *Grid) proveTo(conn net.Conn, address string) (*Conn, error) {
	stop := g.limitHandshake(g.ctx, conn)
	defer stop()
	bounded := struct {
		io.Reader
		io.Writer
	}{io.LimitReader(conn, responseMax), conn}
	dialer := ws.Dialer{Protocols: []string{Protocol}}
	early, hs, err := dialer.Upgrade(bounded, &url.URL{Scheme: "ws", Host: address, Path: "/grid"})
	if err != nil {
		return nil, upgradeError(err)
	}
	if hs.Protocol != Protocol {
		return nil, &handshakeError{RefusedBadUpgrade, fmt.Errorf("%w: %w: it does not speak %s", ErrRefused, ErrNoGrid, Protocol)}
	}
	s := newSocket(conn, early, ws.StateClientSide)
	theirs, err := g.connect(s)
	if err != nil {
		return nil, err
	}
	return g.begin(s, address, theirs, stop)
}

// upgradeError tells an answer other than 101 from a connection that ended.
func upgradeError(err error) error {
	status := ws.StatusError(0)
	switch {
	case !errors.As(err, &status):
		return err
	case status == http.StatusServiceUnavailable: // too many handshakes, or about to stop
		return &handshakeError{RefusedBadUpgrade, fmt.Errorf("%w: the peer answers %d", ErrRefused, int(status))}
	}
	return &handshakeError{RefusedBadUpgrade, fmt.Errorf("%w: %w: the peer answers %d", ErrRefused, ErrNoGrid, int(status))}
}
