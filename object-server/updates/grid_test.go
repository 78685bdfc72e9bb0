package updates

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"martlet/object-server/grid"
	"martlet/object-server/grid/auth"
	wire "martlet/object-server/grid/frame"

	"github.com/tinylib/msgp/msgp"
)

func newGrid(t *testing.T, mux *grid.Mux, maxPayload uint64) *grid.Grid {
	secrets, err := auth.NewSecrets(auth.None)
	if err != nil {
		t.Fatal(err)
	}
	options := wire.Defaults()
	options.MaxPayload = maxPayload
	g, err := grid.New(grid.Config{
		Secrets: secrets, Mux: mux, Options: options, Log: slog.New(slog.DiscardHandler), BackoffMin: time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.Close)
	return g
}

// gridServer is a container server with a grid. Its HTTP side is a containerServer.
type gridServer struct {
	*containerServer
	grid  *grid.Grid
	opens atomic.Int32 // connections to the grid

	mu      sync.Mutex
	updates [][]string // names of the rows of each update
	reply   func(ctx context.Context) (status int, err error)
}

const payloadMax = 1 << 20

func newGridServer(t *testing.T, maxPayload uint64, names ...string) *gridServer {
	s := &gridServer{containerServer: &containerServer{answer: func(*http.Request) int { return 202 }}}
	s.reply = func(context.Context) (int, error) { return 202, nil }
	mux := &grid.Mux{}
	for _, name := range names {
		mux.HandleRaw(name, s.handle)
	}
	s.grid = newGrid(t, mux, maxPayload)
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/grid" {
			s.opens.Add(1)
			s.grid.ServeHTTP(w, r)
			return
		}
		s.containerServer.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *gridServer) handle(ctx context.Context, payload, answer []byte) ([]byte, error) {
	names, err := namesOf(payload)
	if err != nil {
		return nil, &grid.Error{Code: grid.CodeBadPayload, Reason: err.Error()}
	}
	s.mu.Lock()
	reply := s.reply
	s.mu.Unlock()
	status, err := reply(ctx)
	if err != nil {
		return nil, err
	}
	if status/100 == 2 {
		s.mu.Lock()
		s.updates = append(s.updates, names)
		s.mu.Unlock()
	}
	answer = msgp.AppendArrayHeader(answer, 4) // one more than today
	answer = msgp.AppendInt(answer, status)
	answer = msgp.AppendMapStrStr(answer, map[string]string{"location": "/shards/c-1", "x": "y"})
	answer = msgp.AppendBytes(answer, nil)
	return msgp.AppendNil(answer), nil
}

// namesOf reads the names of the rows of a payload.
func namesOf(payload []byte) (names []string, err error) {
	value, _, err := msgp.ReadIntfBytes(payload)
	if err != nil {
		return nil, err
	}
	for _, row := range value.([]any)[6].([]any) {
		names = append(names, row.([]any)[0].(string))
	}
	return names, nil
}

func (s *gridServer) answerWith(reply func(context.Context) (int, error)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reply = reply
}

func (s *gridServer) taken() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Concat(s.updates...)
}

func overGrid(t *testing.T, placement Placement, adjust ...func(*Options)) *Updater {
	g := newGrid(t, nil, payloadMax)
	return newUpdater(t, placement, append([]func(*Options){func(o *Options) { o.Grid = g }}, adjust...)...)
}

func TestOverTheGridRowsGatherWhileAnUpdateIsUnderWay(t *testing.T) {
	s := newGridServer(t, payloadMax, updateName)
	u := overGrid(t, &places{})
	p := attach(t, u, t.TempDir())
	begun, release := make(chan struct{}, 10), make(chan struct{})
	s.answerWith(func(context.Context) (int, error) {
		begun <- struct{}{}
		<-release
		return 202, nil
	})
	var writers sync.WaitGroup
	write := func(name string) {
		writers.Add(1)
		go func() {
			defer writers.Done()
			deliver(t, u, p, s.target(), putRow(name))
		}()
	}
	write("first")
	<-begun
	const count = 300
	for i := 1; i < count; i++ {
		write(fmt.Sprint("o", i))
	}
	await(t, "all other rows to wait", func() bool {
		u.mu.Lock()
		defer u.mu.Unlock()
		return len(u.queues[s.target()].waiting) == count-1
	})
	close(release)
	writers.Wait()
	if len(s.updates) != 2 || len(s.taken()) != count || p.Count() != 0 || s.opens.Load() != 1 {
		t.Errorf("%d rows in %d updates, %d pending, %d connections", len(s.taken()), len(s.updates), p.Count(), s.opens.Load())
	}
	if len(s.headers) != 0 {
		t.Errorf("%d requests came over HTTP", len(s.headers))
	}
}

