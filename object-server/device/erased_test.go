package device

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"martlet/object-server/bundle"
	"martlet/object-server/bundle/format"
	"martlet/object-server/vfs"
)

// lostTombstone is a device with 20 objects of a partition in several segments, and one that was
// written twice and deleted: the header of the tombstone is rotten. In each of the segments
// before are objects that count.
func lostTombstone(t *testing.T) (mem *vfs.Mem, deleted Location, names []string) {
	t.Helper()
	mem, names = vfs.NewMem("/d"), namesIn(0, 1, 22)
	d := open(t, mem, "/d", erasedOptions)
	for i, name := range names[:20] {
		if i%6 == 2 {
			must[State](t)(put(d, locate(names[20], 1), names[20], uint64(10+i), body(99, 700)))
		}
		must[State](t)(put(d, locate(name, 1), name, 10, body(uint64(i), 700)))
	}
	deleted = locate(names[20], 1)
	must[State](t)(d.Delete(deleted, at(40), names[20]))
	must[State](t)(put(d, locate(names[21], 1), names[21], 50, body(21, 100))) // it proves the tombstone
	must[int](t)(0, d.Close())
	rotHeader(t, mem, newestSegment(t, mem, 0), names[20])
	return mem, deleted, names
}

var erasedOptions = Options{SegmentBytes: 4 << 10, compactByHand: true, noFloor: true}

// wantErased checks that all but one object are there, and that one is known not to be.
func wantErased(t *testing.T, d *Device, deleted Location, names []string) {
	t.Helper()
	for i, name := range names {
		if i != 20 {
			size := 700
			if i == 21 {
				size = 100
			}
			if m := wantBody(t, d, locate(name, 1), body(uint64(i), size)); m.Doubtful {
				t.Errorf("%s is doubtful", name)
			}
		}
	}
	wantNotFound(t, d, deleted, 0)
}

// What a lost tombstone may have deleted, and no peer has, does not come back once the doubt has ended: with all
// older records of its name, also after a restart. It is proof that a peer had it, or may have reclaimed the tombstone. Without
// proof the doubt stays for some time.
func TestHealErasesWhatMayHaveBeenDeleted(t *testing.T) {
	for what, c := range map[string]struct {
		synced    uint64 // LSN that the peer has
		horizon   uint64
		isDoubted bool
		patience  time.Duration
		isErased  bool
		isHealed  bool
		isNew     bool // the other peer
	}{
		"a peer had it": {math.MaxUint64, 0, false, time.Hour, true, true, false},
		"a peer may have reclaimed the tombstone":          {0, 39, false, time.Hour, true, true, false},
		"the tombstone is later than what peers reclaim":   {0, 20, false, time.Hour, false, false, false},
		"no peer ever had it, for an hour":                 {1, 0, false, 1, true, true, false},
		"no peer ever had it, but the disk of one is new":  {1, 0, false, 1, false, true, true},
		"no peer ever had it":                              {1, 0, false, time.Hour, false, false, false},
		"a peer in doubt may have lost it":                 {1, 0, true, 1, false, true, false},
		"a peer in doubt may have lost it; one had it":     {math.MaxUint64, 0, true, 1, true, true, false},
		"a peer in doubt may have it; it may be reclaimed": {0, 39, true, time.Hour, true, true, false},
	} {
		t.Run(what, func(t *testing.T) {
			mem, deleted, names := lostTombstone(t)
			o := erasedOptions
			o.doubtPatience = c.patience
			d := open(t, mem, "/d", o)
			defer func() { _ = d.Close() }()
			r := d.Replica(0, 0)
			doubt := must[bundle.Position](t)(r.Doubt())
			if doubt.LSN == 0 {
				t.Fatal("nothing is lost")
			}
			if c.synced > 0 {
				must[int](t)(0, d.synced.set(place{0, 0}, "p1", bundle.Position{Bundle: doubt.Bundle, LSN: min(c.synced, doubt.LSN)}))
			}
			if !c.isNew {
				must[int](t)(0, d.synced.set(place{0, 0}, "p2", bundle.Position{Bundle: doubt.Bundle, LSN: 1}))
			}
			with := Compared{Peers: []ComparedPeer{{"p1", at(c.horizon)}, {"p2", format.Timestamp{}}}}
			if c.isDoubted {
				with.Doubted = []format.Hash{deleted.Hash}
			} else {
				with.Alone = []format.Hash{deleted.Hash, locate(names[21], 1).Hash} // of which the second is certain
			}
			err := r.Heal(doubt, with)
			if c.isHealed != (err == nil) || err != nil && !errors.Is(err, ErrQuarantined) {
				t.Fatal(err)
			}
			for range 2 {
				_, m, err := get(d, deleted)
				switch {
				case c.isErased:
					wantErased(t, d, deleted, names)
				case err != nil || m.Doubtful == c.isHealed:
					t.Errorf("%+v, %v", m, err)
				}
				if now := must[bundle.Position](t)(d.Replica(0, 0).Doubt()); (now.LSN == 0) != c.isHealed {
					t.Errorf("the doubt is %+v", now)
				}
				must[int](t)(0, d.Close())
				d = open(t, mem, "/d", o)
			}
		})
	}
}

