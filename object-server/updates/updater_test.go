package updates

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"martlet/object-server/proof"
	"martlet/object-server/vfs"
)

// containerServer is a container server that notes what it is told.
type containerServer struct {
	*httptest.Server
	mu      sync.Mutex
	batches [][]string // names of the rows of each UPDATE that was taken
	singles []string   // method and path of other requests
	headers []http.Header
	inside  int // requests under way
	most    int // the most at a time
	answer  func(*http.Request) int
	hold    chan struct{} // requests wait until it is closed
}

func newContainerServer(t *testing.T) *containerServer {
	s := &containerServer{answer: func(*http.Request) int { return http.StatusAccepted }}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

func (s *containerServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	s.mu.Lock()
	s.inside++
	s.most = max(s.most, s.inside)
	hold, status := s.hold, s.answer(r)
	s.mu.Unlock()
	if hold != nil {
		<-hold
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.inside--
	s.headers = append(s.headers, r.Header)
	if r.Method == "UPDATE" {
		var rows []Row
		if err := json.Unmarshal(body, &rows); err != nil {
			status = http.StatusTeapot
		}
		if status/100 == 2 {
			var names []string
			for _, row := range rows {
				names = append(names, row.Name)
			}
			s.batches = append(s.batches, names)
		}
	} else {
		s.singles = append(s.singles, r.Method+" "+r.URL.Path)
	}
	if status == http.StatusMovedPermanently {
		w.Header().Set("Location", "/shards/c-1")
	}
	w.WriteHeader(status)
}

func (s *containerServer) set(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

// holdRequests makes requests wait until release, or the end of the test.
func (s *containerServer) holdRequests(t *testing.T) (release func()) {
	hold := make(chan struct{})
	s.set(func() { s.hold = hold })
	release = sync.OnceFunc(func() { close(hold) })
	t.Cleanup(release)
	return release
}

func (s *containerServer) rows() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Concat(s.batches...)
}

func (s *containerServer) target() Target {
	return Target{Host: s.Listener.Addr().String(), Device: "sdb", Partition: "9", Account: "AUTH_a", Container: "c c"}
}

// places is a Placement of fixed primaries.
type places struct {
	mu        sync.Mutex
	primaries []Target
	err       error
}

func (p *places) Primaries(target Target) ([]Target, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var all []Target
	for _, primary := range p.primaries {
		primary.Account, primary.Container, primary.PolicyIndex = target.Account, target.Container, target.PolicyIndex
		all = append(all, primary)
	}
	return all, p.err
}

func newUpdater(t *testing.T, placement Placement, adjust ...func(*Options)) *Updater {
	options := Options{
		UpdateTimeout: time.Minute, ConnTimeout: time.Minute, NodeTimeout: time.Minute,
		RetryFirst: 2 * time.Millisecond, Interval: 20 * time.Millisecond, Placement: placement,
		Logger: slog.New(slog.DiscardHandler),
	}
	for _, change := range adjust {
		change(&options)
	}
	u := New(options)
	t.Cleanup(u.Close)
	return u
}

func attach(t *testing.T, u *Updater, root string) *Pending {
	t.Helper()
	p, err := u.Attach(vfs.OS{}, root)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

func putRow(name string) Row {
	return Row{Name: name, CreatedAt: "1700000000.00000", Size: 5, ContentType: "a/b", ETag: "e", PolicyIndex: 1}
}

func await(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

func deliver(t *testing.T, u *Updater, p *Pending, target Target, row Row) {
	t.Helper()
	if err := u.Deliver(p, 0, []Update{{target, row}}); err != nil {
		t.Error(err)
	}
}

func TestRowsGatherWhileARequestIsUnderWay(t *testing.T) {
	server := newContainerServer(t)
	u := newUpdater(t, &places{}, func(o *Options) { o.UpdateTimeout, o.NodeTimeout = time.Minute, time.Minute })
	p := attach(t, u, t.TempDir())
	release := server.holdRequests(t)
	var writers sync.WaitGroup
	write := func(name string) {
		writers.Add(1)
		go func() {
			defer writers.Done()
			deliver(t, u, p, server.target(), putRow(name))
		}()
	}
	write("first")
	await(t, "the first request", func() bool { return server.holding() == 1 })
	const count = 100
	for i := 1; i < count; i++ {
		write(fmt.Sprint("o", i))
	}
	await(t, "all other rows to wait", func() bool {
		u.mu.Lock()
		defer u.mu.Unlock()
		return len(u.queues[server.target()].waiting) == count-1
	})
	release()
	writers.Wait()
	server.mu.Lock()
	defer server.mu.Unlock()
	if len(server.batches) != 2 || server.most != 1 {
		t.Errorf("%d rows took %d requests, %d at a time", count, len(server.batches), server.most)
	}
	if got := len(slices.Concat(server.batches...)); got != count {
		t.Errorf("%d rows arrived", got)
	}
	if p.Count() != 0 {
		t.Errorf("%d rows are pending", p.Count())
	}
}

func (s *containerServer) holding() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.inside
}

func TestTheRequest(t *testing.T) {
	server := newContainerServer(t)
	var path string
	var length int64
	server.answer = func(r *http.Request) int { path, length = r.URL.EscapedPath(), r.ContentLength; return 202 }
	u := newUpdater(t, &places{})
	target := server.target()
	target.PolicyIndex = 1
	deliver(t, u, attach(t, u, t.TempDir()), target, putRow("o"))
	server.mu.Lock()
	defer server.mu.Unlock()
	header := server.headers[0]
	if path != "/sdb/9/AUTH_a/c%20c" || length <= 0 || header.Get("X-Timestamp") != "1700000000.00000" ||
		header.Get("X-Backend-Storage-Policy-Index") != "1" || header.Get("Content-Type") != "application/json" {
		t.Errorf("got %s, length %d, %v", path, length, header)
	}
}

func TestOldServersGetSingleRequests(t *testing.T) {
	for _, refusal := range []int{405, 400, 413} {
		server := newContainerServer(t)
		server.answer = func(r *http.Request) int {
			if r.Method == "UPDATE" {
				return refusal
			}
			return http.StatusCreated
		}
		u := newUpdater(t, &places{})
		p := attach(t, u, t.TempDir())
		row := putRow("a//b?c")
		stamp := "1700000001.00000"
		row.ContentTypeTimestamp, row.MetaTimestamp = &stamp, &stamp
		deliver(t, u, p, server.target(), row)
		deliver(t, u, p, server.target(), DeletedRow("gone", "1700000002.00000", 0))
		server.mu.Lock()
		if want := []string{"PUT /sdb/9/AUTH_a/c c/a//b?c", "DELETE /sdb/9/AUTH_a/c c/gone"}; !slices.Equal(server.singles, want) {
			t.Errorf("got %q", server.singles)
		}
		for name, want := range map[string]string{
			"X-Size": "5", "X-Etag": "e", "X-Content-Type": "a/b", "X-Timestamp": "1700000000.00000",
			"X-Content-Type-Timestamp": stamp, "X-Meta-Timestamp": stamp,
		} {
			if got := server.headers[1].Get(name); got != want {
				t.Errorf("%s is %q", name, got)
			}
		}
		server.mu.Unlock()
		if p.Count() != 0 {
			t.Errorf("%d rows are pending", p.Count())
		}
	}
}

func TestWhatIsNotTakenStaysPendingUntilItIs(t *testing.T) {
	for _, status := range []int{404, 500, 503, 507, 301} {
		server := newContainerServer(t)
		server.answer = func(*http.Request) int { return status }
		u := newUpdater(t, &places{primaries: []Target{server.target()}})
		p := attach(t, u, t.TempDir())
		deliver(t, u, p, server.target(), putRow("o"))
		if p.Count() != 1 {
			t.Errorf("%d: %d rows are pending", status, p.Count())
		}
		await(t, "a repetition", func() bool { server.mu.Lock(); defer server.mu.Unlock(); return len(server.headers) > 2 })
		server.set(func() { server.answer = func(*http.Request) int { return 202 } })
		await(t, "delivery", func() bool { return p.Count() == 0 && len(server.rows()) == 1 })
	}
}

func TestServerThatIsDown(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	listener.Close()
	down := Target{Host: listener.Addr().String(), Device: "sdb", Partition: "9", Account: "a", Container: "c"}
	root := t.TempDir()
	u := newUpdater(t, &places{})
	p := attach(t, u, root)
	for i := range 20 {
		deliver(t, u, p, down, putRow(fmt.Sprint(i)))
	}
	if p.Count() != 20 {
		t.Errorf("%d rows are pending", p.Count())
	}
	p.Close()
	u.Close()

	// The ring gives the container another server meanwhile; a new process delivers all.
	server := newContainerServer(t)
	u = newUpdater(t, &places{primaries: []Target{server.target()}})
	p = attach(t, u, root)
	await(t, "replay", func() bool { return len(server.rows()) >= 20 })
	await(t, "removal", func() bool { return len(segmentFiles(t, root)) == 0 && p.Count() == 0 })
	rows := server.rows()
	slices.Sort(rows)
	if rows = slices.Compact(rows); len(rows) != 20 {
		t.Errorf("%d names arrived", len(rows))
	}
}

func TestSlowServerDoesNotHoldUpTheWrite(t *testing.T) {
	server := newContainerServer(t)
	release := server.holdRequests(t)
	placement := &places{err: io.ErrUnexpectedEOF}
	u := newUpdater(t, placement, func(o *Options) {
		o.UpdateTimeout, o.NodeTimeout = 20*time.Millisecond, time.Hour
		o.RetryFirst = time.Hour // the replay is not what is tested
	})
	p := attach(t, u, t.TempDir())
	written := 0
	for isSent := false; !isSent; written++ { // a busy machine may not begin before the writer has given up
		start := time.Now()
		deliver(t, u, p, server.target(), putRow("o"))
		if waited := time.Since(start); waited < 20*time.Millisecond {
			t.Errorf("waited %v", waited)
		}
		await(t, "the request, or that there is none", func() bool {
			isSent = server.holding() == 1
			u.mu.Lock()
			defer u.mu.Unlock()
			return isSent || len(u.queues) == 0
		})
	}
	if p.Count() != written {
		t.Errorf("%d of %d rows are pending", p.Count(), written)
	}
	release()
	await(t, "the late answer", func() bool { return p.Count() == written-1 })
	if got := server.rows(); len(got) != 1 {
		t.Errorf("arrived: %v", got)
	}
}

func TestUpdateWithoutServerGoesToAllPrimaries(t *testing.T) {
	first, second := newContainerServer(t), newContainerServer(t)
	second.answer = func(*http.Request) int { return 503 }
	u := newUpdater(t, &places{primaries: []Target{first.target(), second.target()}})
	p := attach(t, u, t.TempDir())
	deliver(t, u, p, Target{Account: ".expiring_objects", Container: "1"}, DeletedRow("o", "1700000000.00000", 0))
	await(t, "the first", func() bool { return len(first.rows()) == 1 })
	second.set(func() { second.answer = func(*http.Request) int { return 202 } })
	await(t, "the second", func() bool { return len(second.rows()) == 1 && p.Count() == 0 })
	if got := first.rows(); len(got) != 1 {
		t.Errorf("the first was told again: %v", got)
	}
}

func TestFailureToSaveIsReported(t *testing.T) {
	u := newUpdater(t, &places{})
	root := t.TempDir()
	p, err := u.Attach(&fullFS{vfs.OS{}}, root)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	err = u.Deliver(p, 0, []Update{{Target{Account: "a", Container: "c"}, putRow("o")}})
	if err == nil || !strings.Contains(err.Error(), "no space") {
		t.Errorf("got %v", err)
	}
}

// fullFS has no room for new files.
type fullFS struct{ vfs.FS }

func (fullFS) Create(string) (vfs.File, error) { return nil, vfs.ErrNoSpace }

func TestItIsSaidWhyRowsWait(t *testing.T) {
	s := newContainerServer(t)
	s.set(func() { s.answer = func(*http.Request) int { return http.StatusNotFound } })
	var lines proof.Log
	u := newUpdater(t, &places{primaries: []Target{s.target()}}, func(o *Options) {
		o.Logger = slog.New(slog.NewTextHandler(&lines, &slog.HandlerOptions{Level: slog.LevelWarn}))
	})
	p := attach(t, u, t.TempDir())
	for range 3 {
		deliver(t, u, p, s.target(), putRow("o"))
	}
	other := s.target()
	other.Container = "other"
	row := putRow("o")
	changed := "1700000009.00000"
	row.MetaTimestamp = &changed
	deliver(t, u, p, other, row)
	reason := s.target().Host + "/sdb: container server answered 404"
	await(t, "figures of both containers", func() bool {
		f := p.Figures()
		if f.Rows != 4 || len(f.Containers) != 2 {
			return false
		}
		a, b := f.Containers[0], f.Containers[1]
		return a.Container == "c c" && a.Rows == 3 && a.Reason == reason && b.Container == "other" && b.Rows == 1
	})
	f := p.Figures()
	age := time.Since(time.Unix(1700000000, 0)).Seconds()
	if off := f.OldestAge - age; off < -60 || off > 60 {
		t.Errorf("the oldest is said to be %.0f s old, and is %.0f s old", f.OldestAge, age)
	}
	if off := f.OldestAge - f.Containers[1].OldestAge; off < 8.9 || off > 9.1 {
		t.Errorf("the POST is said to be %.1f s younger than the PUT, and is 9 s younger", off)
	}
	if n := strings.Count(lines.String(), "container updates wait"); n != 2 {
		t.Errorf("%d lines for two containers:\n%s", n, lines.String())
	}
	if !strings.Contains(lines.String(), "answered 404") {
		t.Errorf("no reason in %s", lines.String())
	}
	s.set(func() { s.answer = func(*http.Request) int { return http.StatusAccepted } })
	await(t, "nothing to wait", func() bool { f := p.Figures(); return f.Rows == 0 && f.OldestAge == 0 && len(f.Containers) == 0 })
}
