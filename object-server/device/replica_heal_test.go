package device

import (
	"bytes"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"martlet/object-server/bundle"
	"martlet/object-server/bundle/format"
	"martlet/object-server/bundle/inspect"
	"martlet/object-server/vfs"
)

// healthyPeer has all that oneLost had.
func healthyPeer(t *testing.T) *Device {
	d := open(t, vfs.NewMem("/d"), "/d", Options{SpillBytes: 2000})
	t.Cleanup(func() { _ = d.Close() })
	for i := range 101 {
		l, name := numbered(i)
		size := 300
		if i == 0 {
			size = 5000
		}
		must[State](t)(put(d, l, name, 10, body(uint64(i), size)))
		if i == 1 {
			must[State](t)(d.Delete(l, at(11), name))
		}
	}
	return d
}

func keepOrder(all []RawRecord) []RawRecord { return all }

// Once all that a peer has was imported, and Heal says so, each name is served without
// doubt, and that a name is not there is known, after a restart as well.
func TestHeal(t *testing.T) {
	mem, _ := oneLost(t)
	d := open(t, mem, "/d", Options{SpillBytes: 2000})
	r := d.Replica(0, 7)
	doubt := must[bundle.Position](t)(r.Doubt())
	if doubt.LSN == 0 {
		t.Fatal("nothing is lost")
	}
	if _, err := send(healthyPeer(t), d, 7, bundle.Position{}, keepOrder); err != nil {
		t.Fatal(err)
	}
	absent, _ := numbered(200)
	if _, err := d.Head(absent); !errors.Is(err, ErrQuarantined) {
		t.Errorf("before it is healed: %v", err)
	}
	if err := r.Heal(bundle.Position{Bundle: doubt.Bundle, LSN: doubt.LSN - 1}, Compared{}); !errors.Is(err, ErrChanged) {
		t.Errorf("another doubt: %v", err)
	}
	must[int](t)(0, r.Heal(doubt, Compared{}))
	for range 2 {
		for i := range 101 {
			l, _ := numbered(i)
			size := 300
			if i == 0 {
				size = 5000
			}
			if i == 1 {
				wantNotFound(t, d, l, 11)
			} else if m := wantBody(t, d, l, body(uint64(i), size)); m.Doubtful {
				t.Errorf("%d is doubtful", i)
			}
		}
		wantNotFound(t, d, absent, 0)
		if damages, _ := d.Damages(); len(damages) > 0 {
			t.Errorf("%+v", damages)
		}
		r = d.Replica(0, 7)
		if now := must[bundle.Position](t)(r.Doubt()); now.LSN != 0 || now.Bundle != doubt.Bundle {
			t.Errorf("the doubt is %+v", now)
		}
		must[int](t)(0, r.SetSyncedThrough("n1", must[bundle.Position](t)(r.Position())))
		must[int](t)(0, r.Heal(doubt, Compared{})) // of what is healed
		must[int](t)(0, d.Close())
		d = open(t, mem, "/d", Options{SpillBytes: 2000})
	}
	must[int](t)(0, d.Close())
}

// What was damaged since, or has a name and was not imported, is not given up.
func TestHealGivesUpNothingElse(t *testing.T) {
	for what, rot := range map[string]func(mem *vfs.Mem, d *Device, name string){
		"data":   func(mem *vfs.Mem, d *Device, name string) { rotIn(t, mem, d, name, 300) },
		"header": func(mem *vfs.Mem, d *Device, name string) { rotIn(t, mem, d, name, -1) },
	} {
		mem, _ := oneLost(t)
		d := open(t, mem, "/d", Options{SpillBytes: 2000})
		r := d.Replica(0, 7)
		doubt := must[bundle.Position](t)(r.Doubt())
		peer := healthyPeer(t)
		if _, err := send(peer, d, 7, bundle.Position{}, keepOrder); err != nil {
			t.Fatal(err)
		}
		loc, name := numbered(50)
		rot(mem, d, name)
		if err := r.Heal(doubt, Compared{}); !errors.Is(err, ErrQuarantined) {
			t.Errorf("%s: %v", what, err)
		}
		if _, err := d.Head(Location{Partition: 7, Hash: format.Hash{1}}); !errors.Is(err, ErrQuarantined) {
			t.Errorf("%s: the doubt has ended: %v", what, err)
		}
		if what == "data" { // which a later write replaces
			must[State](t)(put(d, loc, name, 20, body(7, 300)))
			must[int](t)(0, r.Heal(doubt, Compared{}))
			wantBody(t, d, loc, body(7, 300))
		}
		must[int](t)(0, d.Close())
	}
}