// Wherever a power cut hits a Heal that erases: the deleted object is doubtful, or gone for good, and nothing else is lost. A second Heal
// ends with the same.
func TestPowerCutWhileErasing(t *testing.T) {
	mem, deleted, names := lostTombstone(t)
	dir := must[vfs.Dir](t)(mem.OpenDir("/d"))
	must[int](t)(0, errors.Join(dir.SyncFS(), dir.Close()))
	heal := func(t *testing.T, fs vfs.FS) {
		t.Helper()
		d := open(t, fs, "/d", erasedOptions)
		r := d.Replica(0, 0)
		doubt := must[bundle.Position](t)(r.Doubt())
		with := Compared{Peers: []ComparedPeer{{"p1", at(45)}}, Alone: []format.Hash{deleted.Hash}}
		must[int](t)(0, r.Heal(doubt, with))
		wantErased(t, d, deleted, names)
		must[int](t)(0, d.Close())
	}
	recording := mem.Record()
	heal(t, mem)
	rng, seen := rand.New(rand.NewPCG(7, 2)), map[uint64]bool{}
	found := map[bool]int{}
	for _, step := range recording.Steps() {
		for state := range step.State.PowerCuts(rng, 6) {
			if digest := state.Digest(); seen[digest] {
				continue
			} else {
				seen[digest] = true
			}
			d := open(t, state, "/d", erasedOptions)
			_, m, err := get(d, deleted)
			var none *NotFoundError
			isGone := errors.As(err, &none)
			doubt := must[bundle.Position](t)(d.Replica(0, 0).Doubt())
			if !isGone && !errors.Is(err, ErrQuarantined) && (err != nil || !m.Doubtful) {
				t.Fatalf("%s %s: it is served: %+v, %v", step.Op, step.Name, m, err)
			}
			if isGone != (doubt.LSN == 0) {
				t.Fatalf("%s %s: %v with the doubt %+v", step.Op, step.Name, err, doubt)
			}
			found[isGone]++
			must[int](t)(0, d.Close())
			if rng.IntN(4) == 0 || isGone {
				heal(t, state)
			}
		}
	}
	if found[true] == 0 || found[false] < 10 {
		t.Errorf("%v", found)
	}
}

// A header that rots after a doubt has begun is not given up with it: the doubt is about that
// record as well from then on, and the next Heal ends it.
func TestDamageDuringADoubt(t *testing.T) {
	mem, deleted, names := lostTombstone(t)
	d := open(t, mem, "/d", erasedOptions)
	defer func() { _ = d.Close() }()
	r := d.Replica(0, 0)
	with := Compared{Peers: []ComparedPeer{{"p1", at(45)}}, Alone: []format.Hash{deleted.Hash}}
	doubt := must[bundle.Position](t)(r.Doubt())
	rotHeader(t, mem, newestSegment(t, mem, 0), names[21])
	if err := r.Heal(doubt, with); !errors.Is(err, ErrQuarantined) {
		t.Fatal(err)
	}
	next := must[bundle.Position](t)(r.Doubt())
	if next.LSN <= doubt.LSN {
		t.Fatalf("%+v after %+v", next, doubt)
	}
	must[State](t)(put(d, locate(names[21], 1), names[21], later(), body(21, 100))) // as if it came from a peer
	must[int](t)(0, r.Heal(next, with))
	wantErased(t, d, deleted, names)
}

