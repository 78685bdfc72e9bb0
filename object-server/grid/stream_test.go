package grid

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"testing"
	"time"

	"martlet/object-server/grid/frame"

	"pgregory.net/rapid"
)

// streamMux has the stream handlers of these tests.
func streamMux() *Mux {
	m := testMux()
	m.HandleStream("echo stream", func(_ context.Context, s *Stream, payload []byte) error {
		if err := s.Send(payload); err != nil {
			return err
		}
		for {
			message, err := s.Receive()
			if err == io.EOF {
				return nil
			}
			if err == nil {
				err = s.Send(message)
			}
			if err != nil {
				return err
			}
		}
	})
	m.HandleStream("fail", func(_ context.Context, s *Stream, payload []byte) error {
		if err := s.Send(payload); err != nil {
			return err
		}
		return &Error{CodeFailed, "at last"}
	})
	m.HandleStream("panic", func(context.Context, *Stream, []byte) error { panic("a bug") })
	return m
}

func TestAStreamKeepsMessagesInOrder(t *testing.T) {
	for _, window := range []uint64{10, 1000, 256 << 10} {
		options := frame.Options{MaxPayload: 1000, MaxRequests: 10, MaxBytes: 1000, MaxStreams: 8, Window: window}
		n := newNode(t, Config{Mux: streamMux(), Options: options})
		peer := newNode(t, Config{Options: options}).Peer(n.address)
		s, err := peer.Open(background(t), "echo stream", []byte("first"))
		check(t, err)
		const messages = 1000
		go func() {
			for i := range uint32(messages) {
				message := binary.BigEndian.AppendUint32(nil, i)
				message = append(message, make([]byte, uint64(i)*7919%(min(window, frame.DataMax)-3))...)
				if err := s.Send(message); err != nil {
					t.Error(err)
				}
			}
			if err := s.CloseSend(); err != nil {
				t.Error(err)
			}
		}()
		if message, err := s.Receive(); err != nil || string(message) != "first" {
			t.Error(message, err)
		}
		for i := range uint32(messages) {
			message, err := s.Receive()
			if err != nil || binary.BigEndian.Uint32(message) != i || uint64(len(message)) != 4+uint64(i)*7919%(min(window, frame.DataMax)-3) {
				t.Fatal(i, len(message), err)
			}
		}
		if message, err := s.Receive(); err != io.EOF {
			t.Error(message, err)
		}
		if err := s.Send([]byte("x")); err != ErrClosed {
			t.Error(err)
		}
		c := n.onlyConnection(t)
		eventually(t, "the stream is gone", func() bool {
			c.mu.Lock()
			defer c.mu.Unlock()
			return len(c.streams) == 0 && c.theirStreams == 0 && c.data == 0
		})
	}
}

func TestAStreamIsAReaderAndAWriter(t *testing.T) {
	n := newNode(t, Config{Mux: streamMux()})
	s, err := newNode(t, Config{}).Peer(n.address).Open(background(t), "echo stream", nil)
	check(t, err)
	want := bytes.Repeat([]byte("0123456789"), 500_000)
	go func() {
		if n, err := s.Write(want); n != len(want) || err != nil {
			t.Error(n, err)
		}
		if err := s.CloseSend(); err != nil {
			t.Error(err)
		}
	}()
	if got, err := io.ReadAll(s); err != nil || !bytes.Equal(got, want) {
		t.Error(len(got), err)
	}
	expectCode(t, s.Send(make([]byte, frame.DataMax+1)), CodeTooLarge)
}

func TestHowStreamsEnd(t *testing.T) {
	n := newNode(t, Config{Mux: streamMux()})
	peer := newNode(t, Config{}).Peer(n.address)
	s, err := peer.Open(background(t), "fail", []byte("something"))
	check(t, err)
	if message, err := s.Receive(); err == nil && string(message) != "something" {
		t.Errorf("%q", message)
	}
	eventually(t, "the error", func() bool { return s.Send([]byte("x")) != nil })
	_, err = s.Receive()
	if expectCode(t, err, CodeFailed); err.Error() != "failed: at last" {
		t.Error(err)
	}
	for name, code := range map[string]Code{"panic": CodeFailed, "none": CodeUnknownName, "echo": CodeUnknownName} {
		s, err := peer.Open(background(t), name, nil)
		check(t, err)
		_, err = s.Receive()
		expectCode(t, err, code)
	}
	_, err = peer.Open(background(t), "echo stream", make([]byte, 1<<20+1))
	expectCode(t, err, CodeTooLarge)
}

