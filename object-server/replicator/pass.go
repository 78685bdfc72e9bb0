package replicator

import (
	"context"
	"time"

	"martlet/object-server/ring"
)

// stopWait is how long a Pass that is to stop waits for its devices. A disk that hangs does not delay the end.
const stopWait = 5 * time.Second

// Pass goes once over all devices of this host, in parallel. It waits for them so long; 0: however long it takes. A device
// that takes longer, or hangs, goes on meanwhile, and the others have their next passes. What fails is logged, counted and
// left to the next pass. The only error is that of the context.
func (r *Replicator) Pass(ctx context.Context, patience time.Duration) (*Report, error) {
	err := r.eachDevice(func(current *ring.Ring, policy int, d *ring.Device) { r.begin(ctx, current, policy, d) })
	if err != nil {
		r.config.Logger.Error("a ring cannot be read", "error", err)
		r.end(work{}, &Report{Failures: 1})
	}
	return r.await(ctx, patience), ctx.Err()
}

// begin starts the pass over a device, unless the one before goes on.
func (r *Replicator) begin(ctx context.Context, current *ring.Ring, policy int, d *ring.Device) {
	what := work{d.Name, policy}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.running[what] != nil {
		return
	}
	r.running[what] = make(chan struct{})
	x := r.passOf(current, policy, d)
	began := time.Now()
	go func() {
		defer func() { r.end(what, &x.report) }()
		x.run(ctx)
		if ctx.Err() == nil {
			r.finish(what, Finished{Began: began, Ended: time.Now(), Report: x.report})
		}
	}()
}

func (r *Replicator) end(what work, report *Report) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ended.add(report)
	if done := r.running[what]; done != nil {
		close(done)
		delete(r.running, what)
	}
}

// await waits for all devices, and reports what those have done that have ended.
func (r *Replicator) await(ctx context.Context, patience time.Duration) *Report {
	r.mu.Lock()
	var all []chan struct{}
	for _, done := range r.running {
		all = append(all, done)
	}
	r.mu.Unlock()
	if len(all) == 0 {
		r.config.Logger.Warn("no device of the rings is one of this host")
	}
	over, end := context.WithCancel(context.Background())
	defer end()
	if patience > 0 {
		defer time.AfterFunc(patience, end).Stop()
	}
	defer context.AfterFunc(ctx, func() { time.AfterFunc(stopWait, end) })()
	for _, done := range all {
		select {
		case <-done:
		case <-over.Done():
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	report := r.ended
	report.Running = len(r.running)
	r.ended = Report{}
	return &report
}
