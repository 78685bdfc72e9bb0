package grid

import (
	"context"
	"errors"
	"net"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"martlet/object-server/grid/frame"
)

// queued returns the bytes that wait to be written.
func (c *Conn) queued() (bytes int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, b := range c.queue {
		bytes += len(b.b)
	}
	return bytes
}

// stalled returns the address of an acceptor that proves itself and then reads nothing.
func stalled(t testing.TB, options frame.Options) (address string) {
	config := Config{Secrets: newSecrets(t, secretOne), Options: options}
	g, err := New(config)
	check(t, err)
	return rawAcceptor(t, func(r *raw) {
		_, err := g.accept(r.socket)
		if err != nil {
			t.Error(err)
		}
	})
}

func TestAStalledResponderHoldsUpNoRequestAndNoMemory(t *testing.T) {
	const inFlight, size = 8, 1 << 20
	address := stalled(t, frame.Options{MaxPayload: size, MaxRequests: inFlight, MaxBytes: 1 << 30, MaxStreams: 1, Window: 1 << 30})
	clock := newFakeClock()
	n := newNode(t, Config{Clock: clock, PingAfter: time.Hour, DeadAfter: 2 * time.Hour})
	peer := n.Peer(address)
	c, err := peer.Conn(background(t))
	check(t, err)
	s, err := peer.Open(background(t), "echo", nil)
	check(t, err)
	goroutines := runtime.NumGoroutine()
	const callers = 200
	result := make(chan error, callers)
	payload := make([]byte, size)
	for range callers {
		go func() {
			_, err := peer.Do(background(t), Request{Name: "echo", Payload: payload, Timeout: time.Second}, nil)
			result <- err
		}()
	}
	eventually(t, "all wait", func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.calling+len(c.waiting.all()) == callers && c.calling <= inFlight
	})
	const most = requestsMax + 2*size // one message is being written
	if bytes := c.queued(); bytes > most {
		t.Error(bytes, "bytes are queued")
	}
	written := make(chan error)
	go func() {
		_, err := s.Write(make([]byte, 100<<20))
		written <- err
	}()
	eventually(t, "the stream is held up", func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.data >= dataMax
	})
	if bytes := c.queued(); bytes > most+2*dataMax {
		t.Error(bytes, "bytes are queued")
	}
	clock.advance(time.Second)
	for range callers {
		expectCode(t, <-result, CodeDeadline)
	}
	s.Cancel()
	if err := <-written; err != context.Canceled {
		t.Error(err)
	}
	eventually(t, "goroutines end", func() bool { return runtime.NumGoroutine() <= goroutines })
	clock.advance(2 * time.Hour)
	<-c.Done()
	if err := c.Err(); !errors.Is(err, ErrLost) {
		t.Error(err)
	}
}

func TestAnswersThatAreNotTakenBeginNoRequests(t *testing.T) {
	const size, requests, answersMax = 256 << 10, 200, 1 << 20
	m := testMux()
	m.HandleRaw("large", func(_ context.Context, payload, answer []byte) ([]byte, error) {
		return append(append(answer, payload...), make([]byte, size)...), nil
	})
	n := newNode(t, Config{Mux: m, AnswersMax: answersMax, WorkersMax: 4})
	r := rawConnector(t, n, Config{})
	for i := range uint64(requests) {
		r.send(frame.AppendRequest(nil, 2*i+1, "large", 0, 0, []byte{byte(i)}))
	}
	c := n.onlyConnection(t)
	eventually(t, "requests are parked", func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.parked.head != nil
	})
	r.send(frame.AppendNumber(nil, frame.Ping, 1)) // is read, nevertheless
	eventually(t, "the PING is read", func() bool { return n.Stats().MessagesIn == requests+1 })
	if bytes := c.queued(); bytes > answersMax+2*4*(size+frame.Overhead+headRoom) {
		t.Error(bytes, "bytes of answers are queued")
	}
	if served := n.Stats().Served; served == requests {
		t.Error("all requests were begun")
	}
	seen := map[uint64]bool{}
	for len(seen) < requests {
		f := r.nextButPing()
		if f.Type == frame.Pong {
			continue
		}
		if f.Type != frame.Answer || seen[f.ID] || len(f.Payload) != size+1 || f.Payload[0] != byte(f.ID/2) {
			t.Fatal(f.Type, f.ID, len(f.Payload))
		}
		seen[f.ID] = true
	}
	eventually(t, "nothing in flight", func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.inFlight == 0 && c.inFlightBytes == 0 && c.answers.Load() == 0 && c.reactive == 0
	})
}

