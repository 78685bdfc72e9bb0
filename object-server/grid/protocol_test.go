package grid

import (
	"context"
	"math"
	"strings"
	"testing"

	"martlet/object-server/grid/frame"

	"github.com/gobwas/ws"
)

func TestWhatEndsAConnection(t *testing.T) {
	request := func(id uint64) []byte { return frame.AppendRequest(nil, id, "echo", 0, 0, nil) }
	open := frame.AppendOpen(nil, 1, "wait", 0, 0, 1<<20, nil)
	for _, c := range []struct {
		name, sentence string
		send           func(r *raw)
	}{
		{"a text message", "a text message", func(r *raw) { check(r.t, r.write(append(make([]byte, headRoom), "text"...), ws.OpText)) }},
		{"a message of more than 4 MiB", "a message of more than 4194304 bytes", func(r *raw) {
			_ = r.write(make([]byte, headRoom+frame.MessageMax+1), ws.OpBinary) // the node need not read all
		}},
		{"an empty message", "a message without frames", func(r *raw) { r.send() }},
		{"another version", "another version: 2", func(r *raw) { r.send([]byte{0, 0, 0, 4, 2, 0x92, 13, 1}) }},
		{"a malformed frame", "malformed frame of type 10", func(r *raw) { r.send([]byte{0, 0, 0, 4, 1, 0x92, 10, 1}) }},
		{"a wrong checksum", "wrong checksum", func(r *raw) { check(r.t, r.sendAlone(append(request(1), 1, 2, 3, 4))) }},
		{"no checksum", "wrong checksum", func(r *raw) { check(r.t, r.sendAlone(request(1))) }},
		{"an id used twice", "the id 1 came after 1", func(r *raw) { r.send(request(1), request(1)) }},
		{"an id that falls", "the id 3 came after 5", func(r *raw) { r.send(request(5)); r.send(request(3)) }},
		{"an id of the acceptor's", "the id 2 is not one of the peer's", func(r *raw) { r.send(request(2)) }},
		{"the id 0", "the id 0 is not", func(r *raw) { r.send(request(0)) }},
		{"a stream with the id of a request", "the id 1 came after 1", func(r *raw) { r.send(request(1), open) }},
		{"an answer to what was not asked", "which was never used", func(r *raw) { r.send(frame.AppendAnswer(nil, 2, nil)) }},
		{"an error for what was not asked", "which was never used", func(r *raw) { r.send(frame.AppendError(nil, 1, 7, "")) }},
		{"a challenge", "after its end (type 1)", func(r *raw) { r.send(frame.AppendChallenge(nil, make([]byte, 32), nil, frame.Defaults())) }},
		{"data beyond the window", "DATA of 1 bytes where the window is 0", func(r *raw) {
			r.send(open)
			for range 4 {
				r.send(frame.AppendData(nil, 1, make([]byte, frame.DataMax)))
			}
			r.send(frame.AppendData(nil, 1, []byte("x")))
		}},
		{"a window beyond all bounds", "a window of", func(r *raw) {
			r.send(open, frame.AppendCredit(nil, 1, math.MaxInt64))
		}},
		{"a window of 2^64 - 1", "a window of 18446744073709551615", func(r *raw) {
			r.send(frame.AppendOpen(nil, 1, "wait", 0, 0, math.MaxUint64, nil))
		}},
		{"a message without a mask", "WebSocket", func(r *raw) {
			_, err := r.conn.Write([]byte{0x82, 1, 0})
			check(r.t, err)
		}},
		{"a reserved opcode", "WebSocket", func(r *raw) {
			_, err := r.conn.Write([]byte{0x83, 0x80, 0, 0, 0, 0})
			check(r.t, err)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			config := Config{Options: frame.Options{Checksum: true}, Mux: testMux()}
			config.Mux.HandleStream("wait", func(ctx context.Context, s *Stream, _ []byte) error {
				<-ctx.Done() // takes no data
				return nil
			})
			n := newNode(t, config)
			r := rawConnector(t, n, Config{})
			c.send(r)
			r.expectEnd()
			eventually(t, "the count", func() bool { return n.Stats().ProtocolErrors == 1 && n.Stats().Connections == 0 })
			if log := n.log.String(); !strings.Contains(log, c.sentence) || !strings.Contains(log, "peer=127.0.0.1") {
				t.Error(log)
			}
			if _, err := newNode(t, Config{}).Peer(n.address).Do(background(t), Request{Name: "echo"}, nil); err != nil {
				t.Error("another peer suffers:", err)
			}
		})
	}
}

func TestWhatIsIgnored(t *testing.T) {
	n := newNode(t, Config{})
	r := rawConnector(t, n, Config{})
	r.send(
		[]byte{0, 0, 0, 4, 1, 0x92, 99, 1},       // an unknown type
		frame.AppendNumber(nil, frame.Cancel, 1), // of what never was
		frame.AppendNumber(nil, frame.End, 7),
		frame.AppendCredit(nil, 9, 1),
		frame.AppendData(nil, 11, []byte("late")),
		[]byte{0, 0, 0, 6, 1, 0x94, 30, 7, 0xc0, 0xc0}, // a PING of a later version
	)
	if f := r.expect(frame.Pong); f.ID != 7 {
		t.Error(f)
	}
	check(t, r.write(append(make([]byte, headRoom), "ping"...), ws.OpPing)) // RFC 6455 knows it, too
	h, err := ws.ReadHeader(r.in)
	if err != nil || h.OpCode != ws.OpPong || h.Length != 4 {
		t.Error(h, err)
	}
}

func TestAMessageMayComeInParts(t *testing.T) {
	n := newNode(t, Config{})
	r := rawConnector(t, n, Config{})
	b := frame.AppendNumber(nil, frame.Ping, 7)
	for i, part := range [][]byte{b[:3], {}, b[3:]} {
		op := ws.OpContinuation
		if i == 0 {
			op = ws.OpBinary
		}
		f := ws.MaskFrame(ws.NewFrame(op, i == 2, part))
		check(t, ws.WriteFrame(r.conn, f))
		check(t, ws.WriteFrame(r.conn, ws.MaskFrame(ws.NewPongFrame(nil))))
	}
	if f := r.expect(frame.Pong); f.ID != 7 {
		t.Error(f)
	}
}
