package serve

import (
	"context"
	"testing"
	"time"

	"martlet/object-server/replicator/wire"
)

// numberOf is that of the promise to keep a partition for a device; 0 if there is none.
func numberOf(t *testing.T, r *Replicas, partition uint32, to string) uint64 {
	t.Helper()
	a, err := r.promises(context.Background(), &wire.PromisesRequest{Partition: wire.Partition{Device: "d1", Number: partition}})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range a.Promises {
		if p.For == to {
			return p.Number
		}
	}
	return 0
}

// A promise of a server that was started anew is none of those that were asked for before.
func TestPromisesAfterARestart(t *testing.T) {
	at := place{"d1", 0, 3}
	before := New()
	if !before.promise(at, "other", 1) {
		t.Fatal("no promise")
	}
	released := wire.Promise{For: "other", Number: numberOf(t, before, 3, "other")}
	after := New()
	if !after.promise(at, "other", 1) {
		t.Fatal("no promise")
	}
	if after.beginDrop(at, &wire.DropRequest{Ring: 2, Released: []wire.Promise{released}}) {
		t.Error("the promise of before the restart releases the one of after it")
	}
	if released.Number = numberOf(t, after, 3, "other"); !after.beginDrop(at, &wire.DropRequest{Ring: 2, Released: []wire.Promise{released}}) {
		t.Error("its own number does not release it")
	}
}

// Promises that are over are told to nothing, and are forgotten in time.
func TestPromisesEnd(t *testing.T) {
	r := New()
	for partition := range uint32(3) {
		r.promise(place{"d1", 0, partition}, "other", 1)
	}
	for at := range r.held {
		p := r.held[at]["other"]
		p.until = time.Now().Add(-time.Second)
		r.held[at]["other"] = p
	}
	if n := numberOf(t, r, 0, "other"); n != 0 {
		t.Errorf("the promise %d is told", n)
	}
	r.promise(place{"d1", 0, 7}, "other", 1)
	if len(r.held) != 4 {
		t.Errorf("%d are held: all were looked at", len(r.held))
	}
	r.swept = time.Now().Add(-sweepPause)
	r.promise(place{"d1", 0, 8}, "other", 1)
	if len(r.held) != 2 {
		t.Errorf("%d are held", len(r.held))
	}
}
