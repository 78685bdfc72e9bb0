package format

import "cmp"

//go:generate go tool msgp -file lock.go -o lock_gen.go -io=false -tests=false

// Lock is what keeps a version from being removed or replaced. Of a removal it says how that
// was asked for.
//
// Replicas merge the locks of one version, in any order and to the same result: a lock never
// gets shorter by that than the last change of it says.
type Lock struct {
	Compliance uint64    `msg:"c"` // ticks: before it the version is not removed; 0 is never
	Governance uint64    `msg:"g"` // ticks: the same, but for a removal that bypasses it
	Governed   Timestamp `msg:"s"` // when Governance was set
	Hold       bool      `msg:"h"` // while it is on the version is not removed
	Held       Timestamp `msg:"o"` // when Hold was set
	Bypass     bool      `msg:"b"` // of a removal: Governance does not count for it
}

// Protects tells whether the version may not be removed at a time, in ticks.
func (l *Lock) Protects(ticks uint64, bypass bool) bool {
	return l != nil && (l.Hold || ticks < l.Compliance || !bypass && ticks < l.Governance)
}

// Voids tells whether a removal, or a write in place of the version, does not count: the lock
// protects the version at its time, or was changed later.
func (l *Lock) Voids(removal Timestamp, bypass bool) bool {
	return l != nil && (l.Protects(removal.Ticks, bypass) || removal.Compare(l.Governed) < 0 || removal.Compare(l.Held) < 0)
}

// Bypasses tells whether metadata are those of a removal that bypasses governance.
func (m *Metadata) Bypasses() bool { return m.Lock != nil && m.Lock.Bypass }

// MergeLocks is the lock of a version that two replicas have with these locks; nil is none.
func MergeLocks(l, o *Lock) *Lock {
	if l == nil || o == nil {
		return cmp.Or(l, o)
	}
	merged := Lock{Compliance: max(l.Compliance, o.Compliance), Bypass: l.Bypass || o.Bypass}
	switch c := l.Governed.Compare(o.Governed); {
	case c == 0:
		merged.Governance, merged.Governed = max(l.Governance, o.Governance), l.Governed
	case c < 0:
		merged.Governance, merged.Governed = o.Governance, o.Governed
	default:
		merged.Governance, merged.Governed = l.Governance, l.Governed
	}
	switch c := l.Held.Compare(o.Held); {
	case c == 0:
		merged.Hold, merged.Held = l.Hold || o.Hold, l.Held
	case c < 0:
		merged.Hold, merged.Held = o.Hold, o.Held
	default:
		merged.Hold, merged.Held = l.Hold, l.Held
	}
	return &merged
}

// SameLock tells whether two locks are equal; nil is none.
func SameLock(l, o *Lock) bool { return l == o || l != nil && o != nil && *l == *o }

// IsInBounds tells whether the times of a lock are ones that a Timestamp can hold.
func (l *Lock) IsInBounds() bool {
	return l == nil || max(l.Compliance, l.Governance, l.Governed.Ticks, l.Held.Ticks) <= TicksMax
}