// rotIn flips a byte of the record of a name: so far behind its header, or in it.
func rotIn(t *testing.T, fs vfs.FS, d *Device, name string, behind int64) {
	t.Helper()
	for file := range files(t, fs) {
		if !strings.HasSuffix(file, ".bundle") {
			continue
		}
		scan := must[*inspect.Scan](t)(inspect.OpenScan(fs, file, false))
		for {
			e, err := scan.Next()
			if err != nil {
				break
			}
			if e.Record != nil && e.Record.Type() != format.TypeSpill && strings.Contains(string(e.Record.EncodedMetadata), name+"\xa1") {
				damage(t, fs, file, e.Offset+format.HeaderSize+behind, 1, func(p []byte) { p[0] ^= 1 })
			}
		}
		must[int](t)(0, scan.Close())
	}
}

// A replica in which records were lost agrees with its peer once what that has was
// imported, and it was healed. Where the name of a lost record is known, it is repaired.
func TestHealedReplicasAgree(t *testing.T) {
	t.Parallel()
	seen := map[string]int{} // how often depends on the batches that the writes fall into, too
	for seed := uint64(0); seed < 60 || seed < 1000 && (seen["healed"] < 20 || seen["refused"] == 0); seed++ {
		rng := rand.New(rand.NewPCG(seed, 3))
		s := &replicas{sent: map[[3]int]bundle.Position{}}
		for range 2 {
			m := &machine{fs: vfs.NewMem("/d"), model: newModel()}
			must[int](t)(0, m.startReplica(rng))
			s.machines = append(s.machines, m)
		}
		err := s.writePlain(rng)
		if err == nil {
			err = s.loseAndHeal(t, rng, seen)
		}
		if err == nil {
			err = s.check()
		}
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
	if seen["healed"] < 20 || seen["refused"] == 0 {
		t.Errorf("%v", seen)
	}
}

// writePlain writes names without versions on both machines, which end with the same.
func (s *replicas) writePlain(rng *rand.Rand) error {
	for range 20 + rng.IntN(80) {
		d := s.machines[rng.IntN(2)].device
		c := change{[]string{"put", "put", "put", "delete", "post"}[rng.IntN(5)], modelNames[rng.IntN(len(modelNames))], 1 + rng.Uint64N(60)}
		err := newModel().do(d, c)
		var older *OlderError
		var missing *NotFoundError
		if err != nil && !errors.As(err, &older) && !errors.As(err, &missing) {
			return err
		}
		if rng.IntN(20) == 0 {
			if err := d.Compact(); err != nil {
				return err
			}
		}
	}
	return s.settle(rng)
}

// loseAndHeal makes headers of the second machine rot, imports all from the first, and
// heals what is in doubt.
func (s *replicas) loseAndHeal(t *testing.T, rng *rand.Rand, seen map[string]int) error {
	m := s.machines[1]
	if err := m.device.Close(); err != nil {
		return err
	}
	for range 1 + rng.IntN(3) {
		loseRecord(t, rng, m.fs)
	}
	if err := m.startReplica(rng); err != nil {
		return err
	}
	for partition := range uint32(1 << modelBits) {
		r := m.device.Replica(0, partition)
		doubt := must[bundle.Position](t)(r.Doubt())
		_, imported := send(s.machines[0].device, m.device, partition, bundle.Position{}, keepOrder)
		err := r.Heal(doubt, Compared{})
		switch {
		case errors.Is(err, ErrQuarantined):
			seen["refused"]++
		case err != nil:
			return err
		case doubt.LSN > 0:
			seen["healed"]++
		}
		if err == nil && imported == nil {
			continue
		}
		if imported != nil && !errors.Is(imported, ErrUnknown) {
			return imported
		}
		if _, err := m.device.Repair(0, partition, true); err != nil {
			return err
		}
		if _, err := send(s.machines[0].device, m.device, partition, bundle.Position{}, keepOrder); err != nil {
			return err
		}
	}
	return nil // nothing is sent the other way: what is lost here must not be missing there
}

// loseRecord clears the header of a record in a segment.
func loseRecord(t *testing.T, rng *rand.Rand, fs vfs.FS) {
	var segments []string
	for name := range files(t, fs) {
		if strings.HasSuffix(name, ".bundle") {
			segments = append(segments, name)
		}
	}
	slices.Sort(segments)
	name := segments[rng.IntN(len(segments))]
	scan := must[*inspect.Scan](t)(inspect.OpenScan(fs, name, false))
	defer scan.Close()
	var offsets []int64
	for {
		e, err := scan.Next()
		if err != nil {
			break
		}
		if e.Record != nil {
			offsets = append(offsets, e.Offset)
		}
	}
	if len(offsets) > 0 {
		damage(t, fs, name, offsets[rng.IntN(len(offsets))], 64, func(p []byte) { clear(p) })
	}
}

// Wherever a crash hits a Heal, nothing is said to be absent that is there.
func TestCrashWhileHealing(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 2))
	seen := map[bool]int{}
	for range 40 {
		mem, _ := oneLost(t)
		var left atomic.Int64
		left.Store(math.MaxInt64)
		d := open(t, vfs.NewFaults(mem, func(op, _ string) error {
			if op != "read" && left.Add(-1) < 0 {
				return syscall.EIO
			}
			return nil
		}), "/d", Options{SpillBytes: 2000})
		r := d.Replica(0, 7)
		doubt := must[bundle.Position](t)(r.Doubt())
		if _, err := send(healthyPeer(t), d, 7, bundle.Position{}, keepOrder); err != nil {
			t.Fatal(err)
		}
		left.Store(rng.Int64N(30))
		_ = r.Heal(doubt, Compared{})
		after := mem.CrashClone(rng)
		_ = d.Close()
		d = open(t, after, "/d", Options{SpillBytes: 2000})
		for i := range 101 {
			l, _ := numbered(i)
			var none *NotFoundError
			if _, err := d.Head(l); i != 1 && err != nil || i == 1 && !errors.As(err, &none) && !errors.Is(err, ErrQuarantined) {
				t.Fatalf("%d: %v", i, err)
			}
		}
		absent, _ := numbered(200)
		var none *NotFoundError
		_, err := d.Head(absent)
		isHealed := errors.As(err, &none)
		if now := must[bundle.Position](t)(d.Replica(0, 7).Doubt()); (now.LSN == 0) != isHealed || !isHealed && !errors.Is(err, ErrQuarantined) {
			t.Fatalf("%+v, %v", now, err)
		}
		seen[isHealed]++
		must[int](t)(0, d.Close())
	}
	if seen[true] == 0 || seen[false] == 0 {
		t.Errorf("%v", seen)
	}
}