func TestAServerWithoutAGridIsAskedOverHTTPForAWhile(t *testing.T) {
	for name, s := range map[string]*gridServer{
		"no grid": newGridServer(t, payloadMax), "another request": newGridServer(t, payloadMax, "container.other"),
	} {
		if name == "no grid" {
			inner := s.Config.Handler
			s.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path != "/grid" {
					inner.ServeHTTP(w, r)
					return
				}
				s.opens.Add(1)
				http.NotFound(w, r)
			})
		}
		u := overGrid(t, &places{})
		p := attach(t, u, t.TempDir())
		for i := range 5 {
			deliver(t, u, p, s.target(), putRow(fmt.Sprint(i)))
		}
		if got := s.rows(); len(got) != 5 || p.Count() != 0 || s.opens.Load() != 1 {
			t.Errorf("%s: %v arrived, %d pending, the grid was tried %d times", name, got, p.Count(), s.opens.Load())
		}
		s.grid.Close()
		await(t, "another try", func() bool { // the grid itself pauses after a failure, shorter than that
			u.sender.grid.mu.Lock()
			u.sender.grid.plain[s.target().Host] = time.Now()
			u.sender.grid.mu.Unlock()
			deliver(t, u, p, s.target(), putRow("later"))
			return s.opens.Load() > 1
		})
	}
}

func TestAnUpdateTooLargeForTheServerGoesInPieces(t *testing.T) {
	s := newGridServer(t, 400, updateName)
	u := overGrid(t, &places{})
	var rows []Row
	for i := range 9 {
		rows = append(rows, putRow(fmt.Sprint(strings.Repeat("n", 60), i)))
	}
	if errs := u.sender.send(t.Context(), s.target(), rows); errs != nil {
		t.Error(errs)
	}
	if got := s.taken(); len(got) != 9 || len(s.updates) < 2 || len(s.headers) > 0 {
		t.Errorf("%d rows came in %d updates, %d requests over HTTP", len(got), len(s.updates), len(s.headers))
	}
	rows = []Row{putRow("small"), putRow(strings.Repeat("n", 400)), putRow("other")}
	if errs := u.sender.send(t.Context(), s.target(), rows); errs != nil {
		t.Error(errs)
	}
	if got := s.rows(); !slices.Contains(got, rows[1].Name) {
		t.Errorf("over HTTP came %v", got)
	}
	if s.opens.Load() != 1 {
		t.Errorf("%d connections", s.opens.Load())
	}
}

func TestARowThatTheGridRefusesIsFoundOverHTTP(t *testing.T) {
	s := newGridServer(t, payloadMax, updateName)
	s.answerWith(func(context.Context) (int, error) { return 0, &grid.Error{Code: grid.CodeBadPayload} })
	u := overGrid(t, &places{})
	p := attach(t, u, t.TempDir())
	deliver(t, u, p, s.target(), putRow("o"))
	target := s.target()
	target.Partition = "x"
	deliver(t, u, p, target, putRow("p"))
	if got := s.rows(); !slices.Equal(got, []string{"o", "p"}) || p.Count() != 0 {
		t.Errorf("over HTTP came %v, %d pending", got, p.Count())
	}
	s.answerWith(func(context.Context) (int, error) { return 400, nil })
	deliver(t, u, p, s.target(), putRow("q"))
	if len(s.singles) != 1 || p.Count() != 0 {
		t.Errorf("came one by one: %v", s.singles)
	}
}

func TestWhatTheGridDoesNotTakeStaysPendingUntilItDoes(t *testing.T) {
	for _, reply := range []func(context.Context) (int, error){
		func(context.Context) (int, error) { return 404, nil },
		func(context.Context) (int, error) { return 301, nil },
		func(context.Context) (int, error) { return 507, nil },
		func(context.Context) (int, error) { return 0, &grid.Error{Code: grid.CodeBusy} },
		func(context.Context) (int, error) { return 0, fmt.Errorf("a bug") },
	} {
		s := newGridServer(t, payloadMax, updateName)
		s.answerWith(reply)
		u := overGrid(t, &places{primaries: []Target{s.target()}})
		p := attach(t, u, t.TempDir())
		deliver(t, u, p, s.target(), putRow("o"))
		if p.Count() != 1 || len(s.headers) > 0 {
			t.Errorf("%d rows are pending, %d requests over HTTP", p.Count(), len(s.headers))
		}
		u.mu.Lock()
		if len(u.paused) != 0 {
			t.Error("a server that answers was taken for unreachable")
		}
		u.mu.Unlock()
		s.answerWith(func(context.Context) (int, error) { return 202, nil })
		await(t, "delivery", func() bool { return p.Count() == 0 && len(s.taken()) == 1 })
	}
}

