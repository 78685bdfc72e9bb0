package serve

import (
	"bytes"
	"context"
	"maps"
	"time"

	"martlet/object-server/bundle/format"
	"martlet/object-server/device"
	"martlet/object-server/grid"
	"martlet/object-server/replicator/wire"
)

// holdTime is how long a partition stays after another replica of it was about to be removed. The removal takes less.
const holdTime = time.Hour

// promise is the promise to keep a partition for a device that removes its replica.
type promise struct {
	until  time.Time
	number uint64
	ring   int64 // version of the ring by which the device removes it
}

// hold promises that a partition stays for some time. Hosts may have rings that differ: each could take the others for the
// primaries, and all would remove what they have.
func (r *Replicas) hold(_ context.Context, q *wire.HoldRequest) (*wire.Done, error) {
	at := placeOf(&q.Partition)
	return &wire.Done{}, r.replica(&q.Partition, func(replica device.Replica) error {
		err := isIn(replica, q.Bundle) // before anything is noted of it
		if err == nil && !r.promise(at, q.For, q.Ring) {
			err = &grid.Error{Code: grid.CodeBusy, Reason: "the partition is being removed"}
		}
		if err == nil {
			err = isIn(replica, q.Bundle) // no removal begins any more
		}
		return err
	})
}

// isIn is nil if the partition is in the bundle of an identity.
func isIn(replica device.Replica, identity []byte) error {
	position, err := replica.Position()
	if err == nil && (position.Bundle == format.Identity{} || !bytes.Equal(position.Bundle[:], identity)) {
		err = device.ErrChanged
	}
	return err
}

func (r *Replicas) promise(at place, to string, ring int64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.dropping[at] {
		return false
	}
	now := time.Now()
	r.sweep(now)
	if r.held[at] == nil {
		r.held[at] = map[string]promise{}
	}
	r.promised++
	r.held[at][to] = promise{now.Add(holdTime), r.promised, ring}
	return true
}

// sweepPause is how long promises may be kept in memory after they are over: a hold must not look at all others.
const sweepPause = time.Minute

// sweep forgets promises that are over. r.mu is held.
func (r *Replicas) sweep(now time.Time) {
	if now.Sub(r.swept) < sweepPause {
		return
	}
	r.swept = now
	for other, promises := range r.held {
		maps.DeleteFunc(promises, func(_ string, p promise) bool { return now.After(p.until) })
		if len(promises) == 0 {
			delete(r.held, other)
		}
	}
}

// promises tells to which devices a partition was promised.
func (r *Replicas) promises(_ context.Context, q *wire.PromisesRequest) (*wire.Promises, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var a wire.Promises
	for to, p := range r.held[placeOf(&q.Partition)] {
		if time.Now().Before(p.until) {
			a.Promises = append(a.Promises, wire.Promise{For: to, Number: p.number})
		}
	}
	return &a, nil
}

// drop removes a partition, unless another server relies on it.
func (r *Replicas) drop(_ context.Context, q *wire.DropRequest) (*wire.Done, error) {
	at := placeOf(&q.Partition)
	return &wire.Done{}, r.replica(&q.Partition, func(replica device.Replica) error {
		if !r.beginDrop(at, q) {
			return &grid.Error{Code: grid.CodeBusy, Reason: "another server has removed its replica, and takes this one for a primary"}
		}
		defer r.endDrop(at)
		return replica.Drop(q.Position.Engine())
	})
}

// beginDrop notes that a partition is being removed, unless a promise to keep it stands. One stands no longer if all primaries
// have promised in turn to keep everything. The number shows that it is the one of before that: two servers may ask each other.
// The ring must be newer than the one by which that device removed its replica: with rings that differ for long, a partition
// would go to and fro.
func (r *Replicas) beginDrop(at place, q *wire.DropRequest) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.dropping[at] {
		return false
	}
	released := map[string]uint64{}
	for _, p := range q.Released {
		released[p.For] = p.Number
	}
	for to, p := range r.held[at] {
		if time.Now().Before(p.until) && (p.number != released[to] || p.ring >= q.Ring) {
			return false
		}
	}
	r.dropping[at] = true
	return true
}

func (r *Replicas) endDrop(at place) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.dropping, at)
}
