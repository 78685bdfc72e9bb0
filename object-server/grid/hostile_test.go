package grid

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"martlet/object-server/grid/frame"

	"github.com/gobwas/ws"
)

func TestPingsOfWebSocketsAreBoundedToo(t *testing.T) {
	n := newNode(t, Config{})
	r := rawConnector(t, n, Config{})
	c := n.onlyConnection(t)
	go func() { // as many as the node reads
		for r.write(append(make([]byte, headRoom), "ping"...), ws.OpPing) == nil {
		}
	}()
	eventually(t, "the reader stops", func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.reactive > 2*reactiveMax {
			t.Fatal(len(c.queue), "answers to PING are queued")
		}
		return c.reactive > reactiveMax && c.isWriting
	})
	time.Sleep(20 * time.Millisecond) // no condition says that nothing more happens
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.reactive > 2*reactiveMax {
		t.Error(len(c.queue), "answers to PING are queued")
	}
}

// TestRequestersGiveUpWhileThePeerGoesAway lets both happen at the same time. Each request has one end.
func TestRequestersGiveUpWhileThePeerGoesAway(t *testing.T) {
	options := frame.Defaults()
	options.MaxRequests = 1
	acceptors := make(chan *raw)
	acceptor, err := New(Config{Secrets: newSecrets(t, secretOne), Options: options})
	check(t, err)
	address := rawAcceptor(t, func(r *raw) {
		if _, err := acceptor.accept(r.socket); err != nil {
			t.Error(err)
		}
		r.limit = frame.MessageMax
		acceptors <- r
	})
	connector := newNode(t, Config{})
	for range 50 {
		var c *Conn
		var dialled error
		done := make(chan struct{})
		go func() {
			defer close(done)
			c, dialled = connector.connectTo(address)
		}()
		r := <-acceptors
		<-done
		check(t, dialled)
		ctx, cancel := context.WithCancel(background(t))
		var wg sync.WaitGroup
		for range 40 {
			wg.Add(1)
			go func() {
				defer wg.Done()
				if _, err := c.Do(ctx, Request{Name: "none"}, nil); err != context.Canceled && !errors.Is(err, ErrUnreachable) {
					t.Error(err)
				}
			}()
		}
		eventually(t, "all but one wait", func() bool {
			c.mu.Lock()
			defer c.mu.Unlock()
			waiting := 0
			for one := c.waiting.head; one != nil; one = one.next {
				waiting++
			}
			return waiting == 39
		})
		go cancel()
		r.send(frame.AppendReason(nil, frame.GoAway, ""))
		wg.Wait()
		c.mu.Lock()
		if c.waiting.head != nil || c.waiting.tail != nil {
			t.Error("requests wait that have ended")
		}
		c.mu.Unlock()
		c.Close()
	}
}

func TestCreditsDoNotPileUpASenderThatWaits(t *testing.T) {
	m := testMux()
	m.HandleStream("flood", func(_ context.Context, s *Stream, _ []byte) error {
		for {
			if err := s.Send(make([]byte, frame.DataMax)); err != nil {
				return err
			}
		}
	})
	n := newNode(t, Config{Mux: m})
	r := rawConnector(t, n, Config{})
	c := n.onlyConnection(t)
	r.send(frame.AppendOpen(nil, 1, "flood", 0, 0, 1<<40, nil))
	waiters := func() int {
		c.mu.Lock()
		defer c.mu.Unlock()
		return len(c.dataWaiters)
	}
	eventually(t, "the sender waits", func() bool { return waiters() > 0 && c.isBlocked() })
	c.mu.Lock()
	s := c.streams[1]
	c.mu.Unlock()
	for credit := range uint64(50) {
		c.mu.Lock()
		before := s.window
		c.mu.Unlock()
		r.send(frame.AppendCredit(nil, 1, 1))
		eventually(t, "the sender has looked again", func() bool {
			c.mu.Lock()
			defer c.mu.Unlock()
			return s.window != before && len(s.writable) == 0
		})
		if found := waiters(); found > 1 {
			t.Fatal("after", credit, "credits one sender waits", found, "times")
		}
	}
}

// isBlocked says whether the DATA that wait are as many as may.
func (c *Conn) isBlocked() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.data >= dataMax && c.isWriting
}

func TestNothingComesBehindTheEndOfAStream(t *testing.T) {
	end := frame.AppendNumber(nil, frame.End, 1)
	for sentence, last := range map[string][]byte{
		"DATA after END": frame.AppendData(nil, 1, []byte("x")),
		"END after END":  end,
	} {
		m := testMux()
		m.HandleStream("wait", func(ctx context.Context, _ *Stream, _ []byte) error {
			<-ctx.Done()
			return nil
		})
		n := newNode(t, Config{Mux: m})
		r := rawConnector(t, n, Config{})
		r.send(frame.AppendOpen(nil, 1, "wait", 0, 0, 1<<20, nil), end, last)
		r.expectEnd()
		eventually(t, sentence, func() bool { return strings.Contains(n.log.String(), sentence) })
	}
}

func TestAProcessThatStoodStillAsksBeforeItGivesUp(t *testing.T) {
	clock := newFakeClock()
	n := newNode(t, Config{Clock: clock})
	r := rawConnector(t, n, Config{})
	c := n.onlyConnection(t)
	clock.mu.Lock()
	clock.now = clock.now.Add(time.Minute) // no timer was called meanwhile
	clock.mu.Unlock()
	clock.advance(0)
	r.expect(frame.Ping)
	if c.Err() != nil {
		t.Fatal(c.Err())
	}
	clock.advance(5 * time.Second)
	<-c.Done()
}
