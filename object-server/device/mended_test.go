package device

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"martlet/object-server/bundle"
	"martlet/object-server/vfs"
)

// gated holds up reads until it is opened, and tells of the first one.
type gated struct {
	met, open chan struct{}
	once      sync.Once
}

func newGated() *gated { return &gated{met: make(chan struct{}), open: make(chan struct{})} }

func (g *gated) over(fs vfs.FS) vfs.FS {
	return vfs.NewFaults(fs, func(op, _ string) error {
		if op == "read" {
			g.once.Do(func() { close(g.met) })
			<-g.open
		}
		return nil
	})
}

// While a partition is examined, which may take hours, the device has all its operations for
// others, and can be closed.
func TestExamineHoldsNothing(t *testing.T) {
	d := open(t, vfs.NewMem("/d"), "/d", Options{OperationsMax: 1})
	name := namesIn(0, 1, 1)[0]
	must[State](t)(put(d, locate(name, 1), name, 1, body(1, 300)))
	g := newGated()
	var found []bundle.Damage
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		found, err = d.Examine(0, 0, g.over)
	}()
	<-g.met
	wantBody(t, d, locate(name, 1), body(1, 300))
	must[int](t)(0, d.Close())
	close(g.open)
	<-done
	if len(found) > 0 || err != nil && !errors.Is(err, ErrClosed) {
		t.Errorf("%+v, %v", found, err)
	}
}

// What Mend and Heal take out of use is removed from quarantine by age; what an operator's repair
// took stays.
func TestMendedFilesExpire(t *testing.T) {
	mem, d, peer, names := filled(t, SyncAuto)
	rotHeader(t, mem, newestSegment(t, mem, 0), names[3])
	if done, err := d.Repair(0, 0, true); err != nil || !done.Done {
		t.Fatalf("%+v, %v", done, err)
	}
	rotHeader(t, mem, newestSegment(t, mem, 0), names[5])
	must[[]bundle.Damage](t)(d.Examine(0, 0, plain))
	r := d.Replica(0, 0)
	must[int](t)(0, r.Mend(true))
	sendAll(t, peer, d)
	must[int](t)(0, r.Heal(must[bundle.Position](t)(r.Doubt()), Compared{}))
	inQuarantine := func() (all []string) {
		for _, name := range tree(t, mem, "/d") {
			if strings.HasPrefix(name, "/d/quarantined/") && strings.HasSuffix(name, ".bundle") {
				all = append(all, name)
			}
		}
		return all
	}
	before := inQuarantine()
	isMended := func(name string) bool { return strings.Contains(name, bundle.MendedSuffix+"/") }
	if !slices.ContainsFunc(before, isMended) || len(before) < 2 {
		t.Fatal(before)
	}
	d.janitor.tidy(time.Now().Add(quarantineAgeDefault - time.Hour))
	if now := inQuarantine(); !slices.Equal(now, before) {
		t.Errorf("%v of %v are left too early", now, before)
	}
	d.janitor.tidy(time.Now().Add(quarantineAgeDefault + time.Hour))
	if now, want := inQuarantine(), slices.DeleteFunc(slices.Clone(before), isMended); !slices.Equal(now, want) {
		t.Errorf("%v are left, want %v", now, want)
	}
}

// A device without room for the segments that are written anew stays as it is.
func TestMendAsksForRoom(t *testing.T) {
	mem, d, peer, names := filled(t, SyncAuto)
	rotHeader(t, mem, newestSegment(t, mem, 0), names[5])
	must[[]bundle.Damage](t)(d.Examine(0, 0, plain))
	r := d.Replica(0, 0)
	must[int](t)(0, r.Mend(true))
	sendAll(t, peer, d)
	doubt := must[bundle.Position](t)(r.Doubt())
	reserve := func(bytes int64) {
		d.room.mu.Lock()
		defer d.room.mu.Unlock()
		d.room.bytes, d.room.checked = bytes, time.Time{}
	}
	reserve(1 << 61)
	if err := r.Heal(doubt, Compared{}); !errors.Is(err, ErrNoSpace) {
		t.Errorf("without room: %v", err)
	}
	if now := must[bundle.Position](t)(r.Doubt()); now != doubt {
		t.Errorf("the doubt was %+v, is %+v", doubt, now)
	}
	reserve(0)
	must[int](t)(0, r.Heal(doubt, Compared{}))
	wantWhole(t, mem, d, names)
}

