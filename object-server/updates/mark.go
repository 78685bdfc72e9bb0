package updates

import (
	"slices"
	"sync/atomic"
)

// marks counts what tells older updates from newer ones, on one device.
type marks struct {
	taken  atomic.Uint64 // by Mark
	mended atomic.Uint64 // losses
}

// Mark stands for all updates that were pending at a moment.
type Mark struct{ since, mended uint64 }

// Mark returns the mark of this moment.
func (p *Pending) Mark() Mark { return Mark{p.marks.taken.Add(1) - 1, p.marks.mended.Load()} }

// IsOver tells whether all updates of a mark are delivered. isVoid says that this will not be known: some were lost, and
// those that were made again are not told from newer ones. Then another mark must be taken.
func (p *Pending) IsOver(m Mark) (isOver, isVoid bool) {
	isOver = !slices.ContainsFunc(p.all(), func(l *segmentLog) bool { return !l.isOver(m.since) })
	return isOver, p.marks.mended.Load() != m.mended // after what it would change
}

func (l *segmentLog) isOver(mark uint64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !slices.ContainsFunc(append(slices.Clone(l.closed), l.active), func(s *segment) bool {
		return s != nil && (s.loss != noLoss || s.isUnread() || s.hasSince(mark))
	})
}

// hasSince tells whether an update waits in s that was pending at a mark. segmentLog.mu is held.
func (s *segment) hasSince(mark uint64) bool {
	if s.since <= mark || s.damaged && len(s.inherited) > 0 { // damage moves places
		return len(s.delivered) < s.count
	}
	for place, since := range s.inherited {
		if _, isDelivered := s.delivered[place]; !isDelivered && since <= mark {
			return true
		}
	}
	return false
}

// sinceOf is since when the update at a place is pending. segmentLog.mu is held.
func (s *segment) sinceOf(place int) uint64 {
	if since, ok := s.inherited[place]; ok {
		return since
	}
	return s.since
}

// inherit notes since when updates are pending that were written to s anew, from a place on. Until then they must be
// pending where they came from, too.
func (l *segmentLog) inherit(s *segment, first int, since []uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s.inherited == nil {
		s.inherited = map[int]uint64{}
	}
	for i, one := range since {
		s.inherited[first+i] = one
	}
}

// since is since when the updates at some places of s are pending.
func (l *segmentLog) since(s *segment, places []int) []uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := make([]uint64, len(places))
	for i, place := range places {
		all[i] = s.sinceOf(place)
	}
	return all
}
