package grid

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"martlet/object-server/grid/frame"

	"github.com/tinylib/msgp/msgp"
)

// blocking adds a handler that waits for its end, and tells of its begin and of what ended it.
func blocking(m *Mux, name string) (begun chan *Conn, ended chan error) {
	begun, ended = make(chan *Conn, 100), make(chan error, 100)
	m.HandleRaw(name, func(ctx context.Context, _, answer []byte) ([]byte, error) {
		begun <- FromContext(ctx)
		<-ctx.Done()
		ended <- ctx.Err()
		return answer, ctx.Err()
	})
	return begun, ended
}

func expectCode(t *testing.T, err error, code Code) {
	t.Helper()
	if e := (*Error)(nil); !errors.As(err, &e) || e.Code != code {
		t.Errorf("%v, where the code %v is expected", err, code)
	}
}

// TestEachCallerGetsItsOwnAnswer has callers on both sides of one connection, and handlers that end in any order.
func TestEachCallerGetsItsOwnAnswer(t *testing.T) {
	slow := func(ctx context.Context, payload, answer []byte) ([]byte, error) {
		if n := rand.N(10); n > 0 {
			select {
			case <-time.After(time.Duration(n) * 100 * time.Microsecond):
			case <-ctx.Done():
				return answer, ctx.Err()
			}
		}
		return append(answer, payload...), nil
	}
	mux := func() *Mux {
		m := testMux()
		m.HandleRaw("slow", slow)
		return m
	}
	acceptor := newNode(t, Config{Mux: mux(), Options: frame.Options{Checksum: true}})
	connector := newNode(t, Config{Mux: mux()})
	there, err := connector.Peer(acceptor.address).Conn(background(t))
	check(t, err)
	eventually(t, "the other side", func() bool { return len(acceptor.Connections()) == 1 })
	var all sync.WaitGroup
	for caller := range 32 {
		all.Add(1)
		go func() {
			defer all.Done()
			over := []Requester{there, acceptor.Connections()[0]}[caller%2]
			for i := range 100 {
				payload := binary.BigEndian.AppendUint64(nil, uint64(caller)<<32|uint64(i))
				payload = append(payload, make([]byte, rand.N(5000))...)
				ctx, cancel := background(t), context.CancelFunc(func() {})
				if i%10 == 0 { // some give up
					ctx, cancel = context.WithTimeout(ctx, time.Duration(rand.N(500))*time.Microsecond)
				}
				answer, err := over.Do(ctx, Request{Name: []string{"slow", "echo"}[i%2], Payload: payload}, []byte("before"))
				cancel()
				if err != nil && i%10 != 0 || err == nil && !bytes.Equal(answer, append([]byte("before"), payload...)) {
					t.Errorf("caller %d, request %d: %d bytes, %v", caller, i, len(answer), err)
				}
			}
		}()
	}
	all.Wait()
	for _, c := range append(acceptor.Connections(), connector.Connections()...) {
		eventually(t, "nothing in flight", func() bool {
			c.mu.Lock()
			defer c.mu.Unlock()
			return c.calling+c.callData+c.inFlight+c.inFlightBytes+len(c.active)+len(c.calls) == 0
		})
	}
}

