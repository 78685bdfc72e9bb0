package serve

import (
	"context"
	"slices"
	"sync"

	"martlet/object-server/grid"
	"martlet/object-server/replicator/wire"
	"martlet/object-server/server/devices"
)

// hintsMax bounds the partitions that wait for the replicator. What does not fit is found by its next pass.
const hintsMax = 1 << 16

// hints are partitions of this server's devices of which a peer missed a write. They are in memory only: after a crash, and
// where no replicator asks for them, a pass finds what they say. Safe for concurrent use.
type hints struct {
	mu  sync.Mutex
	all map[wire.Partition]struct{}
}

func (h *hints) add(device string, policy int, partitions []uint32) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.all == nil {
		h.all = map[wire.Partition]struct{}{}
	}
	for _, number := range partitions {
		if len(h.all) >= hintsMax {
			return
		}
		h.all[wire.Partition{Device: device, Policy: policy, Number: number}] = struct{}{}
	}
}

// hintsAtOnce bounds an answer.
const hintsAtOnce = 4096

// take returns some of the hints, each once.
func (h *hints) take() []wire.Partition {
	h.mu.Lock()
	defer h.mu.Unlock()
	var all []wire.Partition
	for p := range h.all {
		if len(all) == hintsAtOnce {
			break
		}
		all = append(all, p)
		delete(h.all, p)
	}
	return all
}

// hint notes what a proxy knows: another replica missed a write that this server has.
func (r *Replicas) hint(_ context.Context, q *wire.Hint) (*wire.Done, error) {
	if !devices.IsName(q.Device) || q.Policy < 0 {
		return nil, &grid.Error{Code: grid.CodeBadPayload, Reason: "no device has this name, or no policy this index"}
	}
	if names, err := r.Devices.Names(); err != nil || !slices.Contains(names, q.Device) {
		return &wire.Done{}, err
	}
	r.hints.add(q.Device, q.Policy, q.Partitions)
	return &wire.Done{}, nil
}

// takeHints gives the hints to the replicator of this host.
func (r *Replicas) takeHints(context.Context, *wire.Done) (*wire.Hints, error) {
	r.suspects()
	return &wire.Hints{Partitions: r.hints.take()}, nil
}