func TestAPeerThatReadsNoRefusalsIsNotRead(t *testing.T) {
	clock := newFakeClock()
	n := newNode(t, Config{Clock: clock})
	r := rawConnector(t, n, Config{})
	c := n.onlyConnection(t)
	var sent atomic.Int64
	go func() { // as many as the node reads
		name := strings.Repeat("n", frame.NameMax)
		for id := uint64(1); ; {
			var b []byte
			for range 1000 {
				b = frame.AppendRequest(b, id, name, 0, 0, nil)
				b = frame.AppendNumber(b, frame.Ping, id)
				id += 2
			}
			if r.sendAlone(b) != nil {
				return
			}
			sent.Add(1)
		}
	}()
	isStopped := func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.reactive > reactiveMax && c.isWriting
	}
	eventually(t, "the reader stops", func() bool {
		before := sent.Load()
		if !isStopped() {
			return false
		}
		time.Sleep(20 * time.Millisecond) // no condition says that nothing more happens
		return isStopped() && sent.Load() == before
	})
	if bytes := c.queued(); bytes > 2*reactiveMax+mergeMax {
		t.Error(bytes, "bytes are queued")
	}
	clock.advance(time.Hour)
	<-c.Done()
}

func TestASilentPeerIsDead(t *testing.T) {
	clock := newFakeClock()
	n := newNode(t, Config{Clock: clock})
	r := rawConnector(t, n, Config{})
	c := n.onlyConnection(t)
	result := make(chan error)
	go func() {
		_, err := c.Do(background(t), Request{Name: "none"}, nil)
		result <- err
	}()
	r.expect(frame.Request)
	clock.advance(4 * time.Second)
	r.send(frame.AppendNumber(nil, frame.Pong, 0)) // any frame shows that the peer lives
	eventually(t, "it came", func() bool { return c.lastReceived.Load() == int64(4*time.Second) })
	clock.advance(5*time.Second - 1)
	if c.queued() != 0 {
		t.Error("a PING before its time")
	}
	clock.advance(1)
	if f := r.expect(frame.Ping); f.ID != 1 {
		t.Error(f)
	}
	clock.advance(10*time.Second - 1)
	if c.Err() != nil {
		t.Error("ended before its time:", c.Err())
	}
	clock.advance(1)
	if err := <-result; !errors.Is(err, ErrLost) {
		t.Error(err)
	}
	r.expectEnd()
	if s := n.Stats(); s.Lost != 1 || s.Connections != 0 {
		t.Error(s)
	}
}

