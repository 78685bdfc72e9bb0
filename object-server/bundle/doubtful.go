package bundle

import (
	"time"

	"martlet/object-server/bundle/format"
)

// skewMax is how far the clocks of the servers of a cluster are apart at most.
const skewMax = 60 * format.TicksPerSecond

// IsLater tells whether a time is later than any that a record may have whose header
// is damaged: every write is older than its record, and a segment gets no record
// once it is closed. One that grows is closed by the next append, so that later
// writes are taken.
func (b *Bundle) IsLater(damaged *Record, t format.Timestamp) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.segments.table[damaged.slot.Segment()]
	if s == nil { // compacted meanwhile
		return false
	}
	if s.closed == 0 {
		s.closed, b.turn = ticksNow(), b.turn || s == b.active
	}
	return t.Ticks > s.closed+skewMax
}

func ticksNow() uint64 { return uint64(time.Now().UnixMicro() / 10) }
