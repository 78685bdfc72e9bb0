package serve

import (
	"bytes"
	"context"
	"time"

	"martlet/object-server/bundle/format"
	"martlet/object-server/device"
	"martlet/object-server/grid"
	"martlet/object-server/replicator/wire"
)

// holdTime is how long a partition stays after another replica of it was about to be removed. The removal takes less.
const holdTime = time.Hour

// hold promises that a partition stays for some time. Hosts may have rings that differ: each could take the others for the
// primaries, and all would remove what they have.
func (r *Replicas) hold(_ context.Context, q *wire.HoldRequest) (*wire.Done, error) {
	at := placeOf(&q.Partition)
	return &wire.Done{}, r.replica(&q.Partition, func(replica device.Replica) error {
		err := isIn(replica, q.Bundle) // before anything is noted of it
		if err == nil && !r.promise(at) {
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

func (r *Replicas) promise(at place) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.dropping[at] {
		return false
	}
	now := time.Now()
	for other, until := range r.held {
		if now.After(until) {
			delete(r.held, other)
		}
	}
	r.held[at] = now.Add(holdTime)
	return true
}

// drop removes a partition, unless another server relies on it.
func (r *Replicas) drop(_ context.Context, q *wire.DropRequest) (*wire.Done, error) {
	at := placeOf(&q.Partition)
	return &wire.Done{}, r.replica(&q.Partition, func(replica device.Replica) error {
		if !r.beginDrop(at) {
			return &grid.Error{Code: grid.CodeBusy, Reason: "another server has removed its replica, and takes this one for a primary"}
		}
		defer r.endDrop(at)
		return replica.Drop(q.Position.Engine())
	})
}

func (r *Replicas) beginDrop(at place) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.dropping[at] || time.Now().Before(r.held[at]) {
		return false
	}
	r.dropping[at] = true
	return true
}

func (r *Replicas) endDrop(at place) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.dropping, at)
}