// TestConnectionsMayDieUnderLoad ends connections at random. Each request ends in time, with its own answer or an error
// that says that the connection is gone.
func TestConnectionsMayDieUnderLoad(t *testing.T) {
	m := testMux()
	m.HandleRaw("slow", func(ctx context.Context, payload, answer []byte) ([]byte, error) {
		time.Sleep(50 * time.Microsecond)
		return append(answer, payload...), nil
	})
	acceptor := newNode(t, Config{Mux: m})
	connector := newNode(t, Config{BackoffMin: time.Millisecond, BackoffMax: time.Millisecond})
	stop := make(chan struct{})
	var all sync.WaitGroup
	var answered, lost atomic.Int64
	for caller := range 16 {
		all.Add(1)
		go func() {
			defer all.Done()
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				payload := []byte{byte(caller), byte(i), byte(i >> 8), byte(i >> 16)}
				began := time.Now()
				answer, err := connector.Peer(acceptor.address).Do(context.Background(), Request{Name: "slow", Payload: payload, Timeout: longest}, nil)
				switch {
				case time.Since(began) > longest/2:
					t.Error("a request hung for", time.Since(began), err)
				case err == nil && string(answer) == string(payload):
					answered.Add(1)
				case errors.Is(err, ErrLost), errors.Is(err, ErrUnreachable):
					lost.Add(1)
				default:
					t.Errorf("%q %v", answer, err)
				}
			}
		}()
	}
	for range 20 {
		before := answered.Load()
		eventually(t, "answers", func() bool { return answered.Load() > before+20 })
		for i, n := range []*node{acceptor, connector} {
			for _, c := range n.Connections() {
				if i == 0 {
					c.socket.conn.Close() // as if the network failed
				} else {
					c.Close()
				}
			}
		}
	}
	close(stop)
	all.Wait()
	t.Log(answered.Load(), "answered,", lost.Load(), "lost,", connector.Stats().Handshakes, "handshakes")
	if connector.Stats().ProtocolErrors+acceptor.Stats().ProtocolErrors > 0 {
		t.Error(connector.log, acceptor.log)
	}
}

func TestAServerThatIsAwayIsDialledRarely(t *testing.T) {
	clock := newFakeClock()
	var dials atomic.Int64
	var wrapped Config
	wrapped.complete()
	n := newNode(t, Config{Clock: clock, Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
		dials.Add(1)
		return wrapped.Dial(ctx, network, address)
	}})
	away := newNode(t, Config{})
	away.server.Close()
	for round := range 8 {
		for range 5 {
			if _, err := n.Peer(away.address).Do(background(t), Request{Name: "echo"}, nil); !errors.Is(err, ErrUnreachable) {
				t.Fatal(err)
			}
		}
		if got := dials.Load(); got != int64(round+1) {
			t.Fatalf("%d dials in round %d", got, round)
		}
		pause := min(100*time.Millisecond<<round, 5*time.Second)
		clock.advance(pause/2 - 1)
		if _, err := n.Peer(away.address).Do(background(t), Request{Name: "echo"}, nil); err == nil || dials.Load() != int64(round+1) {
			t.Fatal("dialled again before half of the pause", err)
		}
		clock.advance(pause/2 + 1)
	}
}

func TestDrainEndsWhatIsInFlightAndRefusesTheRest(t *testing.T) {
	m := testMux()
	begun, release := make(chan struct{}), make(chan struct{})
	m.HandleRaw("wait", func(_ context.Context, payload, answer []byte) ([]byte, error) {
		begun <- struct{}{}
		<-release
		return append(answer, payload...), nil
	})
	n, connector := newNode(t, Config{Mux: m}), newNode(t, Config{})
	peer := connector.Peer(n.address)
	result, drained := make(chan error), make(chan error)
	go func() {
		answer, err := peer.Do(background(t), Request{Name: "wait", Payload: []byte("x")}, nil)
		if string(answer) != "x" {
			t.Errorf("%q", answer)
		}
		result <- err
	}()
	<-begun
	r := rawConnector(t, n, Config{})
	eventually(t, "both are connected", func() bool { return len(n.Connections()) == 2 })
	go func() { drained <- n.Drain(background(t), "restart") }()
	if f := r.expect(frame.GoAway); string(f.Reason) != "restart" {
		t.Errorf("%q", f.Reason)
	}
	r.conn.Close() // it has nothing in flight
	eventually(t, "GOAWAY comes", func() bool { return connector.Connections()[0].HasGoneAway() })
	if _, err := peer.Do(background(t), Request{Name: "echo"}, nil); !errors.Is(err, ErrUnreachable) {
		t.Error("a request after GOAWAY:", err)
	}
	close(release)
	check(t, <-result)
	check(t, <-drained)
	eventually(t, "the end", func() bool { return connector.Stats().Connections == 0 })
	if lost := connector.Stats().Lost; lost != 0 {
		t.Error("a connection that ends as announced counts as lost")
	}
	if n.Stats().Connections != 0 {
		t.Error(n.Stats())
	}
}

