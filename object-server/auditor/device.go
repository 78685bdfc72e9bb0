package auditor

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/tinylib/msgp/msgp"

	"martlet/object-server/awake"
	"martlet/object-server/background"
	"martlet/object-server/grid"
	"martlet/object-server/replicator/wire"
	"martlet/object-server/vfs"
)

// device is one of this host. One goroutine at a time works on it.
type device struct {
	*Auditor
	name    string
	root    string
	peer    *grid.Peer // its server
	bytes   *background.Rate
	objects [kinds]*background.Rate

	touched   atomic.Int64 // when the disk answered last, by the clock of package awake
	pauses    atomic.Int32 // what is waited for, and is not the disk
	isWorking atomic.Bool
	state     *cursors  // nil: not read yet
	away      bool      // the server did not have it the last time
	noted     time.Time // when the cursors were written last
}

func (d *device) setRates(rates *Rates) {
	d.bytes.Set(rates.BytesPerSecond)
	for kind, rate := range rates.Objects {
		d.objects[kind].Set(rate)
	}
}

// call sends a request to the server and waits for its answer.
func (d *device) call(ctx context.Context, timeout time.Duration, name string, q msgp.Marshaler, a msgp.Unmarshaler) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	if err := grid.Call(ctx, d.peer, name, q, a); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// enter takes one of the places, if they are bounded. A device that does not answer for too long has lost its place, and goes
// on without one when it answers.
func (d *device) enter(ctx context.Context) (leave func(), err error) {
	if d.places == nil {
		return func() {}, nil
	}
	defer d.pause()() // a device that waits for another one does not count as stuck
	select {
	case d.places <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	left := make(chan struct{})
	over := make(chan struct{})
	go func() {
		defer close(over)
		ticks := time.NewTicker(max(d.config.Stall/8, time.Millisecond))
		defer ticks.Stop()
		isIn := true
		for {
			select {
			case <-left:
				if isIn {
					<-d.places
				}
				return
			case <-ticks.C:
			}
			if isIn && d.isStuck() {
				d.config.Logger.Warn("a device does not answer, others are audited meanwhile", "device", d.name)
				<-d.places
				isIn = false
			}
		}
	}()
	return func() { close(left); <-over }, nil
}

// isStuck tells whether the disk has not answered for too long.
func (d *device) isStuck() bool {
	return d.pauses.Load() == 0 && awake.Since(time.Duration(d.touched.Load())) > d.config.Stall
}

// pause begins a wait for something else than the disk, which ends with the function that is returned.
func (d *device) pause() (end func()) {
	d.pauses.Add(1)
	return func() {
		d.touch()
		d.pauses.Add(-1)
	}
}

func (d *device) touch() { d.touched.Store(int64(awake.Now())) }

// files is the file system of the device, at the rate that is allowed. What is read is counted.
func (d *device) files(ctx context.Context, report *Report) vfs.FS {
	return &vfs.Paced{FS: d.config.Files, Read: func(n int) {
		d.touch()
		atomic.AddInt64(&report.Bytes, int64(n))
		defer d.pause()()
		_ = d.bytes.Wait(ctx, int64(n)) // once the context has ended, what was read does not count
	}}
}

// turn does what is due on the device: fast passes when their time has come, and between them a part of a full pass.
func (d *device) turn(ctx context.Context, report *Report) {
	if d.state == nil {
		d.state = d.readCursors()
	}
	due := func(kind Kind) bool {
		p := &d.state.Passes[kind]
		return p.Ended.IsZero() || time.Since(p.Ended) >= d.config.Intervals[kind]
	}
	if !due(Fast) && !due(Full) {
		return
	}
	leave, err := d.enter(ctx)
	if err != nil {
		return
	}
	defer leave()
	if due(Fast) && !d.passAndNote(ctx, Fast, report, nil) {
		return
	}
	if due(Full) {
		d.passAndNote(ctx, Full, report, func() bool { return due(Fast) })
	}
}

// passAndNote is pass, which goes on where the cursor is.
func (d *device) passAndNote(ctx context.Context, kind Kind, report *Report, isDue func() bool) (isEnded bool) {
	p := &d.state.Passes[kind]
	if !p.Ended.IsZero() || p.Began.IsZero() {
		*p = progress{Kind: kind, Began: time.Now()}
	}
	p.Kind = kind
	isEnded = d.pass(ctx, p, report, isDue)
	if isEnded {
		p.Ended, p.After = time.Now(), nil
		d.config.Logger.Info("audit pass", "device", d.name, "kind", kind.String(), "seconds", time.Since(p.Began).Seconds(),
			"partitions", p.Report.Partitions, "objects", p.Report.Objects, "bytes", p.Report.Bytes, "damages", p.Report.Damages,
			"refuted", p.Report.Refuted, "failures", p.Report.Failures)
	}
	if !d.away {
		d.note(true)
		d.tell()
	}
	return isEnded
}

// errAway says that the server does not have the device now.
var errAway = errors.New("the device is not available")

// examineTimeout is the time for a server to read a partition itself.
const examineTimeout = 6 * time.Hour

// examine has the server read what seems damaged.
func (d *device) examine(ctx context.Context, u unit) ([]string, error) {
	defer d.pause()()
	d.mu.Lock()
	q := wire.AuditRequest{Partition: u.wire(d.name), BytesPerSecond: d.config.Rates.BytesPerSecond}
	d.mu.Unlock()
	var found wire.AuditFound
	err := d.call(ctx, examineTimeout, wire.NameAuditExamine, &q, &found)
	return found.Damages, err
}