func TestErrorsKeepTheirCode(t *testing.T) {
	m := testMux()
	m.HandleRaw("busy", func(context.Context, []byte, []byte) ([]byte, error) { return nil, &Error{CodeBusy, "later"} })
	m.HandleRaw("wrapped", func(context.Context, []byte, []byte) ([]byte, error) {
		return nil, fmt.Errorf("here: %w", &Error{42, "own"})
	})
	m.HandleRaw("plain", func(context.Context, []byte, []byte) ([]byte, error) { return nil, errors.New("the disk is full") })
	m.HandleRaw("panics", func(context.Context, []byte, []byte) ([]byte, error) { panic("a bug") })
	m.HandleRaw("large", func(context.Context, []byte, []byte) ([]byte, error) { return make([]byte, 1<<20+1), nil })
	m.HandleStream("stream", func(context.Context, *Stream, []byte) error { return nil })
	n := newNode(t, Config{Mux: m})
	peer := newNode(t, Config{}).Peer(n.address)
	for _, c := range []struct {
		name string
		size int
		want string
		code Code
	}{
		{"busy", 0, "busy: later", CodeBusy}, {"wrapped", 0, "code 42: own", 42},
		{"plain", 0, "failed: the disk is full", CodeFailed}, {"panics", 0, "failed: the handler panicked", CodeFailed},
		{"none", 0, "unknown name", CodeUnknownName}, {"stream", 0, "unknown name", CodeUnknownName},
		{"echo", 1<<20 + 1, "too large: 1048577 bytes", CodeTooLarge},
		{"large", 0, "too large: the answer has 1048577 bytes, the limit is 1048576", CodeTooLarge},
	} {
		answer, err := peer.Do(background(t), Request{Name: c.name, Payload: make([]byte, c.size)}, []byte("kept"))
		if expectCode(t, err, c.code); err.Error() != c.want || string(answer) != "kept" {
			t.Errorf("%s: %v, %q", c.name, err, answer)
		}
	}
	if n.Stats().HandlerPanics != 1 {
		t.Error(n.Stats())
	}
	if _, err := peer.Do(background(t), Request{Name: "echo", Payload: make([]byte, 1<<20)}, nil); err != nil {
		t.Error("the largest payload:", err)
	}
}

// word is a value that msgp encodes.
type word string

func (w word) MarshalMsg(b []byte) ([]byte, error) { return msgp.AppendString(b, string(w)), nil }

func (w *word) UnmarshalMsg(b []byte) ([]byte, error) {
	s, rest, err := msgp.ReadStringBytes(b)
	*w = word(s)
	return rest, err
}

func TestTypedHandlers(t *testing.T) {
	m := &Mux{}
	Handle(m, "greet", func(_ context.Context, q *word) (*word, error) {
		if *q == "" {
			return nil, &Error{CodeBadPayload, "no name"}
		}
		a := "hello " + *q
		return &a, nil
	})
	n := newNode(t, Config{Mux: m})
	peer := newNode(t, Config{}).Peer(n.address)
	var answer word
	if err := Call(background(t), peer, "greet", word("martlet"), &answer); err != nil || answer != "hello martlet" {
		t.Error(answer, err)
	}
	expectCode(t, Call(background(t), peer, "greet", word(""), &answer), CodeBadPayload)
	for _, payload := range [][]byte{nil, {0xc0}, {0xa0, 0xa0}} {
		_, err := peer.Do(background(t), Request{Name: "greet", Payload: payload}, nil)
		expectCode(t, err, CodeBadPayload)
	}
}

func TestANameIsUsedOnce(t *testing.T) {
	m := testMux()
	for _, name := range []string{"echo", string(make([]byte, frame.NameMax+1))} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%q is added", name)
				}
			}()
			m.HandleStream(name, nil)
		}()
	}
}

func TestADeadlineEndsBothSides(t *testing.T) {
	here, there := newFakeClock(), newFakeClock()
	m := testMux()
	begun, ended := blocking(m, "block")
	acceptor := newNode(t, Config{Mux: m, Clock: there, DeadAfter: time.Hour, PingAfter: time.Hour})
	connector := newNode(t, Config{Clock: here, DeadAfter: time.Hour, PingAfter: time.Hour})
	result := make(chan error)
	for _, timeout := range []time.Duration{5 * time.Second, 3 * time.Second} {
		go func() {
			_, err := connector.Peer(acceptor.address).Do(background(t), Request{Name: "block", Timeout: timeout}, nil)
			result <- err
		}()
		<-begun
	}
	for _, step := range []time.Duration{3 * time.Second, 2 * time.Second} {
		here.advance(step - 1)
		select {
		case err := <-result:
			t.Fatal("before the deadline:", err)
		default:
		}
		here.advance(1)
		err := <-result
		expectCode(t, err, CodeDeadline)
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		if len(ended) != 0 {
			t.Error("the clock of the responder stands still")
		}
		there.advance(step)
		if err := <-ended; err != context.DeadlineExceeded {
			t.Error(err)
		}
	}
}

