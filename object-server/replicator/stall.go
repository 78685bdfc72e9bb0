package replicator

import (
	"context"
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"martlet/object-server/awake"
	"martlet/object-server/device"
)

// errStalled says that a stream of records made no progress for stallTimeouts times node_timeout.
var errStalled = errors.New("no progress for too long")

// stallTimeouts is how much longer a step may take than a request: a slow disk flushes a large object in one.
const stallTimeouts = 5

// watch ends a context if one step of the work takes too long. One step follows the other. Waiting for the rate that is
// allowed is no step, and time in which the process was halted does not count.
type watch struct {
	ctx     context.Context
	cancel  context.CancelCauseFunc
	timeout time.Duration
	step    atomic.Int64 // when it began, by the clock of awake, and one; 0: none is under way
	over    func()       // ends a step

	mu    sync.Mutex
	timer *awake.Timer // guarded by mu
}

func newWatch(ctx context.Context, timeout time.Duration) *watch {
	w := &watch{timeout: stallTimeouts * timeout}
	w.ctx, w.cancel = context.WithCancelCause(ctx)
	w.over = func() { w.step.Store(0) }
	w.lookIn(w.timeout)
	return w
}

// begin begins a step; the caller calls the result at its end.
func (w *watch) begin() func() {
	w.step.Store(int64(awake.Now()) + 1)
	return w.over
}

// lookIn looks at the step once the process has run for so long.
func (w *watch) lookIn(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ctx.Err() == nil {
		w.timer = awake.AfterFunc(d, w.look)
	}
}

// look ends the context if the step has taken too long. It looks again when the step, or the next one, may have.
func (w *watch) look() {
	left := w.timeout
	if began := w.step.Load(); began > 0 {
		left -= awake.Since(time.Duration(began - 1))
	}
	if left <= 0 {
		w.cancel(errStalled)
		return
	}
	w.lookIn(left)
}

// end ends the context and the watch.
func (w *watch) end() {
	w.cancel(nil)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.timer.Stop()
}

// cause is the error of the work, with the reason that the context ended.
func (w *watch) cause(err error) error {
	if err != nil && errors.Is(context.Cause(w.ctx), errStalled) {
		return errors.Join(errStalled, err)
	}
	return err
}

// watchedWriter is the stream to the receiver.
type watchedWriter struct {
	io.Writer
	watch *watch
}

// Write implements io.Writer.
func (w *watchedWriter) Write(p []byte) (int, error) {
	defer w.watch.begin()()
	return w.Writer.Write(p)
}

// watchedRecords are those of the sender.
type watchedRecords struct {
	records
	watch *watch
}

// Next implements records.
func (w *watchedRecords) Next() (device.RawRecord, error) {
	defer w.watch.begin()()
	record, err := w.records.Next()
	if record.Large != nil {
		record.Large = &watchedLarge{record.Large, w.watch}
	}
	return record, err
}

type watchedLarge struct {
	device.Large
	watch *watch
}

// ReadAt implements io.ReaderAt.
func (w *watchedLarge) ReadAt(p []byte, offset int64) (int, error) {
	defer w.watch.begin()()
	return w.Large.ReadAt(p, offset)
}
