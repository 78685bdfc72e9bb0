package updates

import (
	"path"
	"slices"
)

// heldMax updates of a device are kept in memory because its disk does not take them; then it takes no writes. A row has
// about 500 bytes.
const heldMax = 10_000

// hold keeps updates in memory that could not be written. They are pending like others: the replay delivers them, or
// writes them once the disk takes them.
func (l *segmentLog) hold(updates []Update) (*segment, int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.holding == nil {
		l.holding = &segment{path: path.Join(l.dir, "(memory)"), inMemory: true, delivered: map[int]struct{}{}, since: l.marks.taken.Load()}
		l.closed = append(l.closed, l.holding)
	}
	s := l.holding
	first := s.count
	s.held = append(s.held, updates...)
	s.count += len(updates)
	s.noteOldest(updates)
	return s, first
}

// saveHeld writes what is in memory alone. Where it fails, all stays as it was. The replay calls it, or nothing does.
func (l *segmentLog) saveHeld() error {
	l.mu.Lock()
	l.holding = nil // what comes now is not among those that are written
	var left []Update
	var since []uint64
	var from []*segment
	for _, s := range l.closed {
		if s.inMemory {
			from = append(from, s)
			for place, update := range s.held {
				if _, isDelivered := s.delivered[place]; !isDelivered {
					left, since = append(left, update), append(since, s.sinceOf(place))
				}
			}
		}
	}
	l.mu.Unlock()
	if len(left) > 0 {
		written, first, err := l.append(left)
		if err != nil {
			return err
		}
		l.inherit(written, first, since)
	}
	if len(from) > 0 {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.closed = slices.DeleteFunc(l.closed, func(s *segment) bool { return slices.Contains(from, s) })
	}
	return nil
}

// heldCount is how many updates wait in memory alone.
func (l *segmentLog) heldCount() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	total := 0
	for _, s := range l.closed {
		if s.inMemory {
			total += s.count - len(s.delivered)
		}
	}
	return total
}

// OnUnsaved makes p call tell with true when updates are in memory alone, and with false when none are any more. A crash
// in between loses them.
func (p *Pending) OnUnsaved(tell func(bool)) {
	p.heldMu.Lock()
	defer p.heldMu.Unlock()
	p.tell = tell
}

// Unsaved returns how many updates are in memory alone, because the disk does not take them.
func (p *Pending) Unsaved() int { return int(p.held.Load()) }

// IsFull tells whether so many updates could not be saved that no write may make more of them.
func (p *Pending) IsFull() bool { return p.held.Load() >= heldMax }

// hold keeps updates that could not be written because of err.
func (p *Pending) hold(policy int, updates []Update, err error) []SavedID {
	log := p.log(policy)
	segment, first := log.hold(updates)
	p.countHeld(err)
	return idsOf(log, segment, first, len(updates))
}

// saveHeld writes what is in memory alone, if the disk takes it.
func (p *Pending) saveHeld() {
	if p.held.Load() == 0 {
		return
	}
	var failed error
	for _, log := range p.all() {
		if err := log.saveHeld(); err != nil {
			failed = err
		}
	}
	p.countHeld(failed)
}

// countHeld tells, and logs, when the first update is in memory alone, and when none is any more.
func (p *Pending) countHeld(err error) {
	p.heldMu.Lock()
	defer p.heldMu.Unlock()
	before, now := p.held.Load(), int64(0)
	for _, log := range p.all() {
		now += int64(log.heldCount())
	}
	p.held.Store(now)
	switch {
	case before == 0 && now > 0:
		p.logger.Error("container updates cannot be saved, and are kept in memory: their writes are refused", "device", p.root,
			"error", err)
	case before < heldMax && now >= heldMax:
		p.logger.Error("no more container updates can be kept in memory: the device takes no writes", "device", p.root,
			"updates", now, "error", err)
	case before > 0 && now == 0:
		p.logger.Info("no container updates are in memory alone any more", "device", p.root)
	}
	if p.tell != nil && (before > 0) != (now > 0) {
		p.tell(now > 0)
	}
}

// recountHeld takes in what was delivered from memory.
func (p *Pending) recountHeld() {
	if p.held.Load() > 0 {
		p.countHeld(nil)
	}
}