func TestTheResponderSaysWhatEndedTheRequest(t *testing.T) {
	m := streamMux()
	begun, _ := blocking(m, "block")
	m.HandleStream("block stream", func(ctx context.Context, _ *Stream, _ []byte) error { <-ctx.Done(); return ctx.Err() })
	clock := newFakeClock()
	n := newNode(t, Config{Mux: m, Clock: clock})
	r := rawConnector(t, n, Config{})
	r.send(frame.AppendRequest(nil, 1, "block", 1000, 0, nil), frame.AppendOpen(nil, 3, "block stream", 1000, 0, 0, nil))
	<-begun
	clock.advance(time.Second)
	seen := map[uint64]Code{}
	for range 2 {
		f := r.expect(frame.Error)
		seen[f.ID] = Code(f.Code)
	}
	if seen[1] != CodeDeadline || seen[3] != CodeDeadline {
		t.Error(seen)
	}
	r.send(frame.AppendRequest(nil, 5, "block", 0, 0, nil))
	<-begun
	r.send(frame.AppendNumber(nil, frame.Cancel, 5), frame.AppendRequest(nil, 7, "echo", 0, 0, nil))
	if f := r.expect(frame.Answer); f.ID != 7 { // nothing comes for a request that was cancelled
		t.Error(f)
	}
}

func TestTheDeadlineOfTheContextIsSent(t *testing.T) {
	m := testMux()
	left := make(chan time.Duration, 1)
	m.HandleRaw("left", func(ctx context.Context, _, answer []byte) ([]byte, error) {
		deadline, is := ctx.Deadline()
		if left <- 0; is {
			<-left
			left <- time.Until(deadline)
		}
		return answer, nil
	})
	n := newNode(t, Config{Mux: m})
	peer := newNode(t, Config{}).Peer(n.address)
	for _, c := range []struct{ context, timeout, want time.Duration }{
		{0, 0, 0}, {time.Hour, 0, time.Hour}, {0, time.Minute, time.Minute}, {time.Hour, time.Minute, time.Minute}, {time.Minute, time.Hour, time.Minute},
	} {
		ctx, cancel := context.Background(), context.CancelFunc(func() {})
		if c.context > 0 {
			ctx, cancel = context.WithTimeout(ctx, c.context)
		}
		_, err := peer.Do(ctx, Request{Name: "left", Timeout: c.timeout}, nil)
		cancel()
		if got := <-left; err != nil || got > c.want || got < c.want-longest {
			t.Error(c, got, err)
		}
	}
}

func TestTheEndOfTheContextCancels(t *testing.T) {
	m := testMux()
	begun, ended := blocking(m, "block")
	n := newNode(t, Config{Mux: m})
	peer := newNode(t, Config{}).Peer(n.address)
	ctx, cancel := context.WithCancel(background(t))
	result := make(chan error)
	go func() {
		_, err := peer.Do(ctx, Request{Name: "block"}, nil)
		result <- err
	}()
	<-begun
	cancel()
	if err := <-result; err != context.Canceled {
		t.Error(err)
	}
	if err := <-ended; err != context.Canceled {
		t.Error(err)
	}
	if _, err := peer.Do(ctx, Request{Name: "echo"}, nil); err != context.Canceled {
		t.Error("a context that has ended:", err)
	}
	if _, err := peer.Do(background(t), Request{Name: "echo"}, nil); err != nil {
		t.Error("the next request:", err)
	}
}

func TestTheLimitsOfThePeerAreKept(t *testing.T) {
	for name, options := range map[string]frame.Options{
		"max_requests": {MaxPayload: 100, MaxRequests: 2, MaxBytes: 1000, MaxStreams: 1, Window: 10},
		"max_bytes":    {MaxPayload: 100, MaxRequests: 100, MaxBytes: 25, MaxStreams: 1, Window: 10},
	} {
		t.Run(name, func(t *testing.T) {
			m := testMux()
			release := make(chan struct{})
			begun := make(chan struct{}, 10)
			m.HandleRaw("wait", func(_ context.Context, payload, answer []byte) ([]byte, error) {
				begun <- struct{}{}
				<-release
				return append(answer, payload...), nil
			})
			n := newNode(t, Config{Mux: m, Options: options})
			connector := newNode(t, Config{})
			c, err := connector.Peer(n.address).Conn(background(t))
			check(t, err)
			result := make(chan error)
			for range 5 {
				go func() {
					_, err := c.Do(background(t), Request{Name: "wait", Payload: make([]byte, 10)}, nil)
					result <- err
				}()
			}
			<-begun
			<-begun
			eventually(t, "three wait", func() bool {
				c.mu.Lock()
				defer c.mu.Unlock()
				return c.calling == 2 && c.waiting.head != nil && c.waiting.head.next != nil && c.waiting.head.next.next == c.waiting.tail
			})
			ctx, cancel := context.WithCancel(background(t))
			go func() {
				_, err := c.Do(ctx, Request{Name: "wait"}, nil)
				result <- err
			}()
			cancel() // one that waits may give up
			if err := <-result; err != context.Canceled {
				t.Error(err)
			}
			close(release)
			for range 5 {
				check(t, <-result)
			}
			if busy := n.Stats().ServedBusy; busy != 0 {
				t.Error(busy, "were refused")
			}
		})
	}
}