// A partition whose damage must stay is not read at each attempt to mend it. It is once that may
// have changed: peers have given what counts, or may be asked for what is lost.
func TestMendReadsNothingInVain(t *testing.T) {
	var reads atomic.Int64
	mem, o := vfs.NewMem("/d"), Options{compactByHand: true}
	d := open(t, vfs.NewFaults(mem, func(op, name string) error {
		if op == "read" && strings.HasSuffix(name, ".bundle") {
			reads.Add(1)
		}
		return nil
	}), "/d", o)
	peer := open(t, vfs.NewMem("/d"), "/d", o)
	defer func() { _ = errors.Join(d.Close(), peer.Close()) }()
	names := namesIn(0, 1, 12)
	for _, to := range []*Device{d, peer} {
		for i, name := range names {
			must[State](t)(put(to, locate(name, 1), name, 1, body(uint64(i), 30_000)))
		}
	}
	r := d.Replica(0, 0)
	isRefused := func() int64 {
		t.Helper()
		before := reads.Load()
		if err := r.Mend(false); !errors.Is(err, ErrQuarantined) {
			t.Fatal(err)
		}
		return reads.Load() - before
	}
	rotBytes(t, mem, body(4, 30_000))
	must[[]bundle.Damage](t)(d.Examine(0, 0, plain))
	if first, again := isRefused(), isRefused(); first < 2 || again > 1 { // the head of the record
		t.Errorf("%d reads, then %d", first, again)
	}
	before := reads.Load()
	if err := r.Mend(true); !errors.Is(err, ErrQuarantined) || reads.Load()-before > 1 { // peers cannot be asked for more than it
		t.Errorf("%d reads, %v", reads.Load()-before, err)
	}
	sendAll(t, peer, d)
	must[int](t)(0, r.Mend(false))
	for _, to := range []*Device{d, peer} {
		for _, i := range []int{7, 8} {
			must[State](t)(put(to, locate(names[i], 1), names[i], 2, body(uint64(i), 30_000)))
		}
	}
	rotHeader(t, mem, newestSegment(t, mem, 0), names[7])
	must[[]bundle.Damage](t)(d.Examine(0, 0, plain))
	if first, again := isRefused(), isRefused(); first < 2 || again > 0 {
		t.Errorf("%d reads, then %d", first, again)
	}
	d.damages.wasRead(bundle.ID{}, time.Now().Add(-mendPause))
	if later := isRefused(); later < 2 {
		t.Errorf("%d reads when the disk may have changed", later)
	}
	must[int](t)(0, r.Mend(true))
	sendAll(t, peer, d)
	must[int](t)(0, r.Heal(must[bundle.Position](t)(r.Doubt()), Compared{}))
	for i, name := range names {
		wantBody(t, d, locate(name, 1), body(uint64(i), 30_000))
	}
}

// A doubt that must stay, because a damaged record counts that no peer has given, is no reason to read the partition at each
// attempt to end it.
func TestHealReadsNothingInVain(t *testing.T) {
	mem, first := oneLost(t)
	must[int](t)(0, first.Close())
	var reads atomic.Int64
	d := open(t, vfs.NewFaults(mem, func(op, name string) error {
		if op == "read" && strings.HasSuffix(name, ".bundle") {
			reads.Add(1)
		}
		return nil
	}), "/d", Options{SpillBytes: 2000})
	defer func() { _ = d.Close() }()
	r := d.Replica(0, 7)
	doubt := must[bundle.Position](t)(r.Doubt())
	if _, err := send(healthyPeer(t), d, 7, bundle.Position{}, keepOrder); err != nil {
		t.Fatal(err)
	}
	loc, name := numbered(50)
	rotIn(t, mem, d, name, 300)
	heal := func() (int64, error) {
		before := reads.Load()
		err := r.Heal(doubt, Compared{})
		return reads.Load() - before, err
	}
	first1, err1 := heal()
	again, err2 := heal()
	if !errors.Is(err1, ErrQuarantined) || !errors.Is(err2, ErrQuarantined) || again > 1 || first1 < 2 {
		t.Errorf("%d reads, %v; then %d, %v", first1, err1, again, err2)
	}
	must[State](t)(put(d, loc, name, 20, body(7, 300)))
	if _, err := heal(); err != nil {
		t.Error(err)
	}
}
