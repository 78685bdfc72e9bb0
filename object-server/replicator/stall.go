package replicator

import (
	"context"
	"errors"
	"io"
	"time"

	"martlet/object-server/awake"
	"martlet/object-server/device"
)

// errStalled says that a stream of records made no progress for stallTimeouts times node_timeout.
var errStalled = errors.New("no progress for too long")

// stallTimeouts is how much longer a step may take than a request: a slow disk flushes a large object in one.
const stallTimeouts = 5

// watch ends a context if one step of the work takes too long. Waiting for the rate that is allowed is no step, and time in
// which the process was halted does not count.
type watch struct {
	ctx     context.Context
	end     context.CancelCauseFunc
	timeout time.Duration
}

func newWatch(ctx context.Context, timeout time.Duration) *watch {
	ctx, end := context.WithCancelCause(ctx)
	return &watch{ctx, end, stallTimeouts * timeout}
}

// begin begins a step; the caller calls the result at its end.
func (w *watch) begin() func() bool {
	return awake.AfterFunc(w.timeout, func() { w.end(errStalled) }).Stop
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
