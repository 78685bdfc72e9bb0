package lifecycle

import (
	"context"
	"sync"
	"sync/atomic"
)

// openMax bounds the partitions that were read and have a name that is worked on, or follow one that has. After a crash so
// many are read again.
const openMax = 256

// task is a partition of which the names are worked on.
type task struct {
	unit   unit
	places chan struct{} // of the names of the device that are worked on at once

	busy sync.WaitGroup
	left atomic.Int64 // names that are worked on
}

// begin waits for a place, and works on a name.
func (t *task) begin(work func()) {
	t.places <- struct{}{}
	t.left.Add(1)
	t.busy.Add(1)
	go func() {
		defer func() {
			<-t.places
			t.left.Add(-1)
			t.busy.Done()
		}()
		work()
	}()
}

// walk goes through partitions. The next ones are read while names of the ones before are worked on, for most partitions
// have few. The cursor follows in their order.
func (d *device) walk(ctx context.Context, all []unit, p *progress, report *Report) {
	var open []*task
	places := make(chan struct{}, max(d.config.Concurrency, 1))
	for _, u := range all {
		t := &task{unit: u, places: places}
		open = append(open, t)
		if err := d.partition(ctx, t); err != nil && ctx.Err() == nil {
			d.config.Logger.Warn("a partition is left out", "device", d.name, "policy", u.Policy, "partition", u.Partition, "error", err)
			d.count(func(r *Report) { r.Failures++ })
		}
		for len(open) > 0 && (len(open) == openMax || open[0].left.Load() == 0) && d.end(ctx, open[0], p, report) {
			open = open[1:]
		}
		if ctx.Err() != nil {
			break
		}
	}
	for _, t := range open {
		d.end(ctx, t, p, report)
	}
}

// end waits for the names of a partition, and moves the cursor behind it. It is false once the context has ended: the next
// pass begins with the partition.
func (d *device) end(ctx context.Context, t *task, p *progress, report *Report) bool {
	t.busy.Wait()
	if ctx.Err() != nil {
		return false
	}
	done := d.counted()
	report.add(&done)
	p.Report.add(&done)
	p.After = &t.unit
	d.note(false)
	d.dropDue(ctx)
	return true
}
