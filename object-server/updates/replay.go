package updates

import (
	"context"
	"time"
)

// replay delivers the pending updates of one device, segment by segment, oldest first. It runs in one goroutine.
type replay struct {
	updater *Updater
	pending *Pending
}

// letter is one pending update addressed to one database; an update without a host has one for each primary.
type letter struct {
	place     int // of the update in its segment
	update    Update
	delivered bool
	reason    string // why it was not, where that is known
}

func (r *replay) run(ctx context.Context) {
	ticker := time.NewTicker(r.updater.options.RetryFirst)
	defer ticker.Stop()
	for {
		r.pending.saveHeld()
		for _, log := range r.pending.all() {
			for _, s := range log.rotateOlder(time.Now(), r.updater.options.Interval) {
				if ctx.Err() != nil {
					return
				}
				if err := r.deliver(ctx, log, s); err != nil {
					r.pending.logger.Error("pending container updates", "file", s.path, "error", err)
				}
			}
		}
		r.pending.recountHeld()
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// deliver tries all of one segment that is due, and removes the segment when nothing is left in it.
func (r *replay) deliver(ctx context.Context, log *segmentLog, s *segment) error {
	now := time.Now()
	if log.isSpent(s) {
		if now.Before(s.spendAt) {
			return nil
		}
		s.spendAt = now.Add(r.updater.options.Interval)
		if !log.hasMore(s) {
			return log.spend(s)
		}
	}
	if now.Before(s.retryAt) && s.backoffs == r.updater.backoff.generation() {
		return nil
	}
	if log.isKept(s) {
		return nil
	}
	s.backoffs, s.retryAt = r.updater.backoff.generation(), now.Add(r.updater.options.Interval)
	updates, damage, err := s.read(log.fs)
	if err != nil {
		return err
	}
	if log.noteRead(s, len(updates), damage) {
		r.pending.logger.Error("damaged frames in pending container updates; the file is kept", "file", s.path,
			"frames", damage.frames)
	}
	letters := r.address(log, s, updates)
	s.retryAt = r.send(ctx, letters, s.retryAt)
	waiting := waitingIn(letters)
	r.pending.said.report(waiting, time.Now())
	left, err := r.settle(log, s, updates, letters)
	log.setWaiting(left, waiting)
	return err
}

// address makes the letters for what is not delivered yet.
func (r *replay) address(log *segmentLog, s *segment, updates []Update) []*letter {
	primaries := map[Target][]Target{}
	var letters []*letter
	for place, update := range updates {
		if log.isDelivered(s, place) {
			continue
		}
		for _, target := range r.targets(update.Target, primaries) {
			letters = append(letters, &letter{place: place, update: Update{Target: target, Row: update.Row}})
		}
	}
	return letters
}

// targets says where an update goes: to the database it was meant for if that is still a primary, else to every
// primary. known caches the primaries by container. Without a ring, the database it was meant for must do.
func (r *replay) targets(target Target, known map[Target][]Target) []Target {
	container := Target{Account: target.Account, Container: target.Container, PolicyIndex: target.PolicyIndex}
	primaries, ok := known[container]
	if !ok {
		primaries, _ = r.updater.options.Placement.Primaries(container) // the rings have logged the error
		known[container] = primaries
	}
	if len(primaries) == 0 && target.Host != "" {
		return []Target{target}
	}
	for _, primary := range primaries {
		if primary.Device == target.Device && primary.Host == target.Host {
			return []Target{target}
		}
	}
	return primaries
}

// send delivers letters, database by database, and returns the earliest time at which trying again makes sense.
func (r *replay) send(ctx context.Context, letters []*letter, retryAt time.Time) time.Time {
	byTarget := map[Target][]*letter{}
	for _, l := range letters {
		byTarget[l.update.Target] = append(byTarget[l.update.Target], l)
	}
	for target, waiting := range byTarget {
		for len(waiting) > 0 && ctx.Err() == nil {
			again, ready := r.updater.backoff.ready(target, time.Now())
			if ready {
				batch := waiting[:min(rowsMax, len(waiting))]
				waiting = waiting[len(batch):]
				again, ready = r.sendBatch(ctx, target, batch)
			}
			if !ready {
				for _, l := range waiting {
					l.reason = r.updater.backoff.reason(target)
				}
				retryAt = earlier(retryAt, again)
				break
			}
		}
	}
	return retryAt
}

// sendBatch marks what was delivered; ok is false if anything was not.
func (r *replay) sendBatch(ctx context.Context, target Target, batch []*letter) (again time.Time, ok bool) {
	rows := make([]Row, len(batch))
	for i, l := range batch {
		rows[i] = l.update.Row
	}
	errs := r.updater.sender.send(ctx, target, rows)
	ok = true
	for i, l := range batch {
		if errs == nil || errs[i] == nil {
			l.delivered = true
			continue
		}
		l.reason = reasonOf(target, errs[i])
		if ok {
			again = r.updater.backoff.failed(target, errs[i], time.Now())
			r.pending.logger.Debug("pending container updates not delivered", "host", target.Host,
				"account", target.Account, "container", target.Container, "error", errs[i], "retry", again)
			ok = false
		}
	}
	if ok {
		r.updater.backoff.delivered(target)
	}
	return again, ok
}

func reasonOf(target Target, err error) string {
	return target.Host + "/" + target.Device + ": " + err.Error()
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// settle notes what was delivered. What is left of an update that had several letters, some of them delivered, and of
// a segment that is half delivered, is written anew first; then the old segment is removed. A crash between the two
// leaves both, and rows are delivered twice. It returns the segment that has what is left.
func (r *replay) settle(log *segmentLog, s *segment, updates []Update, letters []*letter) (*segment, error) {
	arrived := map[int]bool{}
	for _, l := range letters {
		arrived[l.place] = arrived[l.place] || l.delivered
	}
	var done []int       // places that need no replay from this segment any more
	var rewrite []Update // what must be written anew for that
	var from []int       // the place of each
	for _, l := range letters {
		if arrived[l.place] && !l.delivered {
			rewrite, from = append(rewrite, l.update), append(from, l.place)
		}
	}
	left := 0
	for place := range updates {
		if arrived[place] {
			done = append(done, place)
		} else if !log.isDelivered(s, place) {
			left++
		}
	}
	if left > 0 && left <= len(updates)/2 && !s.damaged && !s.inMemory {
		for place, update := range updates {
			if !arrived[place] && !log.isDelivered(s, place) {
				rewrite, from = append(rewrite, update), append(from, place)
				done = append(done, place)
			}
		}
		left = 0
	}
	remains := s
	if len(rewrite) > 0 {
		written, first, err := log.append(rewrite)
		if err != nil && s.inMemory {
			written, first = log.hold(rewrite)
			err = nil
		}
		if err != nil {
			return s, err
		}
		log.inherit(written, first, log.since(s, from))
		if left == 0 {
			remains = written
		}
	}
	for _, place := range done {
		log.markDelivered(s, place)
	}
	if left == 0 && !log.isKept(s) {
		return remains, log.remove(s)
	}
	return remains, nil
}