// An old tombstone of a name that may be lost is stored: a sector that is read again
// brings back no object that a peer has deleted, and is said to have deleted here.
func TestImportOfATombstoneInDoubt(t *testing.T) {
	o := crashOptions(SyncFdatasync)
	o.ReclaimAge, o.compactByHand = 1, true
	fs := vfs.NewMem("/d")
	d := open(t, fs, "/d", o)
	old, other := locate("/a/c/old", 0), locate("/a/c/other", 0)
	must[State](t)(put(d, old, "/a/c/old", 10, nil))
	must[State](t)(d.Delete(old, at(11), "/a/c/old"))
	for i := range uint64(60) { // the horizon is later than all times here once the tombstone is reclaimed
		must[State](t)(put(d, other, "/a/c/other", 20+i, body(i, 1500)))
	}
	must[int](t)(0, errors.Join(d.Replica(0, 0).SetPeers(nil), d.Compact()))
	if must[format.Timestamp](t)(d.Replica(0, 0).Horizon()).IsZero() {
		t.Fatal("no tombstone was reclaimed")
	}
	lost, last := locate("/a/c/lost", 0), locate("/a/c/last", 0)
	must[State](t)(put(d, lost, "/a/c/lost", 200, body(1, 300)))
	must[State](t)(put(d, last, "/a/c/last", 200, body(2, 300)))
	newest := newestSegment(t, fs, 0)
	fs = fs.KillClone()
	must[int](t)(0, d.Close())
	rot := func() {
		data := make([]byte, files(t, fs)[newest])
		f := must[vfs.File](t)(fs.Open(newest))
		must[int](t)(f.ReadAt(data, 0))
		must[int](t)(0, f.Close())
		at := bytes.LastIndex(data, lost.Hash[1:]) // in the header
		damage(t, fs, newest, int64(at)-1, 1, func(p []byte) { p[0] ^= 1 })
	}
	rot()
	d = open(t, fs, "/d", o)
	if must[bundle.Position](t)(d.Replica(0, 0).Doubt()).LSN == 0 {
		t.Fatal("nothing is lost")
	}
	peer := open(t, vfs.NewMem("/d"), "/d", o)
	must[State](t)(peer.Delete(lost, at(300), "/a/c/lost"))
	must[bundle.Position](t)(send(peer, d, 0, bundle.Position{}, keepOrder))
	must[int](t)(0, errors.Join(peer.Close(), d.Close()))
	rot() // as it was
	d = open(t, fs, "/d", o)
	wantNotFound(t, d, lost, 300)
	wantBody(t, d, last, body(2, 300))
	must[int](t)(0, d.Close())
}
