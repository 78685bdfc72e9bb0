package device

import (
	"errors"
	"sync"

	"martlet/object-server/bundle"
	"martlet/object-server/failpoint"
)

// caretaker does what no writer should wait for: it gives segments that are full
// a footer, and long ones a checkpoint. One goroutine, one bundle at a time.
type caretaker struct {
	device *Device

	mu      sync.Mutex
	arrived sync.Cond
	queue   []*bundle.Bundle        // guarded by mu
	stopped bool                    // guarded by mu
	known   map[*bundle.Bundle]bool // of which a flush has failed, and was counted; guarded by mu
	done    chan struct{}

	working sync.Mutex // held while a bundle is cared for, or split
}

func (c *caretaker) start(d *Device) {
	c.device = d
	c.arrived.L = &c.mu
	c.done = make(chan struct{})
	go c.run()
}

// stop ends the goroutine. What is queued is found again when its bundle is next
// opened.
func (c *caretaker) stop() {
	c.mu.Lock()
	c.stopped = true
	c.mu.Unlock()
	c.arrived.Signal()
	<-c.done
}

// look queues a bundle if it needs care.
func (c *caretaker) look(b *bundle.Bundle) {
	if !b.NeedsUpkeep() {
		return
	}
	c.mu.Lock()
	c.queue = append(c.queue, b)
	c.mu.Unlock()
	c.arrived.Signal()
}

func (c *caretaker) run() {
	defer close(c.done)
	for {
		c.mu.Lock()
		for len(c.queue) == 0 && !c.stopped {
			c.arrived.Wait()
		}
		if c.stopped {
			c.mu.Unlock()
			return
		}
		b := c.queue[0]
		c.queue = c.queue[1:]
		c.mu.Unlock()
		if c.device.room.low.Load() { // the compactor does it, for one bundle at a time
			c.device.compactor.look(b)
			continue
		}
		err := c.care(b)
		isKnown := c.isKnown(b)
		if err == nil {
			c.device.compactor.look(b)
		}
		if err != nil && !errors.Is(err, ErrNoSpace) {
			if !isKnown {
				c.device.failed(err)
			}
			c.device.options.Logger.Error("upkeep of a bundle failed", "device", c.device.root, "error", err)
		}
	}
}

// flushFailed notes that the flush of a bundle has failed. The kernel tells each open
// file of the same failure, so that of the next footer there is no second one.
func (c *caretaker) flushFailed(b *bundle.Bundle) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.known == nil {
		c.known = make(map[*bundle.Bundle]bool)
	}
	c.known[b] = true
}

// isKnown tells once whether the failure to look after a bundle may be one that has been
// counted.
func (c *caretaker) isKnown(b *bundle.Bundle) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	isKnown := c.known[b]
	delete(c.known, b)
	return isKnown
}

// care brings a bundle up to date. It is no harm if it fails: opening the bundle
// then reads more of it. The committer deals with the errors of its own.
func (c *caretaker) care(b *bundle.Bundle) error {
	c.working.Lock()
	defer c.working.Unlock()
	if c.device.Err() != nil || b.Retired() {
		return nil
	}
	if err := b.Seal(); err != nil {
		if j := c.device.committer.journal; j != nil { // the failed flush was of records as well
			j.Repair()
		}
		return err
	}
	if err := b.FileIndex(c.device.locks.lock, c.device.locks.unlock); err != nil {
		return err
	}
	draft, err := b.Checkpoint()
	if err != nil {
		return err
	}
	if draft != nil {
		_ = c.device.committer.append(b, draft)
		draft.Free()
		failpoint.Hit(failpoint.Checkpointed)
	}
	return nil
}
