package device

import (
	"errors"
	"fmt"
	"testing"

	"martlet/object-server/bundle"
	"martlet/object-server/bundle/inspect"
	"martlet/object-server/vfs"
)

// rotBody flips a byte of the data of an object, so that its name is known.
func rotBody(t *testing.T, fs vfs.FS, d *Device, name string, bits int) {
	t.Helper()
	segment := newestSegment(t, fs, locate(name, bits).Partition)
	scan, err := inspect.OpenScan(fs, segment, true)
	if err != nil {
		t.Fatal(err)
	}
	defer scan.Close()
	for {
		e, err := scan.Next()
		if err != nil {
			t.Fatal(name, err)
		}
		if e.Record != nil && e.Record.Hash() == locate(name, bits).Hash {
			damage(t, fs, segment, e.Offset+e.Length-200, 1, func(p []byte) { p[0] ^= 1 })
			return
		}
	}
}

func wantDamages(t *testing.T, d *Device, want ...string) []Damage {
	t.Helper()
	all, more := d.Damages()
	var got []string
	for _, x := range all {
		for _, l := range x.Lost {
			got = append(got, l.Name)
		}
	}
	if len(all) != len(want) || more != 0 || fmt.Sprint(got) != fmt.Sprint(want) {
		t.Fatalf("%d damages and %d more, names %q; want %q", len(all), more, got, want)
	}
	return all
}

// A damage is listed once, however often it is met; it outlives a restart
// and a kill, and goes when the name is written anew or the partition is repaired.
func TestDamagesAreListed(t *testing.T) {
	mem := vfs.NewMem("/d")
	d := open(t, mem, "/d", Options{compactByHand: true})
	names := namesIn(0, 1, 4)
	for i, name := range names {
		must[State](t)(put(d, locate(name, 1), name, 1, body(uint64(i), 3000)))
	}
	wantDamages(t, d)
	for _, name := range names[:2] {
		rotBody(t, mem, d, name, 1)
		for range 3 {
			if _, _, err := get(d, locate(name, 1)); !errors.Is(err, ErrQuarantined) {
				t.Fatal(err)
			}
		}
	}
	all := wantDamages(t, d, names[:2]...)
	if x := all[0]; x.Partition != 0 || x.Segment == "" || x.FirstLSN != 1 || x.Lost[0].Hash != locate(names[0], 1).Hash || x.Cause == "" || x.First.IsZero() {
		t.Errorf("%+v", x)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	d = open(t, mem, "/d", Options{compactByHand: true})
	if again := wantDamages(t, d, names[:2]...); !again[0].First.Equal(all[0].First) {
		t.Error("first seen has changed: ", again[0].First)
	}
	for _, name := range names[:2] {
		if _, _, err := get(d, locate(name, 1)); !errors.Is(err, ErrQuarantined) {
			t.Fatal(err)
		}
	}
	wantDamages(t, d, names[:2]...)
	must[State](t)(put(d, locate(names[0], 1), names[0], 2, body(7, 3000)))
	wantDamages(t, d, names[1])
	d.damages.stop() // all is written then
	if told := must[[]Damage](t)(ReadDamages(mem.KillClone(), "/d")); len(told) != 1 || told[0].Lost[0].Name != names[1] {
		t.Errorf("%+v", told)
	}
	d.damages.start(d)
	done, err := d.Repair(0, 0, true)
	if err != nil || !done.Done {
		t.Fatal(done, err)
	}
	wantDamages(t, d)
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if told := must[[]Damage](t)(ReadDamages(mem, "/d")); len(told) > 0 {
		t.Errorf("%+v", told)
	}
}

// A record whose header is lost is listed when its partition is opened.
func TestLostExtentsAreListed(t *testing.T) {
	mem, names := stopped(t, Options{compactByHand: true})
	rotHeader(t, mem, newestSegment(t, mem, 3), names[3])
	for range 2 {
		d := open(t, mem, "/d", Options{compactByHand: true})
		_, _, _ = get(d, locate(names[0], 3))
		all, _ := d.Damages()
		if len(all) != 1 || all[0].FirstLSN != 4 || all[0].LastLSN != 4 || all[0].Partition != 3 || all[0].Offset == 0 {
			t.Errorf("%+v", all)
		}
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// Damaged lines are left out, and the file is written anew when it grows too long.
func TestDamagesFile(t *testing.T) {
	t.Parallel()
	mem := vfs.NewMem("/d")
	d := open(t, mem, "/d", Options{})
	found := bundle.Damage{Segment: "00000001-0000.bundle", Cause: string(body(1, 100))}
	for i := range 2 * damagesMax {
		found.FirstLSN, found.LastLSN = uint64(i+1), uint64(i+1)
		d.damages.note(bundle.ID{Partition: 5}, found, false)
	}
	if all, more := d.Damages(); len(all) != damagesMax || more != damagesMax {
		t.Errorf("%d, %d", len(all), more)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if told := must[[]Damage](t)(ReadDamages(mem, "/d")); len(told) != damagesMax {
		t.Errorf("%d", len(told))
	}
	size := files(t, mem)["/d/damages"]
	damage(t, mem, "/d/damages", 20, 1, func(p []byte) { p[0] ^= 1 })
	truncate(t, mem, "/d/damages", size-3)
	if told := must[[]Damage](t)(ReadDamages(mem, "/d")); len(told) != damagesMax-2 {
		t.Errorf("%d", len(told))
	}
	d = open(t, mem, "/d", Options{})
	for range 5 {
		d.damages.repaired(bundle.ID{Partition: 5})
		for i := range damagesMax {
			found.FirstLSN, found.LastLSN = uint64(i+1), uint64(i+1)
			d.damages.note(bundle.ID{Partition: 5}, found, false)
		}
		d.damages.stop()
		d.damages.start(d)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if size := files(t, mem)["/d/damages"]; size > 3*damagesBytesMax {
		t.Errorf("%d bytes", size)
	}
	if told := must[[]Damage](t)(ReadDamages(mem, "/d")); len(told) != damagesMax {
		t.Errorf("%d", len(told))
	}
}

// A disk on which the list cannot be written serves on, and is not asked again.
func TestDamagesOnAnIllDisk(t *testing.T) {
	mem := vfs.NewMem("/d")
	writes := 0
	d := open(t, vfs.NewFaults(mem, func(op, name string) error {
		if name == "/d/"+DamagesFile && op != "open" {
			writes++
			return vfs.ErrNoSpace
		}
		return nil
	}), "/d", Options{compactByHand: true})
	names := namesIn(0, 1, 4)
	for i, name := range names {
		must[State](t)(put(d, locate(name, 1), name, 1, body(uint64(i), 3000)))
		rotBody(t, mem, d, name, 1)
		if _, _, err := get(d, locate(name, 1)); !errors.Is(err, ErrQuarantined) {
			t.Fatal(err)
		}
	}
	wantDamages(t, d, names...)
	if err := d.Close(); err != nil || d.Err() != nil || writes != 1 {
		t.Error(err, d.Err(), writes)
	}
}
