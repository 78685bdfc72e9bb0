package updates

import (
	"errors"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"
)

// loss is how far updates are that a segment has lost.
type loss int

const (
	noLoss        loss = iota // there are none, or they were made again
	isLost                    // they must be made again
	isBeingMended             // that has begun
	isLeft                    // it was done but in part: the next process begins again
)

// Lost is a part of the pending updates of a policy that cannot be read.
type Lost struct {
	Policy int

	log      *segmentLog
	segments []*segment
}

// Lost returns what was found to be lost since the last call. The updates must be made again from the objects; Mended
// must follow, or the next process finds them lost again.
func (p *Pending) Lost() []Lost {
	p.mu.Lock()
	defer p.mu.Unlock()
	var all []Lost
	for policy, log := range p.logs {
		if segments := log.takeLost(); len(segments) > 0 {
			all = append(all, Lost{policy, log, segments})
		}
	}
	return all
}

// Mended says that the lost updates are delivered, or pending again.
func (p *Pending) Mended(lost Lost) {
	lost.log.mu.Lock()
	defer lost.log.mu.Unlock()
	for _, s := range lost.segments {
		s.loss = noLoss
	}
	lost.log.marks.mended.Add(1) // what was made again is newer than its writes
}

// MendedInPart says that not all objects could be read. The next process finds the updates lost again.
func (p *Pending) MendedInPart(lost Lost) {
	lost.log.mu.Lock()
	defer lost.log.mu.Unlock()
	for _, s := range lost.segments {
		s.loss = isLeft
	}
}

// MayHaveLost tells whether updates are lost and not made again yet, or some were not read since the start. Until then no
// object may go.
func (p *Pending) MayHaveLost() bool {
	return slices.ContainsFunc(p.all(), func(l *segmentLog) bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return slices.ContainsFunc(l.closed, func(s *segment) bool {
			return s.loss == isLost || s.loss == isBeingMended || s.isUnread()
		})
	})
}

func (l *segmentLog) takeLost() []*segment {
	l.mu.Lock()
	defer l.mu.Unlock()
	var all []*segment
	for _, s := range l.closed {
		if s.loss == isLost {
			s.loss = isBeingMended
			all = append(all, s)
		}
	}
	return all
}

// isUnread tells whether it is not known how many updates s has. segmentLog.mu is held.
func (s *segment) isUnread() bool { return s.created.IsZero() && !s.inMemory && !s.isRead }

// noteRead notes what the replay has found in s. It returns true if damage is new. Nothing is known of the updates behind
// it then, nor if more or less can be read than before.
func (l *segmentLog) noteRead(s *segment, count int, is damage) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	isNew := is.frames > 0 && !s.damaged
	if isNew || s.damaged && count != s.count {
		s.damaged = true
		clear(s.delivered)
	}
	s.count, s.isRead = count, true
	if isNew || is.isTorn && !s.isTorn {
		s.loss = isLost
	}
	s.isTorn = is.isTorn
	return isNew
}

// isSpent tells whether nothing but damage, or a torn end, is left in s, of which no update is missing any more.
func (l *segmentLog) isSpent(s *segment) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return (s.damaged || s.isTorn) && s.loss == noLoss && len(s.delivered) == s.count
}

// isKept tells whether s must stay though all that can be read of it is delivered.
func (l *segmentLog) isKept(s *segment) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return (s.damaged || s.loss != noLoss) && len(s.delivered) == s.count
}

// hasMore reads s again: what the disk could not read before may be there now. Its updates may be some that nothing makes
// again. Then s is one that is not delivered.
func (l *segmentLog) hasMore(s *segment) bool {
	if !s.damaged {
		return false
	}
	updates, is, err := s.read(l.fs)
	if err != nil || len(updates) <= s.count {
		return false
	}
	l.noteRead(s, len(updates), is)
	s.retryAt = time.Time{}
	return true
}

// spend removes s. Damage stays for inspection, under a name by which no process takes it for updates: after reclaim_age
// its rows would list again what was deleted. A crash may leave both names.
func (l *segmentLog) spend(s *segment) error {
	if s.damaged {
		if err := l.putAside(s); err != nil && !errors.Is(err, fs.ErrExist) && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return l.remove(s)
}

// putAside gives a segment the name under which it is kept for inspection.
func (l *segmentLog) putAside(s *segment) error {
	file, err := l.fs.Open(s.path)
	if err != nil {
		return err
	}
	defer file.Close()
	name := strings.TrimSuffix(path.Base(s.path), segmentSuffix) + damagedSuffix
	if err := l.fs.Link(file, path.Join(l.dir, name)); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.aside++
	s.isAside = true
	return nil
}

// damagedCount is how many segments have damage.
func (l *segmentLog) damagedCount() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	count := l.aside
	for _, s := range l.closed {
		if s.damaged && !s.isAside {
			count++
		}
	}
	return count
}
