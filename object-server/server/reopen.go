package server

import (
	"context"
	"errors"
	"time"
)

// A device that was taken out after failed writes is closed, so that it can be unmounted and repaired, and is opened
// anew after a pause, as a restart would. One that fails again and again is tried less and less often: its pause doubles,
// up to outageMax, and is forgotten once it has been in use for outageForgotten.
const (
	outageMax       = 5 * time.Minute
	outageForgotten = 10 * time.Minute
	// lookEvery is how often devices that are not open are looked at, without any request for them.
	lookEvery = 10 * time.Second
)

// outage is the last time that a device was taken out.
type outage struct {
	at    time.Time
	pause time.Duration
}

// next is what follows on an outage now.
func (o outage) next(now time.Time) outage {
	pause := min(2*o.pause, outageMax)
	if o.pause == 0 || now.Sub(o.at) > o.pause+outageForgotten {
		pause = checkEvery
	}
	return outage{at: now, pause: pause}
}

// drop closes a device that was taken out.
func (s *mounts) drop(found *mount, cause error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byName[found.name] != found {
		return // another request was faster
	}
	now := time.Now()
	again := s.outages[found.name].next(now)
	s.outages[found.name] = again
	delete(s.byName, found.name)
	s.failed[found.name] = failedMount{at: now, pause: again.pause, err: cause}
	s.logger.Error("device taken out", "device", found.name, "error", cause, "opened_again_in", again.pause.String())
	go found.close(s.logger)
}

// keep looks at the devices until ctx ends: what is pending on a device that has come back is delivered without a request
// for it.
func (s *mounts) keep(ctx context.Context) {
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
func (s *mounts) look() {
	names, err := s.present()
	if err != nil {
		return // said at each request
	}
	for _, name := range names {
		if found, err := s.acquire(name); err == nil {
			found.release()
		}
	}
}

// refusal is why a device cannot be used; nil if it is open, or was never looked at.
func (s *mounts) refusal(name string) error {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if found := s.byName[name]; found != nil {
		return found.store.Err()
	}
	if err := s.failed[name].err; !errors.Is(err, errNoAnswer) {
		return err
	}
	return nil
}
