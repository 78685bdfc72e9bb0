package grid

import (
	"bytes"
	"errors"
	"net"
	"net/http"
	"net/url"
	"testing"
	"time"

	"martlet/object-server/grid/frame"

	"github.com/gobwas/ws"
)

// raw is a peer that a test plays frame by frame.
type raw struct {
	*socket
	t      testing.TB
	frames []byte // of the message that is being read
	sums   bool
}

func newRaw(t testing.TB, s *socket) *raw {
	check(t, s.conn.SetDeadline(time.Now().Add(longest)))
	t.Cleanup(func() { s.conn.Close() })
	return &raw{socket: s, t: t}
}

// dialRaw opens a connection to the node without a handshake.
func dialRaw(t testing.TB, n *node) *raw {
	t.Helper()
	conn, err := net.Dial("tcp", n.address)
	check(t, err)
	early, _, err := (&ws.Dialer{Protocols: []string{Protocol}}).Upgrade(conn, &url.URL{Scheme: "ws", Host: n.address, Path: "/grid"})
	check(t, err)
	return newRaw(t, newSocket(conn, early, ws.StateClientSide))
}

// rawConnector opens a connection to the node, with a handshake as that of a Grid of this configuration.
func rawConnector(t testing.TB, n *node, config Config) *raw {
	t.Helper()
	if config.Secrets == nil {
		config.Secrets = newSecrets(t, secretOne)
	}
	g, err := New(config)
	check(t, err)
	r := dialRaw(t, n)
	theirs, err := g.connect(r.socket)
	check(t, err)
	r.sums, r.limit = theirs.Checksum || r.ours.Checksum, frame.MessageMax
	check(t, r.conn.SetDeadline(time.Now().Add(longest)))
	return r
}

// rawAcceptor listens; serve gets each connection after the upgrade.
func rawAcceptor(t testing.TB, serve func(r *raw)) (address string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		upgrader := ws.HTTPUpgrader{Protocol: func(string) bool { return true }}
		if conn, buffered, _, err := upgrader.Upgrade(r, w); err == nil {
			serve(newRaw(t, newSocket(conn, buffered.Reader, ws.StateServerSide)))
		}
	})}
	go server.Serve(listener)
	t.Cleanup(func() { server.Close() })
	return listener.Addr().String()
}

// send sends frames as one message.
func (r *raw) send(frames ...[]byte) {
	r.t.Helper()
	b := bytes.Join(frames, nil)
	if r.sums {
		b = frame.AppendChecksum(b, 0)
	}
	if err := r.sendAlone(b); err != nil {
		r.t.Error(err)
	}
}

// next returns the next frame. It is valid until the next call.
func (r *raw) next() frame.Frame {
	r.t.Helper()
	var f frame.Frame
	var err error
	if len(r.frames) == 0 {
		r.frames, err = r.read()
		check(r.t, err)
		if r.sums {
			r.frames, err = frame.CutChecksum(r.frames)
			check(r.t, err)
		}
	}
	r.frames, err = f.Decode(r.frames)
	check(r.t, err)
	return f
}

// nextButPing answers PINGs, which come on a busy machine, and returns the next other frame.
func (r *raw) nextButPing() frame.Frame {
	r.t.Helper()
	for {
		f := r.next()
		if f.Type != frame.Ping {
			return f
		}
		r.send(frame.AppendNumber(nil, frame.Pong, f.ID))
	}
}

// expect returns the next frame, which is of this type.
func (r *raw) expect(t frame.Type) frame.Frame {
	r.t.Helper()
	next := r.nextButPing
	if t == frame.Ping {
		next = r.next
	}
	f := next()
	if f.Type != t {
		r.t.Fatalf("a frame of type %d (%q, %q) where %d is expected", f.Type, f.Payload, f.Reason, t)
	}
	return f
}

// expectEnd reads until the node ends the connection.
func (r *raw) expectEnd() {
	r.t.Helper()
	for {
		if _, err := r.read(); err != nil {
			if netErr := net.Error(nil); errors.As(err, &netErr) && netErr.Timeout() {
				r.t.Fatal("the connection stays open")
			}
			return
		}
	}
}
