package device

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"martlet/object-server/bundle"
	"martlet/object-server/bundle/format"
	"martlet/object-server/device/partpower"
	"martlet/object-server/proof"
	"martlet/object-server/vfs"
)

// powersMax is how far the tests raise the part power of a model.
const powersMax = 6

// raiseStep takes the next step of raising the part power: an operator's, or that
// of splitting one partition.
func raiseStep(d *Device) (err error) {
	p, ok := d.splitter.power(0)
	switch {
	case !ok:
		err = d.PrepareIncrease(0, modelBits)
	case p.Splitting:
		_, err = d.Split(0, true)
	case p.Next != 0:
		err = d.RaisePartPower(0, p.Next)
	case p.Power < powersMax:
		err = d.PrepareIncrease(0, p.Power)
	}
	if errors.Is(err, ErrPartPower) { // another caller was faster
		return nil
	}
	return err
}

// finishRaise brings what was begun to an end.
func finishRaise(d *Device) error {
	for {
		p, _ := d.splitter.power(0)
		if p.Next == 0 {
			return nil
		}
		if err := raiseStep(d); err != nil {
			return fmt.Errorf("%s: %w", p, err)
		}
	}
}

// raised opens a device and raises its part power to the end, so often.
func raised(t *testing.T, fs vfs.FS, root string, o Options, times int) *Device {
	t.Helper()
	o.splitByHand = true
	d := open(t, fs, root, o)
	for range times {
		for isDone := false; !isDone; {
			if err := raiseStep(d); err != nil {
				t.Fatal(err)
			}
			p, _ := d.splitter.power(0)
			isDone = p.Next == 0
		}
	}
	return d
}

// A partition with damage can be split: what was readable still is, and what was
// not is in quarantine as before, not forgotten.
func TestDamagedPartitionsAreSplit(t *testing.T) {
	t.Parallel()
	mem := vfs.NewMem("/d")
	m := smallDevice(t, mem, "/d")
	quarantined := 0
	for name, size := range files(t, mem) {
		for offset := int64(5); offset < size; offset += 61 {
			fs := mem.KillClone()
			damage(t, fs, name, offset, 1, func(p []byte) { p[0] ^= 4 })
			quarantined += splitDamaged(t, fs, m, fmt.Sprintf("%s offset %d", name, offset))
		}
	}
	if quarantined < 20 {
		t.Errorf("%d names in quarantine", quarantined)
	}
}

func splitDamaged(t *testing.T, fs *vfs.Mem, m *model, where string) (quarantined int) {
	t.Helper()
	o := rotOptions
	o.splitByHand = true
	d := open(t, fs.KillClone(), "/d", o)
	before := map[string]error{}
	shown := map[string]version{}
	for _, name := range modelNames {
		shown[name], before[name] = observe(d, name)
	}
	_ = d.Close()
	split := raised(t, fs, "/d", o, 2)
	for range 2 {
		for _, name := range modelNames {
			v, err := observe(split, name)
			switch {
			case errors.Is(err, ErrQuarantined) && errors.Is(before[name], ErrQuarantined):
				quarantined++
			case err != nil || before[name] == nil && v != shown[name] || before[name] != nil && v != m.acked[name]:
				t.Fatalf("%s: %s shows %+v, %v; before %+v, %v", where, name, v, err, shown[name], before[name])
			}
		}
		if err := split.Close(); err != nil {
			t.Fatal(where, err)
		}
		split = open(t, fs, "/d", o)
	}
	if err := split.Close(); err != nil {
		t.Fatal(where, err)
	}
	return quarantined
}

// A partition may be split that is in use and was not written to yet, even where
// the policy has no directory.
func TestUnwrittenPartitionIsSplit(t *testing.T) {
	d := open(t, vfs.NewMem("/d"), "/d", Options{splitByHand: true})
	defer d.Close()
	if err := d.PrepareIncrease(0, modelBits); err != nil {
		t.Fatal(err)
	}
	loc := locate(modelNames[0], modelBits)
	must[*bundle.Bundle](t)(d.bundle(d.bundleOf(loc)))
	if err := d.RaisePartPower(0, modelBits+1); err != nil {
		t.Fatal(err)
	}
	if isDone, err := d.Split(0, false); err != nil || !isDone {
		t.Fatal(isDone, err)
	}
	must[State](t)(put(d, loc, modelNames[0], 1, modelBody(modelNames[0], 1)))
	wantBody(t, d, loc, modelBody(modelNames[0], 1))
}

