package replicator

import (
	"context"
	"time"

	"martlet/object-server/replicator/wire"
	"martlet/object-server/ring"
)

const (
	// hintsEvery is how often the servers of this host are asked for hints.
	hintsEvery = time.Second
	// A partition that is not in sync after a hint is tried again after hintRetryFirst, then twice as late each time. It is
	// left to the passes after hintRetryLast.
	hintRetryFirst = 2 * time.Second
	hintRetryLast  = 64 * time.Second
)

// hinted is a partition of which a peer missed a write.
type hinted struct {
	due   time.Time
	pause time.Duration // before the attempt after the next one
}

// Follow repairs what proxies say that peers have missed, and damage that readers and auditors meet, within seconds, until the context ends. It may run beside passes.
func (r *Replicator) Follow(ctx context.Context) {
	waiting := map[wire.Partition]hinted{}
	ticks := time.NewTicker(hintsEvery)
	defer ticks.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticks.C:
		}
		for _, p := range r.hints(ctx) {
			waiting[p] = hinted{time.Now(), hintRetryFirst}
		}
		r.repair(ctx, waiting)
	}
}

// hints asks the servers of this host.
func (r *Replicator) hints(ctx context.Context) (all []wire.Partition) {
	asked := map[string]bool{}
	r.eachDevice(func(_ *ring.Ring, policy int, d *ring.Device) {
		own := r.remote(d, policy)
		if asked[own.address] {
			return
		}
		asked[own.address] = true
		for {
			var found wire.Hints
			// While the server is away there are no hints. One of an older release knows none.
			if own.call(ctx, wire.NameHints, &wire.Done{}, &found) != nil || len(found.Partitions) == 0 {
				return
			}
			all = append(all, found.Partitions...)
		}
	})
	return all
}

// repair settles the partitions that are due. It leaves in waiting what is to be tried again.
func (r *Replicator) repair(ctx context.Context, waiting map[wire.Partition]hinted) {
	r.eachDevice(func(current *ring.Ring, policy int, d *ring.Device) {
		var numbers []uint32
		now := time.Now()
		for p, h := range waiting {
			if p.Device == d.Name && p.Policy == policy && !now.Before(h.due) && int(p.Number) < current.PartitionCount() {
				numbers = append(numbers, p.Number)
			}
		}
		if len(numbers) == 0 || ctx.Err() != nil {
			return
		}
		x := r.passOf(current, policy, d)
		x.mend(ctx, numbers)
		inSync := x.settleAll(ctx, numbers)
		for i, number := range numbers {
			p := wire.Partition{Device: d.Name, Policy: policy, Number: number}
			h := waiting[p]
			if h.due = time.Now().Add(h.pause); inSync[i] || h.pause > hintRetryLast {
				delete(waiting, p)
				continue
			}
			h.pause *= 2
			waiting[p] = h
		}
		if report := &x.report; report.Sent > 0 || report.GivenBack > 0 || report.Fetched > 0 {
			r.config.Logger.Info("missed writes were repaired", "device", d.Name, "policy", policy, "partitions", report.Partitions,
				"sent", report.Sent, "bytes", report.Bytes, "given_back", report.GivenBack,
				"damaged", report.Damaged, "fetched", report.Fetched, "failures", report.Failures)
		}
	})
}

// settleAll settles some partitions, and returns which of them are in sync with all peers, or are no longer here.
func (x *devicePass) settleAll(ctx context.Context, numbers []uint32) []bool {
	done := make([]bool, 0, len(numbers))
	for len(numbers) > 0 {
		n := min(len(numbers), batch)
		done = append(done, x.settleDamaged(ctx, numbers[:n])...)
		numbers = numbers[n:]
	}
	return done
}