func TestDrainHasALimit(t *testing.T) {
	m := testMux()
	begun, ended := blocking(m, "block")
	n, connector := newNode(t, Config{Mux: m}), newNode(t, Config{})
	result := make(chan error)
	go func() {
		_, err := connector.Peer(n.address).Do(background(t), Request{Name: "block"}, nil)
		result <- err
	}()
	<-begun
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := n.Drain(ctx, "now"); err != context.Canceled {
		t.Error(err)
	}
	if err := <-result; !errors.Is(err, ErrLost) {
		t.Error(err)
	}
	<-ended
}

// TestWhatWasGivenUpIsNotQueuedForEver sends requests and opens streams again and again to a peer that reads nothing.
func TestWhatWasGivenUpIsNotQueuedForEver(t *testing.T) {
	const size = 1 << 20
	address := stalled(t, frame.Options{MaxPayload: size, MaxRequests: 8, MaxBytes: 1 << 30, MaxStreams: 4, Window: 1 << 30})
	clock := newFakeClock()
	n := newNode(t, Config{Clock: clock, PingAfter: time.Hour, DeadAfter: 2 * time.Hour})
	c, err := n.Peer(address).Conn(background(t))
	check(t, err)
	payload := make([]byte, size)
	for round := range 10 {
		if s, err := c.Open(background(t), "wait", payload); err == nil {
			s.Cancel()
		} else if expectCode(t, err, CodeBusy); round == 0 {
			t.Error("the first stream has no room")
		}
		result := make(chan error)
		for range 8 {
			go func() {
				_, err := c.Do(background(t), Request{Name: "echo", Payload: payload, Timeout: time.Second}, nil)
				result <- err
			}()
		}
		eventually(t, "all wait", func() bool {
			c.mu.Lock()
			defer c.mu.Unlock()
			return c.calling+len(c.waiting.all()) == 8
		})
		clock.advance(time.Second)
		for range 8 {
			expectCode(t, <-result, CodeDeadline)
		}
	}
	if bytes := c.queued(); bytes > requestsMax+3*(size+frame.Overhead+headRoom) {
		t.Error(bytes, "bytes are queued")
	}
}

// all returns the calls of the list.
func (l *callList) all() (list []*call) {
	for one := l.head; one != nil; one = one.next {
		list = append(list, one)
	}
	return list
}

func TestTheTimeoutHoldsWhileConnecting(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0") // accepts and says nothing
	check(t, err)
	defer silent.Close()
	n := newNode(t, Config{HandshakeTimeout: longest})
	began := time.Now()
	_, err = n.Peer(silent.Addr().String()).Do(context.Background(), Request{Name: "echo", Timeout: 10 * time.Millisecond}, nil)
	if expectCode(t, err, CodeDeadline); time.Since(began) > longest/2 {
		t.Error("it took", time.Since(began))
	}
}

func TestAServerThatGoesAwayAtOnceIsNotDialledForEver(t *testing.T) {
	config := Config{Secrets: newSecrets(t, secretOne)}
	g, err := New(config)
	check(t, err)
	address := rawAcceptor(t, func(r *raw) {
		if _, err := g.accept(r.socket); err == nil {
			r.send(frame.AppendReason(nil, frame.GoAway, "no"))
			r.expectEnd()
		}
	})
	n := newNode(t, Config{})
	c, err := n.Peer(address).Conn(background(t))
	check(t, err)
	eventually(t, "GOAWAY comes", c.HasGoneAway)
	// A request that is sent before GOAWAY comes ends with its deadline.
	_, err = n.Peer(address).Do(background(t), Request{Name: "echo", Timeout: 50 * time.Millisecond}, nil)
	if err == nil || n.Stats().Handshakes > 1+attemptsMax {
		t.Error(err, n.Stats().Handshakes)
	}
}
