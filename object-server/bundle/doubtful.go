package bundle

import (
	"errors"
	"fmt"
	"slices"
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

// Doubt is the position up to which records of unknown names are lost; LSN 0: none is.
func (b *Bundle) Doubt() Position { return Position{b.Identity(), b.lostThrough} }

// Distrust begins a doubt about a bundle that nothing else uses yet: the records of some
// damages count as lost, though a footer or a checkpoint may have what they were.
func (b *Bundle) Distrust(lost []Damage) {
	for i := range lost {
		if x := &lost[i]; !b.WasLost(x.FirstLSN, x.LastLSN) {
			b.report.Extents = append(b.report.Extents, *x)
		}
		b.lostThrough = max(b.lostThrough, lost[i].LastLSN)
	}
}

// WasLostOf tells whether a record that was lost then is known to be of a name.
func (b *Bundle) WasLostOf(hash format.Hash) bool {
	return slices.ContainsFunc(b.report.Extents, func(d Damage) bool {
		return slices.ContainsFunc(d.Lost, func(l Lost) bool { return l.IsSure && l.Hash == hash })
	})
}

// WasLost tells whether records had been lost, with their names, when the bundle was
// opened.
func (b *Bundle) WasLost(first, last uint64) bool {
	return slices.ContainsFunc(b.report.Extents, func(d Damage) bool {
		return d.LastLSN > 0 && d.FirstLSN <= first && last <= d.LastLSN
	})
}

// Counts tells whether a record of a name is the newest, or one that those of a name
// with versions need. It says so as well where damage hides that.
func (b *Bundle) Counts(hash format.Hash, lsn uint64) (bool, error) {
	head, buffer, err := b.ReadHead(hash)
	buffer.Free()
	switch {
	case errors.Is(err, format.ErrQuarantined):
		return true, nil
	case err != nil || head == nil:
		return false, err
	case lsn >= head.LSN():
		return true, nil
	}
	f := fates{bundle: b}
	become, err := f.of(&format.Entry{Hash: hash, LSN: lsn, Type: format.TypePut})
	return become == fateCopied, err
}

// ErrHidden is the ErrQuarantined of a name of which the newest record has a damaged header.
var ErrHidden = fmt.Errorf("%w: it is not known which record is the newest", format.ErrQuarantined)

// IsLive tells whether a record is the newest of its name, or a live version of it. It says
// so as well where damage hides that. ErrHidden if a damaged header does.
func (b *Bundle) IsLive(hash format.Hash, lsn uint64) (bool, error) {
	head, buffer, err := b.ReadHead(hash)
	buffer.Free()
	switch {
	case errors.Is(err, format.ErrQuarantined) && head != nil && head.LSN() == 0:
		return true, fmt.Errorf("%w: %w", ErrHidden, err)
	case errors.Is(err, format.ErrQuarantined):
		return true, nil
	case err != nil || head == nil:
		return false, err
	case lsn >= head.LSN() || !head.Versioned():
		return lsn >= head.LSN(), nil
	}
	live, err := b.LiveVersions(hash, head.LSN())
	if errors.Is(err, format.ErrQuarantined) {
		return true, nil
	}
	return live[lsn], err
}

func ticksNow() uint64 { return uint64(time.Now().UnixMicro() / 10) }