func TestEitherSideEndsAStreamAtOnce(t *testing.T) {
	m := testMux()
	begun, ended := make(chan *Stream), make(chan error)
	m.HandleStream("wait", func(ctx context.Context, s *Stream, _ []byte) error {
		begun <- s
		_, err := s.Receive()
		<-ctx.Done()
		ended <- err
		return err
	})
	clock := newFakeClock()
	n := newNode(t, Config{Mux: m, Clock: clock, PingAfter: 1e6 * time.Second, DeadAfter: 2e6 * time.Second})
	peer := newNode(t, Config{}).Peer(n.address)
	for name, c := range map[string]struct {
		end  func(cancel context.CancelFunc, ours, theirs *Stream)
		here func(error) bool
		code Code
	}{
		"cancel": {
			func(_ context.CancelFunc, ours, _ *Stream) { ours.Cancel() },
			func(err error) bool { return err == context.Canceled }, CodeCancelled,
		},
		"context": {
			func(cancel context.CancelFunc, _, _ *Stream) { cancel() },
			func(err error) bool { return err == context.Canceled }, CodeCancelled,
		},
		"responder": {
			func(_ context.CancelFunc, _, theirs *Stream) { theirs.Cancel() },
			func(err error) bool { return errors.Is(err, context.Canceled) }, 0,
		},
		"deadline": {
			func(context.CancelFunc, *Stream, *Stream) { clock.advance(2 * time.Hour) }, nil, CodeDeadline,
		},
		"connection": {
			func(_ context.CancelFunc, ours, _ *Stream) { ours.conn.Close() },
			func(err error) bool { return errors.Is(err, ErrLost) }, 0,
		},
	} {
		ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
		ours, err := peer.Open(ctx, "wait", nil)
		check(t, err)
		theirs := <-begun
		c.end(cancel, ours, theirs)
		err = <-ended
		if e := (*Error)(nil); c.code != 0 && (!errors.As(err, &e) || e.Code != c.code) {
			t.Errorf("%s: %v there", name, err)
		}
		if _, err := ours.Receive(); err == nil || c.here != nil && !c.here(err) {
			t.Errorf("%s: %v here", name, err)
		}
		cancel()
	}
}

func TestOpenStreamsAreBounded(t *testing.T) {
	m := testMux()
	m.HandleStream("wait", func(ctx context.Context, _ *Stream, _ []byte) error { <-ctx.Done(); return nil })
	options := frame.Options{MaxPayload: 1000, MaxRequests: 10, MaxBytes: 1000, MaxStreams: 2, Window: 1000}
	n := newNode(t, Config{Mux: m, Options: options})
	peer := newNode(t, Config{}).Peer(n.address)
	first, err := peer.Open(background(t), "wait", nil)
	check(t, err)
	_, err = peer.Open(background(t), "wait", nil)
	check(t, err)
	_, err = peer.Open(background(t), "wait", nil)
	expectCode(t, err, CodeBusy)
	first.Cancel()
	_, err = peer.Open(background(t), "wait", nil)
	check(t, err)
	r := rawConnector(t, n, Config{})
	for id := uint64(1); id < 7; id += 2 {
		r.send(frame.AppendOpen(nil, id, "wait", 0, 0, 0, nil))
	}
	if f := r.expect(frame.Error); f.ID != 5 || Code(f.Code) != CodeBusy {
		t.Error(f)
	}
}

func TestAStalledReceiverStopsTheSenderAtItsWindow(t *testing.T) {
	m := testMux()
	release := make(chan struct{})
	m.HandleStream("later", func(_ context.Context, s *Stream, _ []byte) error {
		<-release
		_, err := io.Copy(io.Discard, s)
		return err
	})
	n := newNode(t, Config{Mux: m})
	peer := newNode(t, Config{}).Peer(n.address)
	s, err := peer.Open(background(t), "later", nil)
	check(t, err)
	written := make(chan error)
	go func() {
		_, err := s.Write(make([]byte, 10<<20))
		if err == nil {
			err = s.CloseSend()
		}
		written <- err
	}()
	window := func() uint64 {
		s.conn.mu.Lock()
		defer s.conn.mu.Unlock()
		return s.window
	}
	eventually(t, "the window is used up", func() bool { return window() == 0 })
	for range 10 { // others are not held up
		if _, err := peer.Do(background(t), Request{Name: "echo"}, nil); err != nil {
			t.Error(err)
		}
	}
	theirs := n.onlyConnection(t)
	theirs.mu.Lock()
	in := theirs.streams[s.id]
	theirs.mu.Unlock()
	in.inbox.mu.Lock()
	held, allowed := len(in.inbox.new.b)+len(in.inbox.old.b), in.inbox.allowed
	in.inbox.mu.Unlock()
	if held > 256<<10 || allowed != 0 || window() != 0 {
		t.Error(held, allowed, window())
	}
	close(release)
	check(t, <-written)
	if _, err := s.Receive(); err != io.EOF {
		t.Error(err)
	}
}

