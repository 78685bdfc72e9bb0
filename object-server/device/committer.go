package device

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"martlet/object-server/bundle"
	"martlet/object-server/device/journal"
	"martlet/object-server/failpoint"
)

// batchBytesMax bounds one batch, so that no writer waits for a flush of
// everything.
const batchBytesMax = 64 << 20

// committer makes writes durable: one goroutine, one flush for all that queued
// while the previous one ran.
type committer struct {
	device  *Device
	journal *journal.Journal // nil unless that is the method

	mu      sync.Mutex
	arrived sync.Cond
	queue   []*write                          // guarded by mu
	wanted  int                               // how many writes to wait for; guarded by mu
	writers map[*bundle.Bundle]*bundle.Writer // of the bundles that were written to; guarded by mu
	stopped bool                              // guarded by mu
	done    chan struct{}

	progress atomic.Int64 // when the batch came a step further, by the clock; 0 between batches

	// The rest belongs to the goroutine.
	groups []group
	alarm  *time.Timer            // ends the wait of those that queue behind a batch that hangs
	byFile map[*bundle.Writer]int // index into groups
}

// write is a record on its way.
type write struct {
	writer *bundle.Writer
	draft  *bundle.Draft
	err    error
	done   chan struct{} // gets one token when err is final; others may share it
}

// group is what a batch has for one bundle.
type group struct {
	writer   *bundle.Writer
	writes   []*write
	drafts   []*bundle.Draft
	appended *bundle.Appended
}

var writes = sync.Pool{New: func() any { return &write{done: make(chan struct{}, 1)} }}

func (c *committer) start(d *Device) {
	c.device = d
	c.arrived.L = &c.mu
	c.done = make(chan struct{})
	c.byFile = make(map[*bundle.Writer]int)
	c.writers = make(map[*bundle.Bundle]*bundle.Writer)
	c.alarm = time.AfterFunc(d.options.stuckAfter, c.refuse)
	c.alarm.Stop()
	go c.run()
}

// stop ends the goroutine after it has done what is queued.
func (c *committer) stop() {
	c.mu.Lock()
	c.stopped = true
	c.mu.Unlock()
	c.arrived.Signal()
	<-c.done
}

// append writes a sealed draft to its bundle. On return it is durable and
// visible, or the error says why not. The caller still owns the draft.
func (c *committer) append(b *bundle.Bundle, draft *bundle.Draft) error {
	if err := c.check(); err != nil {
		return err
	}
	w := writes.Get().(*write)
	w.draft, w.err = draft, nil
	c.mu.Lock()
	w.writer = c.writerOf(b)
	c.queue = append(c.queue, w)
	isEnough := len(c.queue) >= c.wanted
	c.mu.Unlock()
	if isEnough {
		c.arrived.Signal()
	}
	<-w.done
	err := w.err
	w.writer, w.draft = nil, nil
	writes.Put(w)
	return err
}

// writerOf finds the writer of a bundle, which it takes at the first write. c.mu is held.
func (c *committer) writerOf(b *bundle.Bundle) *bundle.Writer {
	w := c.writers[b]
	if w == nil {
		w = b.TakeWriter()
		c.writers[b] = w
	}
	return w
}

// forget drops the writer of a bundle that was retired.
func (c *committer) forget(b *bundle.Bundle) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.writers, b)
}

// appendAll is append for several drafts, each with its bundle, which are queued
// together: they share a flush, or as many as their size takes. What became of each is
// in its err.
func (c *committer) appendAll(bundles []*bundle.Bundle, all []*write) error {
	if err := c.check(); err != nil {
		return err
	}
	done := make(chan struct{}, len(all))
	for _, w := range all {
		w.done = done
	}
	c.mu.Lock()
	for i, w := range all {
		w.writer = c.writerOf(bundles[i])
	}
	c.queue = append(c.queue, all...)
	c.mu.Unlock()
	c.arrived.Signal()
	for range all {
		<-done
	}
	return nil
}

// check returns ErrStuck if the batch that is being written has come no further for
// long.
func (c *committer) check() error {
	since := c.progress.Load()
	if since == 0 {
		return nil
	}
	if idle := time.Duration(clock() - since); idle > c.device.options.stuckAfter {
		return fmt.Errorf("%w to a flush for %v", ErrStuck, idle.Round(time.Second))
	}
	return nil
}