func TestTheResponderKeepsItsLimits(t *testing.T) {
	m := testMux()
	begun, _ := blocking(m, "block")
	n := newNode(t, Config{Mux: m, Options: frame.Options{MaxPayload: 100, MaxRequests: 2, MaxBytes: 150, MaxStreams: 0, Window: 10}})
	r := rawConnector(t, n, Config{})
	request := func(id uint64, size int) []byte {
		return frame.AppendRequest(nil, id, "block", 0, 0, make([]byte, size))
	}
	expect := func(id uint64, code Code) {
		t.Helper()
		if f := r.expect(frame.Error); f.ID != id || Code(f.Code) != code {
			t.Errorf("%d: %d %s, want %d %v", f.ID, f.Code, f.Reason, id, code)
		}
	}
	r.send(request(1, 101))
	expect(1, CodeTooLarge)
	r.send(request(3, 100))
	<-begun
	r.send(request(5, 51))
	expect(5, CodeBusy)
	r.send(request(7, 50))
	<-begun
	r.send(request(9, 0))
	expect(9, CodeBusy)
	r.send(frame.AppendOpen(nil, 11, "none", 0, 0, 0, nil))
	expect(11, CodeUnknownName)
	r.send(frame.AppendNumber(nil, frame.Cancel, 3))
	eventually(t, "room", func() bool {
		r.send(request(n.nextRawID(), 0))
		select {
		case <-begun:
			return true
		case <-time.After(time.Millisecond):
			return false
		}
	})
}

// nextRawID is an id that a raw connector has not used.
func (n *node) nextRawID() uint64 {
	n.rawID += 2
	return 1000 + n.rawID + 1
}

func TestAHandlerMayAskItsRequester(t *testing.T) {
	m := testMux()
	m.HandleRaw("back", func(ctx context.Context, payload, answer []byte) ([]byte, error) {
		if IsResent(ctx) {
			answer = append(answer, "again "...)
		}
		return FromContext(ctx).Do(ctx, Request{Name: "echo", Payload: payload}, answer)
	})
	n := newNode(t, Config{Mux: m, Options: frame.Options{Name: "there"}})
	peer := newNode(t, Config{}).Peer(n.address)
	for resent, want := range map[bool]string{false: "x", true: "again x"} {
		answer, err := peer.Do(background(t), Request{Name: "back", Payload: []byte("x"), Resent: resent}, nil)
		if err != nil || string(answer) != want {
			t.Errorf("%q %v", answer, err)
		}
	}
	if c, err := peer.Conn(background(t)); err != nil || c.PeerName() != "there" || c.Address() != n.address {
		t.Error(c, err)
	}
	if FromContext(context.Background()) != nil || IsResent(context.Background()) {
		t.Error("outside of a handler")
	}
}

func TestARequestAllocatesLittle(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	n := newNode(t, Config{})
	peer := newNode(t, Config{}).Peer(n.address)
	payload, answer := make([]byte, 512), make([]byte, 0, 1024)
	request := func() {
		if _, err := peer.Do(context.Background(), Request{Name: "echo", Payload: payload, Timeout: time.Minute}, answer); err != nil {
			t.Error(err)
		}
	}
	request()
	if n := testing.AllocsPerRun(500, request); n > 5 {
		t.Errorf("%v allocations in caller and responder, at most 5 are allowed", n)
	}
}
