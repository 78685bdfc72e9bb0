package replicator

import (
	"context"
	"time"

	"martlet/object-server/ring"
)

// Pass goes once over all devices of this host, in parallel. It waits for them so long; 0: however long it takes. A device
// that takes longer, or hangs, goes on meanwhile, and the others have their next passes. What fails is logged, counted and
// left to the next pass. The only error is that of the context.
func (r *Replicator) Pass(ctx context.Context, patience time.Duration) (*Report, error) {
	isNone := true
	err := r.eachDevice(func(current *ring.Ring, policy int, d *ring.Device) {
		isNone = false
		what := work{d.Name, policy}
		r.passes.Begin(what, func(report *Report) {
			x := r.passOf(current, policy, d)
			began := time.Now()
			x.run(ctx)
			x.note(func(done *Report) { *report = *done })
			if ctx.Err() == nil {
				r.finish(what, Finished{Began: began, Ended: time.Now(), Report: *report})
			}
		})
	})
	if err != nil { // the rings have logged it
		r.passes.Add(&Report{Failures: 1})
	}
	if isNone && err == nil {
		r.config.Logger.Warn("no device of the rings is one of this host")
	}
	report, running := r.passes.Await(ctx, patience)
	report.Running = running
	return &report, ctx.Err()
}
