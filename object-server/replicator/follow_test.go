package replicator

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"

	"martlet/object-server/grid"
	"martlet/object-server/replicator/wire"
)

// eventually waits until the condition holds.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !condition(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("never: ", what)
		}
	}
}

// What a proxy says that a peer missed is sent to it once it is back, without a pass; and a hand-off is given back.
func TestHintsAreFollowed(t *testing.T) {
	c := newCluster(t, 4)
	name := "o"
	all := c.primaries(partitionOf(name))
	handoff := (all[2] + 1) % 4
	away := c.hosts[all[2]]
	away.stop()
	c.put(name, 1, content(name, 70_000), all[0], all[1], handoff)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{}, 2)
	for _, i := range []int{all[0], handoff} {
		r, connections, _ := c.hosts[i].replicator()
		defer connections.Close()
		h := &wire.Hint{Device: "d1", Partitions: []uint32{partitionOf(name)}}
		peer := connections.Peer(fmt.Sprintf("127.0.0.1:%d", c.hosts[i].port))
		check(t, grid.Call(ctx, peer, wire.NameHint, h, &wire.Done{}))
		go func() {
			r.Follow(ctx)
			ended <- struct{}{}
		}()
	}
	defer func() {
		cancel()
		<-ended
		<-ended
	}()
	away.start()
	eventually(t, "the peer has the object", func() bool {
		status, _ := away.ask(http.MethodGet, name, 0, nil)
		return status == 200
	})
	c.wantObject(name, content(name, 70_000), all...)
	eventually(t, "the hand-off is gone", func() bool {
		status, _ := c.hosts[handoff].ask(http.MethodGet, name, 0, nil)
		return status == 404
	})
	c.wantObject(name, content(name, 70_000), all...)
}

// Hints for what is not there are refused or ignored, and their number is bounded.
func TestHintsThatMeanNothing(t *testing.T) {
	c := newCluster(t, 3)
	r, connections, _ := c.hosts[0].replicator()
	defer connections.Close()
	peer := connections.Peer(fmt.Sprintf("127.0.0.1:%d", c.hosts[0].port))
	say := func(h *wire.Hint) error { return grid.Call(context.Background(), peer, wire.NameHint, h, &wire.Done{}) }
	check(t, say(&wire.Hint{Device: "d9", Partitions: []uint32{1}}))
	for _, bad := range []*wire.Hint{{Device: "../d1"}, {Device: "d1", Policy: -1}} {
		if say(bad) == nil {
			t.Errorf("%+v was taken", bad)
		}
	}
	many := make([]uint32, 100_000)
	for i := range many {
		many[i] = uint32(i)
	}
	check(t, say(&wire.Hint{Device: "d1", Partitions: many}))
	if got := len(r.hints(context.Background())); got != 1<<16 {
		t.Errorf("%d hints", got)
	}
	if got := len(r.hints(context.Background())); got != 0 {
		t.Errorf("%d hints a second time", got)
	}
}
