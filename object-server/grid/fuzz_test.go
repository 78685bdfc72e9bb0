package grid

import (
	"context"
	"io"
	"log/slog"
	"net"
	"testing"
	"time"

	"martlet/object-server/grid/frame"

	"github.com/gobwas/ws"
)

// fuzzed returns a connection of a grid without a network: the test is the peer at the other end of a pipe.
func fuzzed(t testing.TB) (*Conn, *raw) {
	m := streamMux()
	m.HandleStream("back", func(ctx context.Context, s *Stream, payload []byte) error {
		_, err := FromContext(ctx).Do(ctx, Request{Name: "x", Payload: payload}, nil)
		return err
	})
	g, err := New(Config{
		Secrets: newSecrets(t, secretOne), Mux: m, Clock: newFakeClock(), Log: slog.New(slog.DiscardHandler), WorkersMax: 8,
		Options: frame.Options{MaxPayload: 1000, MaxRequests: 4, MaxBytes: 2000, MaxStreams: 4, Window: 1000},
	})
	check(t, err)
	here, there := net.Pipe()
	s := newSocket(here, nil, ws.StateServerSide)
	s.ours = g.options()
	c, err := g.begin(s, "pipe", s.ours, g.limitHandshake(g.accepting, here))
	check(t, err)
	t.Cleanup(g.Close)
	check(t, there.SetDeadline(time.Now().Add(longest)))
	return c, &raw{socket: newSocket(there, nil, ws.StateClientSide), t: t}
}

// FuzzConnection sends arbitrary bytes as messages, cut at the places that the input names, to a connection that has
// passed its handshake. The connection ends, or it answers a PING; what it holds for the peer is bounded.
func FuzzConnection(f *testing.F) {
	request := frame.AppendRequest(nil, 1, "echo", 10, 0, []byte("payload"))
	open := frame.AppendOpen(nil, 3, "echo stream", 0, 0, 100, []byte("x"))
	f.Add(append(request, open...), uint16(len(request)))
	f.Add(append(frame.AppendOpen(nil, 1, "back", 0, 0, 5, nil), frame.AppendError(nil, 2, 7, "no")...), uint16(1000))
	f.Add(append(frame.AppendData(nil, 3, []byte("data")), frame.AppendCredit(nil, 3, 1<<40)...), uint16(7))
	f.Add(append(frame.AppendNumber(nil, frame.Cancel, 1), frame.AppendNumber(nil, frame.End, 3)...), uint16(0))
	f.Add(frame.AppendReason(nil, frame.GoAway, "bye"), uint16(3))
	f.Add(append(open, frame.AppendData(nil, 3, make([]byte, 900))...), uint16(len(open)))
	f.Fuzz(func(t *testing.T, b []byte, cut uint16) {
		c, r := fuzzed(t)
		at := min(int(cut), len(b))
		answered := make(chan struct{})
		go func() {
			defer close(answered)
			for {
				message, err := r.read()
				var one frame.Frame
				for err == nil && len(message) > 0 {
					if message, err = one.Decode(message); one.Type == frame.Pong && one.ID == 1<<60 {
						return
					}
				}
				if err != nil {
					return // the node's end: nothing else is wrong with what it sends
				}
			}
		}()
		for _, message := range [][]byte{b[:at], b[at:], frame.AppendNumber(nil, frame.Ping, 1<<60)} {
			if r.sendAlone(message) != nil {
				break
			}
		}
		<-answered
		c.mu.Lock()
		if c.inFlight > 4 || c.inFlightBytes > 2000 || c.theirStreams > 4 || len(c.streams) > 4 {
			t.Error(c.inFlight, c.inFlightBytes, c.theirStreams, len(c.streams))
		}
		c.mu.Unlock()
		c.Close()
		if _, err := io.Copy(io.Discard, r.conn); err != nil && err != io.ErrClosedPipe {
			t.Error(err)
		}
	})
}
