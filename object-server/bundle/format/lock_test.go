package format

import (
	"testing"

	"pgregory.net/rapid"
)

func drawLock(t *rapid.T, label string) *Lock {
	if rapid.Bool().Draw(t, label+" is none") {
		return nil
	}
	few := rapid.Uint64Range(0, 3) // so that times are often equal
	return &Lock{
		Compliance: few.Draw(t, label), Governance: few.Draw(t, label), Governed: Timestamp{few.Draw(t, label), few.Draw(t, label)},
		Hold: rapid.Bool().Draw(t, label), Held: Timestamp{few.Draw(t, label), 0}, Bypass: rapid.Bool().Draw(t, label),
	}
}

// Replicas get the same lock in whatever order they merge, and a removal that one of the locks
// voids by a part that no later change replaced is void under the merged one.
func TestMergeLocks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l, o, p := drawLock(t, "l"), drawLock(t, "o"), drawLock(t, "p")
		merged := MergeLocks(l, o)
		if !SameLock(merged, MergeLocks(o, l)) {
			t.Fatalf("%+v, %+v: %+v or %+v", l, o, merged, MergeLocks(o, l))
		}
		if !SameLock(MergeLocks(merged, p), MergeLocks(l, MergeLocks(o, p))) {
			t.Fatalf("%+v, %+v, %+v: the order counts", l, o, p)
		}
		if !SameLock(MergeLocks(l, l), l) || !SameLock(MergeLocks(merged, l), merged) {
			t.Fatalf("%+v, %+v: merged twice", l, o)
		}
		at := Timestamp{Ticks: rapid.Uint64Range(0, 4).Draw(t, "removal")}
		if l != nil && at.Ticks < l.Compliance && !merged.Voids(at, true) {
			t.Fatalf("%+v with %+v does not last until %d", l, o, l.Compliance)
		}
		if merged.Voids(at, false) && !l.Voids(at, false) && !o.Voids(at, false) {
			t.Fatalf("%+v voids what neither %+v nor %+v does", merged, l, o)
		}
	})
}

func TestLockVoids(t *testing.T) {
	at := func(ticks uint64) Timestamp { return Timestamp{Ticks: ticks} }
	for name, c := range map[string]struct {
		lock           *Lock
		removal        uint64
		bypass, isVoid bool
	}{
		"no lock":                      {nil, 5, false, false},
		"compliance":                   {&Lock{Compliance: 10}, 9, true, true},
		"compliance that is over":      {&Lock{Compliance: 10}, 10, false, false},
		"governance":                   {&Lock{Governance: 10}, 9, false, true},
		"governance, bypassed":         {&Lock{Governance: 10}, 9, true, false},
		"hold":                         {&Lock{Hold: true, Held: at(1)}, 9, true, true},
		"hold that was released":       {&Lock{Held: at(8)}, 9, false, false},
		"from before the release":      {&Lock{Held: at(8)}, 7, true, true},
		"from before a new governance": {&Lock{Governed: at(8)}, 7, true, true},
	} {
		if got := c.lock.Voids(at(c.removal), c.bypass); got != c.isVoid {
			t.Errorf("%s: %v", name, got)
		}
	}
}
