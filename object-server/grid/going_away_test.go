package grid

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"martlet/object-server/grid/frame"
)

// drain begins to drain the node; the channel gets the result.
func drain(t *testing.T, n *node) chan error {
	drained := make(chan error, 1)
	go func() { drained <- n.Drain(background(t), "restart") }()
	return drained
}

func TestARequestThatCrossesGoAwayIsRefused(t *testing.T) {
	clock := newFakeClock()
	n := newNode(t, Config{Clock: clock})
	r := rawConnector(t, n, Config{})
	n.onlyConnection(t)
	drained := drain(t, n)
	if f := r.expect(frame.GoAway); string(f.Reason) != "restart" {
		t.Errorf("%q", f.Reason)
	}
	r.send(frame.AppendRequest(nil, 1, "echo", 0, 0, nil), frame.AppendOpen(nil, 3, "echo", 0, 0, 0, nil))
	for _, id := range []uint64{1, 3} {
		if f := r.expect(frame.Error); f.ID != id || Code(f.Code) != CodeGoingAway {
			t.Errorf("the request %d: id %d, code %d", id, f.ID, f.Code)
		}
	}
	r.conn.Close()
	check(t, <-drained)
	if lost := n.Stats().Lost; lost != 0 {
		t.Error("a connection that ends as announced counts as lost")
	}
}

func TestAPeerThatDoesNotCloseHasASecond(t *testing.T) {
	clock := newFakeClock()
	n := newNode(t, Config{Clock: clock})
	r := rawConnector(t, n, Config{})
	c := n.onlyConnection(t)
	drained := drain(t, n)
	r.expect(frame.GoAway)
	eventually(t, "the connection is idle", func() bool { return c.awaitsEnd() })
	clock.advance(leaveWait - time.Millisecond)
	r.send(frame.AppendRequest(nil, 1, "echo", 0, 0, nil)) // such requests do not make it longer
	r.expect(frame.Error)
	clock.advance(time.Millisecond)
	r.expectEnd()
	check(t, <-drained)
}

// awaitsEnd says whether the peer has begun to have its time to close the connection.
func (c *Conn) awaitsEnd() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.leaveTimer != nil
}

func TestTheReceiverOfGoAwayClosesWhenItsRequestsAreDone(t *testing.T) {
	m := testMux()
	begun, release := make(chan struct{}), make(chan struct{})
	m.HandleRaw("wait", func(_ context.Context, payload, answer []byte) ([]byte, error) {
		begun <- struct{}{}
		<-release
		return append(answer, payload...), nil
	})
	g, err := New(Config{Secrets: newSecrets(t, secretOne)})
	check(t, err)
	ended := make(chan struct{})
	address := rawAcceptor(t, func(r *raw) {
		defer close(ended)
		_, err := g.accept(r.socket)
		check(t, err)
		r.send(frame.AppendRequest(nil, 2, "wait", 0, 0, []byte("x")))
		<-begun
		request := r.expect(frame.Request)
		r.send(frame.AppendReason(nil, frame.GoAway, "restart"))
		r.send(frame.AppendAnswer(nil, request.ID, []byte("y")))
		close(release)
		if f := r.expect(frame.Answer); string(f.Payload) != "x" {
			t.Errorf("%q", f.Payload)
		}
		r.expectEnd()
	})
	n := newNode(t, Config{Mux: m, Clock: newFakeClock()})
	c, err := n.Peer(address).Conn(background(t))
	check(t, err)
	answer, err := c.Do(background(t), Request{Name: "echo"}, nil)
	if err != nil || string(answer) != "y" {
		t.Errorf("%q, %v", answer, err)
	}
	<-ended
	if lost := n.Stats().Lost; lost != 0 {
		t.Error("a connection that ends as announced counts as lost")
	}
}

func TestTheReceiverOfGoAwayClosesAnIdleConnection(t *testing.T) {
	n, connector := newNode(t, Config{}), newNode(t, Config{Clock: newFakeClock()})
	c, err := connector.Peer(n.address).Conn(background(t))
	check(t, err)
	n.onlyConnection(t)
	check(t, <-drain(t, n))
	<-c.Done()
	if err := c.Err(); !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
}

// drainInHandshake drains a node whose only peer has not proved itself yet.
func drainInHandshake(t *testing.T, n *node) (*raw, chan error) {
	r := dialRaw(t, n)
	drained := drain(t, n)
	eventually(t, "the drain has begun", func() bool { return n.ctx.Err() != nil })
	return r, drained
}

func TestAHandshakeUnderWayEndsBeforeGoAway(t *testing.T) {
	n := newNode(t, Config{Clock: newFakeClock()})
	r, drained := drainInHandshake(t, n)
	connector, err := New(Config{Secrets: newSecrets(t, secretOne)})
	check(t, err)
	_, err = connector.connect(r.socket)
	check(t, err)
	r.limit = frame.MessageMax
	r.send(frame.AppendRequest(nil, 1, "echo", 0, 0, nil))
	r.expect(frame.GoAway)
	if f := r.expect(frame.Error); Code(f.Code) != CodeGoingAway {
		t.Errorf("code %d", f.Code)
	}
	r.conn.Close()
	check(t, <-drained)
}

func TestADrainGivesHandshakesASecond(t *testing.T) {
	clock := newFakeClock()
	n := newNode(t, Config{Clock: clock})
	r, drained := drainInHandshake(t, n)
	eventually(t, "the second has begun", func() bool { return clock.hasTimers() })
	clock.advance(leaveWait)
	check(t, <-drained)
	r.expectEnd()
}

func TestCloseEndsHandshakesAtOnce(t *testing.T) {
	n := newNode(t, Config{Clock: newFakeClock()})
	r := dialRaw(t, n)
	n.Close()
	r.expectEnd()
}

func TestTwoSidesThatDrainDoNotWait(t *testing.T) {
	clock := newFakeClock() // stands still
	n, connector := newNode(t, Config{Clock: clock}), newNode(t, Config{Clock: clock})
	_, err := connector.Peer(n.address).Conn(background(t))
	check(t, err)
	n.onlyConnection(t)
	one, other := drain(t, n), drain(t, connector)
	check(t, <-one)
	check(t, <-other)
}

// TestNoRequestFailsWhenAServerGoesAway asks while the server drains, and another one takes its place.
func TestNoRequestFailsWhenAServerGoesAway(t *testing.T) {
	first, second := newNode(t, Config{}), newNode(t, Config{})
	var serving atomic.Pointer[node]
	serving.Store(first)
	connector := newNode(t, Config{Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, serving.Load().address)
	}})
	stop, results := make(chan struct{}), make(chan error, 16)
	ask := func() error {
		for {
			select {
			case <-stop:
				return nil
			default:
			}
			if _, err := connector.Peer("server:1").Do(background(t), Request{Name: "echo"}, nil); err != nil {
				return err
			}
		}
	}
	for range cap(results) {
		go func() { results <- ask() }()
	}
	eventually(t, "requests", func() bool { return first.Stats().Served > 100 })
	serving.Store(second)
	check(t, <-drain(t, first))
	eventually(t, "requests", func() bool { return second.Stats().Served > 100 || len(results) > 0 })
	close(stop)
	for range cap(results) {
		check(t, <-results)
	}
}
