package updates

import (
	"slices"
	"sync"
	"testing"
	"time"
)

// groups is an Updater whose writers write to one container.
type groups struct {
	*Updater
	t       *testing.T
	server  *containerServer
	pending *Pending
	writers sync.WaitGroup
}

func newGroups(t *testing.T, delay time.Duration) *groups {
	u := newUpdater(t, &places{}, func(o *Options) { o.BatchDelay = delay })
	return &groups{Updater: u, t: t, server: newContainerServer(t), pending: attach(t, u, t.TempDir())}
}

// write begins one write for each name.
func (g *groups) write(names ...string) {
	for _, name := range names {
		g.writers.Add(1)
		go func() {
			defer g.writers.Done()
			deliver(g.t, g.Updater, g.pending, g.server.target(), putRow(name))
		}()
	}
}

// awaitWaiting waits until so many rows wait for the next request.
func (g *groups) awaitWaiting(count int) {
	g.t.Helper()
	await(g.t, "rows to wait", func() bool {
		g.mu.Lock()
		defer g.mu.Unlock()
		q := g.queues[g.server.target()]
		return q != nil && len(q.waiting) == count
	})
}

// group lets one request have the rows of all names.
func (g *groups) group(names ...string) {
	g.t.Helper()
	release := g.server.holdRequests(g.t)
	g.write("first")
	await(g.t, "the first request", func() bool { return g.server.holding() == 1 })
	g.write(names...)
	g.awaitWaiting(len(names))
	release()
	g.writers.Wait()
}

func TestARequestWaitsUntilTheWritersOfTheLastAreBack(t *testing.T) {
	g := newGroups(t, time.Hour)
	g.group("a", "b", "c")
	await(t, "the wait for them", func() bool { // rows that come before it count as those of other writers
		g.mu.Lock()
		defer g.mu.Unlock()
		q := g.queues[g.server.target()]
		return q != nil && q.wanted == 3
	})
	g.write("d", "e")
	g.awaitWaiting(2) // for the third, or an hour
	g.write("f")
	g.writers.Wait()
	var sizes []int
	for _, batch := range g.server.batches {
		sizes = append(sizes, len(batch))
	}
	if !slices.Equal(sizes, []int{1, 3, 3}) {
		t.Errorf("the requests had %v rows", sizes)
	}
}

func TestTheWaitForWritersEnds(t *testing.T) {
	g := newGroups(t, 10*time.Millisecond)
	g.group("a", "b", "c")
	g.write("d")
	g.writers.Wait()
	if got := g.server.rows(); len(got) != 5 {
		t.Errorf("arrived: %v", got)
	}
}

func TestALoneWriterDoesNotWait(t *testing.T) {
	g := newGroups(t, time.Hour)
	for _, name := range []string{"a", "b", "c"} {
		g.write(name)
		g.writers.Wait()
	}
	if got := g.server.rows(); len(got) != 3 {
		t.Errorf("arrived: %v", got)
	}
}

func TestASmallGroupWaitsLess(t *testing.T) {
	u := newUpdater(t, &places{}, func(o *Options) { o.BatchDelay = 5 * time.Second })
	for sent, want := range map[int]time.Duration{2: 2 * time.Second, 4: 4 * time.Second, 5: 5 * time.Second, 50: 5 * time.Second} {
		if got := u.groupDelay(sent); got != want {
			t.Errorf("after %d rows: %v", sent, got)
		}
	}
}