// While a disk does not take what Heal writes, the doubt stays.
func TestAFailedHealLeavesTheDoubt(t *testing.T) {
	mem, deleted, _ := lostTombstone(t)
	var fails atomic.Bool
	d := open(t, vfs.NewFaults(mem, func(op, _ string) error {
		if op == "link" && fails.Load() {
			return syscall.ENOSPC
		}
		return nil
	}), "/d", erasedOptions)
	defer func() { _ = d.Close() }()
	r := d.Replica(0, 0)
	doubt := must[bundle.Position](t)(r.Doubt())
	with := Compared{Peers: []ComparedPeer{{"p1", at(45)}}, Alone: []format.Hash{deleted.Hash}}
	fails.Store(true)
	if err := r.Heal(doubt, with); err == nil {
		t.Fatal("nothing failed")
	}
	fails.Store(false)
	if now := must[bundle.Position](t)(r.Doubt()); now.LSN == 0 {
		t.Error("the doubt has ended")
	}
	must[int](t)(0, r.Heal(must[bundle.Position](t)(r.Doubt()), with))
	wantNotFound(t, d, deleted, 0)
}

// The header of the newest record of a name with versions is damaged, in a segment that grows or has a
// footer. What the peer has comes back, each version of it.
func TestADamagedHeadOfVersions(t *testing.T) {
	for _, isSealed := range []bool{false, true} {
		for what, last := range map[string]versionChange{
			"a version": {"put", 4, 60}, "a marker": {"marker", 4, 60}, "the removal of the newest": {"remove", 3, 60}, "the removal of an older one": {"remove", 2, 60},
		} {
			t.Run(fmt.Sprint(what, isSealed), func(t *testing.T) { damagedHead(t, isSealed, last) })
		}
	}
}

func damagedHead(t *testing.T, isSealed bool, last versionChange) {
	mem, name, other := vfs.NewMem("/d"), namesIn(0, modelBits, 2)[0], namesIn(0, modelBits, 2)[1]
	d, peer := open(t, mem, "/d", Options{compactByHand: true}), open(t, vfs.NewMem("/d"), "/d", Options{compactByHand: true})
	defer func() { _ = errors.Join(d.Close(), peer.Close()) }()
	for _, to := range []*Device{d, peer} {
		for n := uint64(1); n <= 3; n++ {
			must[int](t)(0, doVersion(to, name, versionChange{"put", n, 50 + n}))
		}
		must[int](t)(0, doVersion(to, name, last))
		must[State](t)(put(to, locate(other, modelBits), other, 1, body(1, 300)))
	}
	b := d.bundles.all()[0]
	if isSealed {
		must[int](t)(0, errors.Join(b.Close(), b.Seal()))
	}
	segment := newestSegment(t, mem, 0)
	f := must[vfs.File](t)(mem.Open(segment))
	p := make([]byte, files(t, mem)[segment])
	must[int](t)(f.ReadAt(p, 0))
	must[int](t)(0, f.Close())
	hash, offset := locate(name, modelBits).Hash, int64(0)
	for at, n := 0, 0; n < 4; at++ { // the fourth record of the name
		next := bytes.Index(p[at:], hash[:])
		at += next
		offset = int64(at)
		n++
	}
	damage(t, mem, segment, offset, 1, func(p []byte) { p[0] ^= 1 })
	must[[]bundle.Damage](t)(d.Examine(0, 0, plain))
	r := d.Replica(0, 0)
	must[int](t)(0, r.Mend(true))
	doubt := must[bundle.Position](t)(r.Doubt())
	if doubt.LSN == 0 {
		t.Fatal("nothing is lost")
	}
	sendAll(t, peer, d)
	must[int](t)(0, r.Heal(doubt, Compared{Peers: []ComparedPeer{{Name: "p1"}}}))
	sendAll(t, peer, d)
	for range 2 {
		mine, _, err := d.Replica(0, 0).Digest(0, 0, format.Timestamp{})
		theirs, _, failed := peer.Replica(0, 0).Digest(0, 0, format.Timestamp{})
		if mine != theirs || err != nil || failed != nil {
			t.Errorf("%+v of %+v, %v, %v", mine, theirs, err, failed)
		}
		for n := uint64(1); n <= 4; n++ {
			_, err := d.HeadVersion(locate(name, modelBits), versionID(n))
			_, want := peer.HeadVersion(locate(name, modelBits), versionID(n))
			if (err == nil) != (want == nil) { // that one was never there may not be known
				t.Errorf("version %d: %v, at the peer %v", n, err, want)
			}
		}
		_, err = d.Head(locate(name, modelBits))
		_, want := peer.Head(locate(name, modelBits))
		if (err == nil) != (want == nil) || errors.Is(err, ErrQuarantined) {
			t.Errorf("%v, at the peer %v", err, want)
		}
		must[int](t)(0, d.Close())
		d = open(t, mem, "/d", Options{compactByHand: true})
	}
}
