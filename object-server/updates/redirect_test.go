package updates

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"
)

// newRoot is a container server that has given the rows named g... to a shard.
func newRoot(t *testing.T) (*httptest.Server, Target) {
	root := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var rows []Row
		if err := json.NewDecoder(r.Body).Decode(&rows); err != nil || r.Header.Get("X-Backend-Accept-Redirect") != "true" {
			w.WriteHeader(http.StatusTeapot)
			return
		}
		var given []int
		for i, row := range rows {
			if strings.HasPrefix(row.Name, "g") {
				given = append(given, i)
			}
		}
		if given == nil {
			w.WriteHeader(http.StatusAccepted)
			return
		}
		w.WriteHeader(http.StatusMovedPermanently)
		_ = json.NewEncoder(w).Encode(map[string]any{
			"redirects": []Redirect{{Account: ".shards_AUTH_a", Container: "c c-1", Rows: given}},
		})
	}))
	t.Cleanup(root.Close)
	return root, Target{Host: root.Listener.Addr().String(), Device: "sdb", Partition: "9", Account: "AUTH_a", Container: "c c"}
}

func rowsNamed(names ...string) []Row {
	rows := make([]Row, len(names))
	for i, name := range names {
		rows[i] = Row{Name: name, CreatedAt: "1700000000.00000"}
	}
	return rows
}

// Only the rows that belong into a shard go there, to all of its replicas.
func TestRowsFollowARedirect(t *testing.T) {
	_, root := newRoot(t)
	shards := []*containerServer{newContainerServer(t), newContainerServer(t), newContainerServer(t)}
	var primaries []Target
	for _, shard := range shards {
		primaries = append(primaries, shard.target())
	}
	u := newUpdater(t, &places{primaries: primaries})
	errs := u.sender.send(t.Context(), root, rowsNamed("a", "g1", "b", "g2"))
	if slices.ContainsFunc(errs, func(err error) bool { return err != nil }) {
		t.Fatal(errs)
	}
	for _, shard := range shards {
		if got := shard.rows(); !slices.Equal(got, []string{"g1", "g2"}) {
			t.Errorf("a replica of the shard got %v", got)
		}
	}
}

// A row is delivered when most replicas of its shard have it; else it stays pending for its root.
func TestMostReplicasOfAShardMustTakeARow(t *testing.T) {
	_, root := newRoot(t)
	shards := []*containerServer{newContainerServer(t), newContainerServer(t), newContainerServer(t)}
	var primaries []Target
	for _, shard := range shards {
		primaries = append(primaries, shard.target())
	}
	u := newUpdater(t, &places{primaries: primaries})
	fails := func(*http.Request) int { return http.StatusInsufficientStorage }
	shards[0].set(func() { shards[0].answer = fails })
	for _, err := range u.sender.send(t.Context(), root, rowsNamed("a", "g1")) {
		if err != nil {
			t.Errorf("one replica is missing: %v", err)
		}
	}
	shards[1].set(func() { shards[1].answer = fails })
	errs := u.sender.send(t.Context(), root, rowsNamed("a", "g1"))
	if errs[0] != nil || errs[1] == nil || !isAnswer(errs[1]) {
		t.Errorf("two replicas are missing: %v", errs)
	}
}

// A shard that redirects to itself does not keep rows on the way for ever.
func TestRedirectsEnd(t *testing.T) {
	server, root := newRoot(t)
	self := root
	self.Host = server.Listener.Addr().String()
	u := newUpdater(t, &places{primaries: []Target{self}})
	errs := u.sender.send(t.Context(), root, rowsNamed("g1"))
	if len(errs) != 1 || errs[0] == nil {
		t.Errorf("a circle was left with %v", errs)
	}
}

// The answer of an OpenStack Swift server to a single row names the shard in its location.
func TestALocationNamesAShard(t *testing.T) {
	got := newStatusError(301, "/.shards_AUTH_a/c%20c-1/an%2Fobject", nil).Redirects
	if len(got) != 1 || got[0].Account != ".shards_AUTH_a" || got[0].Container != "c c-1" {
		t.Errorf("redirects %v", got)
	}
	if got := newStatusError(301, "/x", nil).Redirects; got != nil {
		t.Errorf("redirects %v of a bad location", got)
	}
}

// A replica of a shard that hangs does not hold up the rows of its container: the others are behind the same request.
func TestAHangingReplicaOfAShardIsNotWaitedFor(t *testing.T) {
	_, root := newRoot(t)
	shards := []*containerServer{newContainerServer(t), newContainerServer(t), newContainerServer(t)}
	var primaries []Target
	for _, shard := range shards {
		primaries = append(primaries, shard.target())
	}
	hung := make(chan struct{})
	t.Cleanup(func() { close(hung) })
	shards[1].set(func() {
		shards[1].answer = func(*http.Request) int { <-hung; return http.StatusAccepted }
	})
	u := newUpdater(t, &places{primaries: primaries})
	done := make(chan []error, 1)
	go func() { done <- u.sender.send(t.Context(), root, rowsNamed("a", "g1", "g2")) }()
	select {
	case errs := <-done:
		if slices.ContainsFunc(errs, func(err error) bool { return err != nil }) {
			t.Fatal(errs)
		}
	case <-time.After(u.sender.nodeTimeout / 2):
		t.Fatal("rows wait for a replica that hangs")
	}
}