// refuse gives up the writes that wait for a batch that hangs: nothing of them has been
// written. Those of the batch itself wait on: the disk may have them, and still reads
// from their memory.
func (c *committer) refuse() {
	err := c.check()
	if err == nil { // it came a step further since
		if since := c.progress.Load(); since != 0 {
			c.alarm.Reset(c.device.options.stuckAfter - time.Duration(clock()-since) + time.Millisecond)
		}
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.device.options.Logger.Error("device does not answer to a flush: writes are refused with 507 until it does",
		"device", c.device.root, "given_up", len(c.queue))
	for _, w := range c.queue {
		w.finish(err)
	}
	clear(c.queue)
	c.queue = c.queue[:0]
	c.alarm.Reset(c.device.options.stuckAfter) // one may have come between
}

// step notes that a batch comes on.
func (c *committer) step() { c.progress.Store(max(clock(), 1)) }

func (c *committer) run() {
	defer close(c.done)
	var batch []*write
	for {
		c.mu.Lock()
		for len(c.queue) == 0 && !c.stopped {
			c.arrived.Wait()
		}
		if len(c.queue) == 0 {
			c.mu.Unlock()
			return
		}
		if len(batch) > 1 {
			c.gather(len(batch))
		}
		batch = c.take(batch[:0])
		c.mu.Unlock()
		c.commit(batch)
		clear(batch)
	}
}

// gather waits for more writers to share the flush: those whose writes the last
// batch made durable are on their way back with the next ones, if they have any.
// It waits until nearly all of them are there, CommitDelay at most. A lone
// writer never waits. c.mu is held.
func (c *committer) gather(last int) {
	delay := c.device.options.CommitDelay
	if delay == 0 {
		return
	}
	wanted := last + len(c.queue) // writes queued meanwhile were not in the last batch
	c.wanted = wanted - wanted/16
	timer := time.AfterFunc(delay, func() {
		c.mu.Lock()
		c.wanted = 0
		c.mu.Unlock()
		c.arrived.Signal()
	})
	for len(c.queue) < c.wanted && !c.stopped {
		c.arrived.Wait()
	}
	c.wanted = 0
	timer.Stop()
}

// take moves the front of the queue to the batch. c.mu is held.
func (c *committer) take(batch []*write) []*write {
	size, n := int64(0), 0
	for n < len(c.queue) && (n == 0 || size < batchBytesMax) {
		size += c.queue[n].draft.Len()
		n++
	}
	batch = append(batch, c.queue[:n]...)
	rest := copy(c.queue, c.queue[n:])
	clear(c.queue[rest:])
	c.queue = c.queue[:rest]
	return batch
}

// commit writes, flushes and acknowledges a batch.
func (c *committer) commit(batch []*write) {
	c.step()
	c.alarm.Reset(c.device.options.stuckAfter)
	defer c.rest()
	err := c.device.Err()
	if err == nil && c.journal != nil {
		if err = c.journal.Begin(journalRoom(batch)); err == nil {
			defer c.journal.End()
		}
	}
	if err != nil {
		for _, w := range batch {
			w.finish(fmt.Errorf("%w: %w", bundle.ErrNotWritten, err))
		}
		return
	}
	c.group(batch)
	c.step()
	c.writeAll()
	failpoint.Hit(failpoint.Appended)
	c.step()
	err = c.flush()
	c.step() // else a write that is answered now would be refused for the time of this flush
	failpoint.Hit(failpoint.Flushed)
	for i := range c.groups {
		c.settle(&c.groups[i], err)
	}
}

// journalRoom is what a batch takes in the journal at most.
func journalRoom(batch []*write) int64 {
	bytes := int64(0)
	for _, w := range batch {
		bytes += w.draft.Len()
	}
	return journal.Room(len(batch), bytes)
}

// rest ends a batch.
func (c *committer) rest() {
	c.alarm.Stop()
	c.progress.Store(0)
}

// group sorts a batch by bundle, keeping the order within each.
func (c *committer) group(batch []*write) {
	clear(c.byFile)
	c.groups = c.groups[:0]
	for _, w := range batch {
		i, ok := c.byFile[w.writer]
		if !ok {
			i = len(c.groups)
			c.byFile[w.writer] = i
			if i < cap(c.groups) { // reuse the slices of an earlier batch
				c.groups = c.groups[:i+1]
			} else {
				c.groups = append(c.groups, group{})
			}
			g := &c.groups[i]
			*g = group{writer: w.writer, writes: g.writes[:0], drafts: g.drafts[:0]}
		}
		g := &c.groups[i]
		g.writes = append(g.writes, w)
		g.drafts = append(g.drafts, w.draft)
	}
}

// directWriters is how many direct writes of a batch run at once: each waits for
// the disk.
const directWriters = 32

// writeAll appends all groups to their bundles.
func (c *committer) writeAll() {
	if !c.device.files.Direct || len(c.groups) == 1 {
		for i := range c.groups {
			c.write(&c.groups[i])
		}
		return
	}
	var running sync.WaitGroup
	var next atomic.Int32
	for range min(len(c.groups), directWriters) {
		running.Add(1)
		go func() {
			defer running.Done()
			for i := next.Add(1) - 1; int(i) < len(c.groups); i = next.Add(1) - 1 {
				c.write(&c.groups[i])
			}
		}()
	}
	running.Wait()
}

// write appends the records of a group to its bundle. What does not fit into
// the segment goes back to the front of the queue.
func (c *committer) write(g *group) {
	appended, err := g.writer.Append(g.drafts)
	c.step()
	if err != nil {
		c.device.failed(err)
		for _, w := range g.writes {
			w.finish(err)
		}
		g.writes = g.writes[:0]
		return
	}
	c.device.counters.bytesWritten.Add(uint64(appended.Bytes))
	g.appended = appended
	if rest := g.writes[appended.Accepted:]; len(rest) > 0 {
		c.mu.Lock()
		c.queue = append(append(make([]*write, 0, len(rest)+len(c.queue)), rest...), c.queue...)
		c.mu.Unlock()
		g.writes = g.writes[:appended.Accepted]
	}
}

// settle publishes a group that is durable and tells its writers.
func (c *committer) settle(g *group, err error) {
	if g.appended == nil {
		return
	}
	if err != nil {
		g.appended.Discard()
		c.device.caretaker.flushFailed(g.writer.Bundle())
	} else {
		g.appended.Publish()
		c.device.damages.replaced(g.writer.Bundle().ID(), g.drafts[:len(g.writes)])
		c.device.caretaker.look(g.writer.Bundle())
		failpoint.Hit(failpoint.Published)
	}
	for _, w := range g.writes {
		w.finish(err)
	}
	clear(g.writes)
	clear(g.drafts)
}

func (w *write) finish(err error) {
	w.err = err
	w.done <- struct{}{}
}

// flush makes everything appended durable, names included. On an error nothing
// is known of any of it, and nothing is retried.
func (c *committer) flush() error {
	touched, moved, directories := 0, 0, 0
	for i := range c.groups {
		if a := c.groups[i].appended; a != nil {
			touched++
			directories += len(a.Directories)
			if !a.InPlace() {
				moved++
			}
		}
	}
	if touched == 0 {
		return nil
	}
	c.device.counters.batches.Add(1)
	var err error
	method := c.device.options.SyncMethod
	if c.journal != nil {
		err = c.journal.Commit(c.extents())
	} else if method != SyncFdatasync && moved+directories > 1 {
		c.device.counters.flushes.Add(1)
		err = c.device.directory.SyncFS()
	} else {
		err = c.flushEach(moved == 0)
	}
	if err != nil {
		c.device.failed(err)
	}
	return err
}

// extents is what the batch has written, for the journal.
func (c *committer) extents() []bundle.Extent {
	extents := make([]bundle.Extent, 0, len(c.groups))
	for i := range c.groups {
		if a := c.groups[i].appended; a != nil {
			extents = append(extents, a.Extent())
		}
	}
	return extents
}

// flushEach flushes file by file, then the directories of new ones, children
// before parents. What was written in place is durable with any other file, or if
// there is no other, with one of its own.
func (c *committer) flushEach(isInPlace bool) error {
	var directories []string
	seen := make(map[string]bool)
	for i := range c.groups {
		a := c.groups[i].appended
		if a == nil || a.InPlace() && !isInPlace {
			continue
		}
		c.device.counters.flushes.Add(1)
		if err := a.Datasync(); err != nil {
			return err
		}
		c.step()
		if isInPlace {
			return nil
		}
		for _, d := range a.Directories {
			if !seen[d] {
				seen[d] = true
				directories = append(directories, d)
			}
		}
	}
	for _, d := range directories {
		c.device.counters.flushes.Add(1)
		if err := c.device.fs.SyncDir(d); err != nil {
			return err
		}
		c.step()
	}
	return nil
}

// pad proves the last batch of each bundle, so that damage to it will not be
// mistaken for a torn tail. The goroutine has ended.
func (c *committer) pad(all []*bundle.Bundle) error {
	var batch []*write
	c.mu.Lock()
	for _, b := range all {
		writer := c.writerOf(b)
		if draft := writer.Pad(); draft != nil {
			batch = append(batch, &write{writer: writer, draft: draft, done: make(chan struct{}, 1)})
		}
	}
	c.mu.Unlock()
	if len(batch) == 0 {
		return nil
	}
	failpoint.Hit(failpoint.Padding)
	c.commit(batch)
	var errs []error
	for _, w := range batch {
		<-w.done
		w.draft.Free()
		if !errors.Is(w.err, ErrNoSpace) { // a full disk goes without
			errs = append(errs, w.err)
		}
	}
	return errors.Join(errs...)
}
