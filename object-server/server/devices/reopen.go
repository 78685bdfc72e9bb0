package devices

import (
	"context"
	"errors"
	"time"

	"martlet/object-server/server/calls"
)

// A device that was taken out after failed writes is closed, so that it can be unmounted and repaired. It is opened again
// after a pause, as after a restart. With each failure the pause doubles, up to outageMax; after outageForgotten in use it
// starts anew.
const (
	outageMax       = 5 * time.Minute
	outageForgotten = 10 * time.Minute
	// lookEvery is how often the server looks at devices that are not open, without a request for them.
	lookEvery = 10 * time.Second
)

// outage is the last time that a device was taken out.
type outage struct {
	at    time.Time
	pause time.Duration
}

// next is the outage that begins now.
func (o outage) next(now time.Time) outage {
	pause := min(2*o.pause, outageMax)
	if o.pause == 0 || now.Sub(o.at) > o.pause+outageForgotten {
		pause = checkEvery
	}
	return outage{at: now, pause: pause}
}

// drop closes a device that was taken out.
func (s *Set) drop(found *Mount, cause error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byName[found.Name] != found {
		return // another request was faster
	}
	now := time.Now()
	again := s.outages[found.Name].next(now)
	s.outages[found.Name] = again
	delete(s.byName, found.Name)
	s.failed[found.Name] = failedMount{at: now, pause: again.pause, err: cause}
	s.logger.Error("device taken out", "device", found.Name, "error", cause, "opened_again_in", again.pause.String())
	go found.close(s.logger)
}

// Keep looks at the devices until ctx ends. The updates on a device that has come back are delivered without a request
// for that device.
func (s *Set) Keep(ctx context.Context) {
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			s.look()
		}
	}
}

// look drops devices that were taken out, and opens those that can be.
func (s *Set) look() {
	names, err := s.Names()
	if err != nil {
		return // each request logs it
	}
	for _, name := range names {
		if found, err := s.Acquire(name); err == nil {
			found.Release()
		}
	}
}

// Refusal is why a device cannot be used; nil if it is open, or was never looked at.
func (s *Set) Refusal(name string) error {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if found := s.byName[name]; found != nil {
		return found.Store.Err()
	}
	if err := s.failed[name].err; !errors.Is(err, calls.ErrNoAnswer) {
		return err
	}
	return nil
}