// A partition of which a crash left no record is split like any other, and a crash in
// the middle leaves nothing in the place of a partition of the higher power.
func TestEmptyPartitionIsSplit(t *testing.T) {
	mem := vfs.NewMem("/d")
	d := open(t, mem, "/d", Options{splitByHand: true})
	name := modelNames[slices.IndexFunc(modelNames, func(n string) bool { return locate(n, modelBits).Partition == 1 })]
	must[State](t)(put(d, locate(name, modelBits), name, 1, modelBody(name, 1)))
	mem = mem.KillClone() // no clean stop, so that the record may be one that a crash has torn
	f := must[vfs.File](t)(mem.Open("/d/bundles/1/00000001-0000.bundle"))
	if err := errors.Join(f.Writev([][]byte{make([]byte, 64)}, format.SegmentHeaderSize), f.Datasync(), f.Close()); err != nil {
		t.Fatal(err)
	}
	d = open(t, mem, "/d", Options{splitByHand: true})
	if b := must[*bundle.Bundle](t)(d.bundle(d.bundleOf(locate(name, modelBits)))); b.Named() > 0 {
		t.Fatalf("%d records", b.Named())
	}
	if err := errors.Join(d.PrepareIncrease(0, modelBits), d.RaisePartPower(0, modelBits+1)); err != nil {
		t.Fatal(err)
	}
	recording := mem.Record()
	if err := finishRaise(d); err != nil {
		t.Fatal(err)
	}
	for i, step := range recording.Steps() {
		crashed := open(t, step.State.KillClone(), "/d", Options{splitByHand: true, Logger: quiet})
		if err := finishRaise(crashed); err != nil {
			t.Fatalf("after %d steps, %s %s: %v", i, step.Op, step.Name, err)
		}
		for n, name := range modelNames {
			if _, err := put(crashed, locate(name, modelBits+1), name, uint64(n+2), modelBody(name, 2)); err != nil {
				t.Fatalf("after %d steps, %s %s: %s: %v", i, step.Op, step.Name, name, err)
			}
		}
		if err := crashed.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// The room that both halves of a partition share comes back as it would have
// without the split.
func TestSharedRoomComesBack(t *testing.T) {
	const objects, size = 240, 4096
	mem := vfs.NewMem("/d")
	d := open(t, mem, "/d", compactOptions)
	name := func(n int) string { return fmt.Sprint("/a/c/", n) }
	for n := range objects {
		must[State](t)(put(d, locate(name(n), modelBits), name(n), 1, body(1, size)))
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	o := compactOptions
	o.compactByHand = true
	d = raised(t, mem, "/d", o, 1)
	defer d.Close()
	if use := used(t, d); use > objects*size*12/10 {
		t.Fatalf("%d bytes after the split of %d", use, objects*size)
	}
	if err := d.Compact(); err != nil || d.Stats().BytesCompacted > 0 {
		t.Fatalf("compacted without garbage: %+v, %v", d.Stats(), err)
	}
	peak := int64(0)
	for n := range objects { // half of each segment's names, of both partitions
		if n%2 == 0 {
			must[State](t)(put(d, locate(name(n), modelBits), name(n), 2, body(2, size)))
		} else {
			must[State](t)(d.Delete(locate(name(n), modelBits), at(2), name(n)))
		}
		if n%10 == 0 {
			if err := d.Compact(); err != nil {
				t.Fatal(err)
			}
		}
		peak = max(peak, used(t, d))
	}
	if err := d.Compact(); err != nil {
		t.Fatal(err)
	}
	if use := used(t, d); use > objects*size*3/4 || peak > objects*size*22/10 {
		t.Errorf("%d bytes, at most %d, for %d", use, peak, objects*size/2)
	}
	for n := range objects {
		if n%2 == 0 {
			wantBody(t, d, locate(name(n), modelBits), body(2, size))
		} else {
			wantNotFound(t, d, locate(name(n), modelBits), 2)
		}
	}
}

// Room that is dead in one half alone comes back, too: the other lets go of what
// they share.
func TestSharedRoomOfOneHalfComesBack(t *testing.T) {
	const objects, size = 240, 4096
	mem := vfs.NewMem("/d")
	name := func(n int) string { return fmt.Sprint("/a/c/", n) }
	d := open(t, mem, "/d", compactOptions)
	for n := range objects {
		must[State](t)(put(d, locate(name(n), modelBits), name(n), 1, body(1, size)))
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	o := compactOptions
	o.compactByHand = true
	d = raised(t, mem, "/d", o, 1)
	defer d.Close()
	isOdd := func(n int) bool { return locate(name(n), modelBits+1).Partition%2 == 1 }
	for n := range objects {
		if isOdd(n) {
			must[State](t)(d.Delete(locate(name(n), modelBits), at(2), name(n)))
		}
	}
	if err := d.Compact(); err != nil {
		t.Fatal(err)
	}
	if use := used(t, d); use > objects*size*3/4 {
		t.Errorf("%d bytes are used for %d", use, objects*size/2)
	}
	for n := range objects {
		if !isOdd(n) {
			wantBody(t, d, locate(name(n), modelBits), body(1, size))
		}
	}
}

// A full device whose partitions are split comes back to free space as others do,
// though the halves share their files.
func TestFullDeviceIsSplit(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		what       string
		size, bits int
		o          Options
	}{
		{"small", 4096, 2, Options{}},
		{"many partitions", 8000, 6, Options{}},
		{"index on disk", 4096, 2, Options{IndexOnDisk: true}},
	} {
		t.Run(c.what, func(t *testing.T) {
			if raceDetector && c.bits > 2 {
				t.Skip("takes long")
			}
			f := &filling{t: t, size: c.size, bits: c.bits}
			root := proof.Tmpfs(t, 32<<20)
			f.device = open(t, vfs.OS{}, root, c.o)
			defer func() { f.device.Close() }()
			f.fill()
			raise(t, f.device, uint8(c.bits))
			f.wantStored()
			f.erase(f.stored, len(f.stored)/8)
			f.wantFree(0.14)
			if err := f.device.Compact(); err != nil { // the compactor would come to it by itself
				t.Fatal(err)
			}
			f.wantFree(0.5)
			f.wantStored()
		})
	}
}

// raise raises the part power of a device by one.
func raise(t *testing.T, d *Device, power uint8) {
	t.Helper()
	if err := errors.Join(d.PrepareIncrease(0, power), d.RaisePartPower(0, power+1)); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(patience); d.Progress()[0].Power == power; time.Sleep(time.Millisecond) {
		if p := d.Progress()[0]; time.Now().After(deadline) || p.Error != "" {
			t.Fatalf("%s, %d split, %d left, %s", p, p.Split, p.Left, p.Error)
		}
	}
}

// What does not go with the ring is refused, and can be repeated or taken back.
func TestPartPowerSteps(t *testing.T) {
	mem := vfs.NewMem("/d")
	d := open(t, mem, "/d", Options{splitByHand: true})
	names := []string{"/a/c/0", "/a/c/1", "/a/c/2", "/a/c/3", "/a/c/4", "/a/c/5", "/a/c/6", "/a/c/7"}
	for _, name := range names {
		must[State](t)(put(d, locate(name, 4), name, 1, []byte(name)))
	}
	step := func(what string, err error, isRefused bool) {
		t.Helper()
		if errors.Is(err, ErrPartPower) != isRefused || !isRefused && err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		for _, name := range names {
			for bits := 3; bits <= 6; bits++ { // of any ring, once the device knows
				if _, isMarked := d.splitter.power(0); isMarked || bits == 4 {
					wantBody(t, d, locate(name, bits), []byte(name))
				}
			}
		}
	}
	step("a ring of another power", d.PrepareIncrease(0, 3), true)
	step("a ring of another power is raised", d.RaisePartPower(0, 7), true)
	step("prepare", d.PrepareIncrease(0, 4), false)
	step("prepare again", d.PrepareIncrease(0, 4), false)
	step("prepare the next before this one", d.PrepareIncrease(0, 5), true)
	step("cancel", d.RaisePartPower(0, 4), false)
	step("cancel again", d.RaisePartPower(0, 4), false)
	step("raise by two", d.RaisePartPower(0, 6), true)
	step("prepare after cancel", d.PrepareIncrease(0, 4), false)
	step("raise", d.RaisePartPower(0, 5), false)
	_, err := d.Split(0, true)
	step("one partition", err, false)
	step("cancel too late", d.RaisePartPower(0, 4), true)
	step("raise again", d.RaisePartPower(0, 5), false)
	d = reopened(t, d, mem)
	_, err = d.Split(0, false)
	step("the rest", err, false)
	step("raise when done", d.RaisePartPower(0, 5), false)
	for _, n := range must[[]uint32](t)(d.Partitions(0)) {
		if n != 0 && !slices.ContainsFunc(names, func(name string) bool { return locate(name, 5).Partition == n }) {
			t.Errorf("partition %d is left", n)
		}
	}
	if p := d.Progress()[0]; p.State != (partpower.State{Power: 5, First: 4}) {
		t.Fatalf("%+v", p)
	}
	d = reopened(t, d, mem)
	step("the next raise without prepare", d.RaisePartPower(0, 6), false) // no step would help otherwise: the ring cannot go back
	_, err = d.Split(0, false)
	step("the end", err, false)
	if p := d.Progress()[0]; p.State != (partpower.State{Power: 6, First: 4}) {
		t.Fatalf("%+v", p)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
}

func reopened(t *testing.T, d *Device, mem *vfs.Mem) *Device {
	t.Helper()
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	return open(t, mem, "/d", Options{splitByHand: true})
}

// A ring that was raised before the device heard of it does no harm: what it
// holds tells which power it is of.
func TestRaiseWithoutPrepare(t *testing.T) {
	for bits, want := range map[int]uint8{4: 5, 5: 5} {
		d := open(t, vfs.NewMem("/d"), "/d", Options{splitByHand: true})
		for n := range 40 {
			name := fmt.Sprint("/a/c/", n)
			must[State](t)(put(d, locate(name, bits), name, 1, []byte(name)))
		}
		if err := d.RaisePartPower(0, 5); err != nil {
			t.Fatal(err)
		}
		if _, err := d.Split(0, false); err != nil {
			t.Fatal(err)
		}
		if p := d.Progress()[0]; p.Power != want || p.Next != 0 {
			t.Errorf("%+v", p)
		}
		for n := range 40 {
			name := fmt.Sprint("/a/c/", n)
			wantBody(t, d, locate(name, 5), []byte(name))
		}
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// The file of the part power may lose either half, not both. What nothing is
// known of is not removed.
func TestPartPowerFile(t *testing.T) {
	mem := vfs.NewMem("/d")
	d := open(t, mem, "/d", Options{splitByHand: true})
	name := "/a/c/heron"
	must[State](t)(put(d, locate(name, 4), name, 1, []byte(name)))
	must[bool](t)(false, errors.Join(d.PrepareIncrease(0, 4), d.RaisePartPower(0, 5)))
	must[bool](t)(d.Split(0, true))
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	path := partpower.Path("/d", 0)
	for half := range int64(2) {
		fs := mem.KillClone()
		damage(t, fs, path, half*4096+5, 1, func(p []byte) { p[0] ^= 1 })
		d := open(t, fs, "/d", Options{splitByHand: true})
		wantBody(t, d, locate(name, 4), []byte(name))
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
		damage(t, fs, path, (1-half)*4096+5, 1, func(p []byte) { p[0] ^= 1 }) // it was written anew
		d = open(t, fs, "/d", Options{splitByHand: true})
		wantBody(t, d, locate(name, 4), []byte(name))
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
		for half := range int64(2) {
			damage(t, fs, path, half*4096+5, 1, func(p []byte) { p[0] ^= 1 })
		}
		if _, err := Open(fs, "/d", Options{Logger: quiet}); !errors.Is(err, partpower.ErrDamaged) {
			t.Fatal(err)
		}
	}
	p, _, _ := partpower.Read(mem, "/d", 0)
	stray := fmt.Sprintf("/d/bundles/%d", p.From)
	if p.From == 0 {
		t.Fatalf("%+v", p)
	}
	if err := errors.Join(mem.Mkdir(stray), mem.Mkdir(stray+"/large")); err != nil {
		t.Fatal(err)
	}
	must[vfs.File](t)(mem.Create(stray + "/large/0123456789abcdef.data"))
	_ = mem.Remove(fmt.Sprintf("/d/bundles/%d/00000001-0000.bundle", 2*p.From))
	_ = mem.Remove(fmt.Sprintf("/d/bundles/%d/00000001-0000.bundle", 2*p.From+1))
	if d, err := Open(mem, "/d", Options{Logger: quiet, splitByHand: true}); err != nil {
		t.Fatal(err)
	} else if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := mem.Open(stray + "/large/0123456789abcdef.data"); err != nil {
		t.Error(err)
	}
}

// A device that was not prepared learns of a raised part power by the first
// request of that power: its objects are still found, and new names do not get
// among others, so that it can be split.
func TestRaisedWithoutRelink(t *testing.T) {
	const objects, power = 200, 4
	name := func(n int) string { return fmt.Sprint("/a/c/", n) }
	for _, isPutFirst := range []bool{false, true} {
		mem := vfs.NewMem("/d")
		d := open(t, mem, "/d", Options{splitByHand: true})
		d.RingPower(0, power)
		for n := range objects {
			must[State](t)(put(d, locate(name(n), power), name(n), 1, body(uint64(n), 100)))
		}
		check := func(when string, from, to int) {
			for n := from; n < to; n++ {
				for bits := power; bits <= power+1; bits++ {
					if got, _, err := get(d, locate(name(n), bits)); err != nil || !bytes.Equal(got, body(uint64(n), 100)) {
						t.Fatalf("put first: %v, %s, requests of power %d: object %d: %v", isPutFirst, when, bits, n, err)
					}
				}
			}
		}
		if !isPutFirst {
			check("before new names", 0, objects)
		}
		for n := objects; n < 2*objects; n++ {
			must[State](t)(put(d, locate(name(n), power+1), name(n), 1, body(uint64(n), 100)))
		}
		check("with new names", 0, 2*objects)
		if err := d.RaisePartPower(0, power+1); err != nil {
			t.Fatal(err)
		}
		if isDone, err := d.Split(0, false); err != nil || !isDone {
			t.Fatalf("split: %v, %v", isDone, err)
		}
		check("after the split", 0, 2*objects)
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