// windowModel is a sender that keeps the rules, a receiver, and what is under way between them.
type windowModel struct {
	inbox
	sendWindow uint64   // as the sender knows it
	wire       [][]byte // DATA under way
	credits    []uint64 // CREDIT under way
	sent, got  []byte
}

func (m *windowModel) largest() uint64 { return min(m.window, frame.DataMax) }

func (m *windowModel) send(t *rapid.T) {
	n := rapid.Uint64Range(0, m.largest()).Draw(t, "bytes")
	if n > m.sendWindow {
		t.Skip("no room")
	}
	message := bytes.Repeat([]byte{byte(len(m.sent) % 251)}, int(n))
	m.sent, m.wire, m.sendWindow = append(m.sent, message...), append(m.wire, message), m.sendWindow-n
}

func (m *windowModel) deliver(t *rapid.T) {
	if len(m.wire) == 0 {
		t.Skip()
	}
	if err := m.add(m.wire[0]); err != nil {
		t.Fatal("a sender that keeps the rules is refused: ", err)
	}
	m.wire = m.wire[1:]
}

// receive says whether there was a message.
func (m *windowModel) receive(t *rapid.T) bool {
	message, credit, err := m.next()
	if err != nil {
		t.Fatal(err)
	}
	m.got = append(m.got, message...)
	if credit > 0 {
		m.credits = append(m.credits, credit)
	}
	return message != nil
}

func (m *windowModel) takeCredit(t *rapid.T) {
	if len(m.credits) == 0 {
		t.Skip()
	}
	m.sendWindow += m.credits[0]
	m.credits = m.credits[1:]
}

// check adds up the parts of the window.
func (m *windowModel) check(t *rapid.T) {
	sum := m.sendWindow + m.consumed + uint64(m.taken+len(m.new.b)+len(m.old.b)-m.old.bytesAt)
	sum += uint64(len(bytes.Join(m.wire, nil)))
	for _, credit := range m.credits {
		sum += credit
	}
	if sum != m.window {
		t.Fatalf("the window is %d, its parts are %d", m.window, sum)
	}
}

// TestWindowsAddUp lets a sender that keeps the rules and a receiver act in any order, with frames and credit under way.
func TestWindowsAddUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		window := rapid.Uint64Range(1, 200<<10).Draw(t, "window")
		m := &windowModel{sendWindow: window}
		m.window, m.allowed, m.readable = window, window, make(chan struct{}, 1)
		t.Repeat(map[string]func(*rapid.T){
			"send": m.send, "deliver": m.deliver, "receive": func(t *rapid.T) { m.receive(t) }, "credit": m.takeCredit, "": m.check,
		})
		for len(m.wire) > 0 {
			m.deliver(t)
		}
		for m.receive(t) {
		}
		for len(m.credits) > 0 {
			m.takeCredit(t)
		}
		if !bytes.Equal(m.sent, m.got) {
			t.Fatalf("%d bytes were sent, %d received", len(m.sent), len(m.got))
		}
		if m.sendWindow < m.largest() {
			t.Fatalf("all is consumed, and a message of %d bytes has no room: %d", m.largest(), m.sendWindow)
		}
	})
}

func TestAnEndBehindDataKeepsTheData(t *testing.T) {
	i := &inbox{window: 100, allowed: 100, readable: make(chan struct{}, 1)}
	check(t, i.add([]byte("data")))
	i.end(io.EOF)
	if err := i.add(nil); err != nil {
		t.Error(err)
	}
	if message, _, err := i.next(); string(message) != "data" || err != nil {
		t.Error(message, err)
	}
	i.end(ErrLost)
	if _, _, err := i.next(); err != ErrLost {
		t.Error("a stream that is lost behind its END:", err)
	}
}
