package device

import (
	"errors"
	"testing"

	"martlet/object-server/bundle"
	"martlet/object-server/bundle/format"
	"martlet/object-server/vfs"
)

// trio is three devices that have the same partition, and clocks of their own: all that
// is written is old enough to be reclaimed at once.
type trio struct {
	testing.TB
	devices map[string]*Device
	ticks   uint64
}

func newTrio(t testing.TB) *trio {
	o := crashOptions(SyncFdatasync)
	o.ReclaimAge, o.compactByHand = 1, true
	s := &trio{TB: t, devices: map[string]*Device{}, ticks: 10}
	for _, name := range []string{"a", "b", "c"} {
		d := open(t, vfs.NewMem("/d"), "/d", o)
		t.Cleanup(func() { _ = d.Close() })
		s.devices[name] = d
	}
	return s
}

// sync sends what a device has, and notes that the other has it.
func (s *trio) sync(from, to string) {
	s.Helper()
	r := s.devices[from].Replica(0, 0)
	since := must[bundle.Position](s)(r.SyncedThrough(to))
	position := must[bundle.Position](s)(send(s.devices[from], s.devices[to], 0, since, keepOrder))
	must[int](s)(0, r.SetSyncedThrough(to, position))
}

func (s *trio) delete(on, name string) {
	s.Helper()
	s.ticks++
	must[State](s)(s.devices[on].Delete(locate(name, 0), at(s.ticks), name))
}

// reclaim compacts the segments of a device, and lets tombstones go that both others have.
func (s *trio) reclaim(on string) (reclaimed uint64) {
	s.Helper()
	var peers []string
	for other := range s.devices {
		if other != on {
			peers = append(peers, other)
		}
	}
	return s.compact(on, func(r Replica) error { return r.SetPeers(peers) })
}

// compact compacts the segments of a device after what is said of peers.
func (s *trio) compact(on string, say func(Replica) error) (reclaimed uint64) {
	s.Helper()
	d, name := s.devices[on], "/a/c/filler"+on
	for range 60 {
		s.ticks++
		must[State](s)(put(d, locate(name, 0), name, s.ticks, body(s.ticks, 1500)))
	}
	must[int](s)(0, errors.Join(say(d.Replica(0, 0)), d.Compact()))
	return d.counters.tombstonesReclaimed.Load()
}

// While it is not known which peers there are, no tombstone goes. What was known of peers stays.
func TestNoTombstoneGoesWhilePeersAreUnknown(t *testing.T) {
	s := newTrio(t)
	r := s.devices["b"].Replica(0, 0)
	must[int](t)(0, r.SetPeers([]string{"a", "c"}))
	s.delete("b", "/a/c/old")
	s.sync("b", "a")
	s.sync("b", "c")
	if n := s.compact("b", Replica.UnsetPeers); n != 0 {
		t.Errorf("%d tombstones are gone", n)
	}
	if s.reclaim("b") == 0 {
		t.Error("no tombstone goes although all peers have it")
	}
}

// A replica that has reclaimed other tombstones takes an old one all the same: it is
// said to have it, so the object that it deletes must find it there (I8).
func TestOldTombstoneOfAnUnknownName(t *testing.T) {
	s := newTrio(t)
	name := "/a/c/away"
	must[State](t)(put(s.devices["c"], locate(name, 0), name, 5, body(1, 100)))
	s.delete("b", "/a/c/old")
	s.sync("b", "a")
	s.sync("b", "c")
	if s.reclaim("b") == 0 || must[format.Timestamp](t)(s.devices["b"].Replica(0, 0).Horizon()).IsZero() {
		t.Fatal("b has reclaimed nothing")
	}
	s.delete("a", name)
	s.sync("a", "b")
	s.sync("c", "b") // which has not heard of the delete
	s.sync("a", "c")
	if s.reclaim("a") == 0 {
		t.Fatal("a has reclaimed nothing")
	}
	s.sync("b", "a")
	for _, d := range s.devices {
		var none *NotFoundError
		if _, err := d.Head(locate(name, 0)); !errors.As(err, &none) {
			t.Errorf("what was deleted: %v", err)
		}
	}
}
