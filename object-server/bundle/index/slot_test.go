package index

import (
	"testing"

	"pgregory.net/rapid"
)

func TestSlotFields(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		segment := rapid.Uint16Range(0, SegmentsMax-1).Draw(t, "segment")
		unit := rapid.Uint32Range(0, UnitsMax-1).Draw(t, "unit")
		units := rapid.Uint32Range(1, classUnitsMax).Draw(t, "units")
		state := rapid.Uint8Range(slotLive, slotVersioned).Draw(t, "state")
		tag := fullTag(rapid.Uint64().Draw(t, "key"), rapid.Uint8Range(0, levelMax).Draw(t, "level"))
		s := makeSlot(segment, unit, units, state) | tag
		if s.Segment() != segment || s.Unit() != unit || s.Units() != classUnits(classOf(units)) || s.state() != state {
			t.Fatalf("%x: segment %d, unit %d, units %d, state %d", s, s.Segment(), s.Unit(), s.Units(), s.state())
		}
		if other := makeSlot(segment, unit, 1, slotLive); s.At() != other.At() || s.At() == makeSlot(segment, unit^1, units, state).At() ||
			s.At() == makeSlot(segment^1, unit, units, state).At() {
			t.Fatalf("%x: at %x", s, s.At())
		}
	})
}

func TestSlotRefusesWhatDoesNotFit(t *testing.T) {
	for name, make := range map[string]func(){
		"segment": func() { makeSlot(SegmentsMax, 0, 8, slotLive) },
		"unit":    func() { makeSlot(0, UnitsMax, 8, slotLive) },
		"state":   func() { makeSlot(0, 0, 8, slotVersioned+1) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: accepted", name)
				}
			}()
			make()
		}()
	}
}

// All lengths: never less than asked for, at most an eighth more, and the next
// lower class is too short.
func TestClasses(t *testing.T) {
	for units := uint32(1); units <= 1<<19; units++ {
		class := classOf(units)
		rounded := classUnits(class)
		switch {
		case units > classUnitsMax:
			if class != classLonger || rounded != 0 {
				t.Fatalf("%d units: class %d of %d", units, class, rounded)
			}
		case rounded < units || 8*rounded > 9*units+64 || class >= classLonger:
			t.Fatalf("%d units: class %d of %d", units, class, rounded)
		case class > 0 && classUnits(class-1) >= units:
			t.Fatalf("%d units: class %d of %d would do", units, class-1, classUnits(class-1))
		}
	}
	if class := classOf(1<<32 - 1); class != classLonger {
		t.Errorf("the longest length: class %d", class)
	}
}

// A slot made at one level and taken down to another goes to the groups of its
// key, and matches exactly the keys that agree in the bits it has left.
func TestTagDescends(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		key := rapid.Uint64().Draw(t, "key")
		made := rapid.Uint8Range(0, levelMax).Draw(t, "made")
		level := rapid.Uint8Range(made, levelMax).Draw(t, "level")
		place := makeSlot(1023, 77, 9, slotSpill)
		s := place | fullTag(key, made)
		for l := made; l < level; l++ {
			var child int
			if child, s = s.descend(); child != int(key>>(63-l))&1 {
				t.Fatalf("level %d: child %d of %x", l, child, key)
			}
		}
		if s&^tagMask != place {
			t.Fatalf("%x became %x", place, s)
		}
		known := tagBits + made // bits of the key that group and tag know
		flipped := rapid.Uint8Range(level, 63).Draw(t, "flipped")
		other := key ^ 1<<(63-flipped)
		if !s.matches(fullTag(key, level)) || s.matches(fullTag(other, level)) != (flipped >= known) {
			t.Fatalf("made at %d, now at %d, bit %d flipped", made, level, flipped)
		}
	})
}
