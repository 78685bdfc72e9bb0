package grid

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"time"

	"martlet/object-server/grid/frame"

	"github.com/gobwas/ws"
)

// Protocol is the WebSocket protocol of the grid, with its version.
const Protocol = "martlet-grid-1"

// ServeHTTP accepts a connection: GET /grid. Statuses: 101; 400 if the request is no upgrade to Protocol (426 for another
// version of WebSocket, 405 for another method); 503 if too many connections have not proved themselves yet, or the Grid
// is about to stop, which is no refusal to count. It returns after the handshake.
func (g *Grid) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !offersProtocol(r) {
		g.refuse(RefusedBadUpgrade, r.RemoteAddr, errors.New("the request does not offer "+Protocol))
		http.Error(w, "This server speaks the WebSocket protocol "+Protocol+" here.", http.StatusBadRequest)
		return
	}
	if !g.beginHandshake() {
		http.Error(w, "The server is about to stop.", http.StatusServiceUnavailable)
		return
	}
	defer g.endHandshake()
	select {
	case g.unproved <- struct{}{}:
		defer func() { <-g.unproved }()
	default:
		g.refuse(RefusedTooMany, r.RemoteAddr, errors.New("too many handshakes are under way"))
		http.Error(w, "Too many handshakes are under way.", http.StatusServiceUnavailable)
		return
	}
	g.upgrade(w, r)
}

func offersProtocol(r *http.Request) bool {
	for _, line := range r.Header.Values("Sec-WebSocket-Protocol") {
		for name := range strings.SplitSeq(line, ",") {
			if strings.TrimSpace(name) == Protocol {
				return true
			}
		}
	}
	return false
}

func (g *Grid) upgrade(w http.ResponseWriter, r *http.Request) {
	upgrader := ws.HTTPUpgrader{
		Timeout:  g.config.HandshakeTimeout,
		Protocol: func(name string) bool { return name == Protocol },
	}
	conn, buffered, _, err := upgrader.Upgrade(r, w)
	if err != nil {
		g.refuse(RefusedBadUpgrade, r.RemoteAddr, err)
		if conn != nil {
			conn.Close()
		}
		return
	}
	if err := g.prove(newSocket(conn, buffered.Reader, ws.StateServerSide), r.RemoteAddr); err != nil {
		g.refuse(kindOf(err), r.RemoteAddr, err)
		conn.Close()
	}
}

// prove runs the acceptor's handshake and begins to use the connection.
func (g *Grid) prove(s *socket, address string) error {
	stop := g.limitHandshake(g.accepting, s.conn)
	defer stop()
	theirs, err := g.accept(s)
	if err == nil {
		_, err = g.begin(s, address, theirs, stop)
	}
	return err
}

// begin makes a Conn of a socket after the handshake, whose limit ends first. Otherwise the end of that limit would close
// the Conn, with the requests in flight.
func (g *Grid) begin(s *socket, address string, theirs frame.Options, stopLimit func() bool) (*Conn, error) {
	if !stopLimit() {
		return nil, ErrClosed
	}
	if err := s.conn.SetDeadline(time.Time{}); err != nil {
		return nil, err
	}
	c := newConn(g, s, address, theirs)
	g.adopt(c)
	return c, nil
}

// limitHandshake lets the handshake on a connection fail at its time limit, or when the context ends.
func (g *Grid) limitHandshake(ctx context.Context, conn net.Conn) (stop func() bool) {
	_ = conn.SetDeadline(time.Now().Add(g.config.HandshakeTimeout)) // fails only if the connection has ended
	return context.AfterFunc(ctx, func() { conn.Close() })
}