func TestAServerThatStandsStillDoesNotHoldUpWrites(t *testing.T) {
	s := newGridServer(t, payloadMax, updateName)
	s.answerWith(func(ctx context.Context) (int, error) { <-ctx.Done(); return 0, ctx.Err() })
	u := overGrid(t, &places{}, func(o *Options) {
		o.UpdateTimeout, o.ConnTimeout, o.NodeTimeout = time.Minute, 10*time.Millisecond, 10*time.Millisecond
		o.RetryFirst = time.Hour // the replay is not what is tested
	})
	p := attach(t, u, t.TempDir())
	deliver(t, u, p, s.target(), putRow("o"))
	u.mu.Lock()
	_, isPaused := u.paused[s.target().Host]
	u.mu.Unlock()
	if p.Count() != 1 || !isPaused {
		t.Errorf("%d rows are pending, further rows wait: %v", p.Count(), !isPaused)
	}
}

func TestALostUpdateIsSentAgain(t *testing.T) {
	s := newGridServer(t, payloadMax, updateName)
	var calls atomic.Int32
	s.answerWith(func(context.Context) (int, error) {
		if calls.Add(1) == 1 {
			for _, c := range s.grid.Connections() {
				c.Close()
			}
		}
		return 202, nil
	})
	u := overGrid(t, &places{}, func(o *Options) { o.RetryFirst = time.Hour })
	p := attach(t, u, t.TempDir())
	deliver(t, u, p, s.target(), putRow("o"))
	if p.Count() != 0 || calls.Load() != 2 || s.opens.Load() != 2 {
		t.Errorf("%d pending after %d updates over %d connections", p.Count(), calls.Load(), s.opens.Load())
	}
}

func TestAServerThatIsGoneIsLeftAtOnce(t *testing.T) {
	s := newGridServer(t, payloadMax, updateName)
	u := overGrid(t, &places{primaries: []Target{s.target()}})
	root := t.TempDir()
	p := attach(t, u, root)
	deliver(t, u, p, s.target(), putRow("before"))
	s.grid.Close()
	s.Close()
	for i := range 20 {
		deliver(t, u, p, s.target(), putRow(fmt.Sprint(i)))
	}
	if p.Count() != 20 {
		t.Errorf("%d rows are pending", p.Count())
	}
	p.Close()
	u.Close()

	next := newGridServer(t, payloadMax, updateName)
	u = overGrid(t, &places{primaries: []Target{next.target()}})
	p = attach(t, u, root)
	await(t, "replay", func() bool { return len(next.taken()) == 20 && p.Count() == 0 })
}

func TestAServerThatGetsNoRowsIsForgotten(t *testing.T) {
	g := newGrid(t, nil, payloadMax)
	s := newGridSender(g, time.Minute)
	var hosts []string
	payload, _ := appendUpdate(nil, Target{Device: "d1", Partition: "1"}, []Row{{Name: "o"}})
	for range 2 {
		host := newGridServer(t, payloadMax, updateName).Listener.Addr().String()
		if _, err := s.ask(t.Context(), host, payload); err != nil {
			t.Fatal(err)
		}
		hosts = append(hosts, host)
	}
	now := time.Now()
	s.plain["gone:1"] = now
	s.note(hosts[1], now.Add(idleMax/2))
	if n := len(g.Connections()); n != 2 || len(s.plain) != 0 {
		t.Errorf("%d connections, plain: %v", n, s.plain)
	}
	s.note(hosts[1], now.Add(idleMax+time.Second))
	if all := g.Connections(); len(all) != 1 || all[0].Address() != hosts[1] || len(s.used) != 1 {
		t.Errorf("%d connections, used: %v", len(all), s.used)
	}
	if _, err := s.ask(t.Context(), hosts[0], payload); err != nil { // it is there again
		t.Error(err)
	}
}
