package device

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"martlet/object-server/bundle"
	"martlet/object-server/bundle/format"
	"martlet/object-server/bundle/versions"
	"martlet/object-server/vfs"
)

// movedBack imports all versions of a device into another, with an offset.
func movedBack(from, to *Device, offset uint64) error {
	var all []RawRecord
	_, err := from.Replica(0, lockedAt.Partition).Export(bundle.Position{}, nil, func(r RawRecord) error {
		kept := RawRecord{Bytes: bytes.Clone(r.Bytes), Large: r.Large, Offset: offset}
		if r.Large != nil {
			return importAll(to, lockedAt.Partition, []RawRecord{kept})
		}
		all = append(all, kept)
		return nil
	})
	return errors.Join(err, importAll(to, lockedAt.Partition, all))
}

// versionsOf lists ids, times and signatures.
func versionsOf(t *testing.T, d *Device) string {
	t.Helper()
	text := ""
	_, err := d.Replica(0, lockedAt.Partition).ExportHeads(bundle.Position{}, nil, func(r RawRecord) error {
		h, err := format.ParseHeader(r.Bytes)
		if err == nil && h.Type.IsVersion() {
			text += fmt.Sprintf("%x %v %x; ", h.VersionID, h.Timestamp, h.Signature)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// A version was moved to another policy, which one replica has missed, and comes back.
func TestVersionsComeBackFromAnotherPolicy(t *testing.T) {
	t.Parallel()
	lock := &format.Lock{Compliance: 100, Governed: at(20)}
	for _, size := range []int{5, 3 << 20} {
		for _, id := range []uint64{0, 1} {
			for _, isLocked := range []bool{false, true} {
				t.Run(fmt.Sprint(size, id, isLocked), func(t *testing.T) {
					t.Parallel()
					comeBack(t, size, id, map[bool]*format.Lock{true: lock}[isLocked])
				})
			}
		}
	}
}

func comeBack(t *testing.T, size int, id uint64, lock *format.Lock) {
	clock := &lockClock{50}
	var all []*Device
	for range 3 { // two replicas, and one of the other policy
		d := open(t, vfs.NewMem("/d"), "/d", Options{Clock: clock.now, compactByHand: true})
		defer d.Close()
		if err := errors.Join(putLocked(d, id, 10, size, lock), putLocked(d, 2, 12, 5, nil)); err != nil {
			t.Fatal(err)
		}
		all = append(all, d)
	}
	var of format.VersionID
	if id != 0 {
		of = versionID(id)
	}
	moved := format.Timestamp{Ticks: 10, Offset: 1}
	if _, err := all[0].RemoveMoved(lockedAt, of, moved, lockedName, nil); errors.Is(err, ErrLocked) != (lock != nil) {
		t.Fatal(err)
	}
	if err := movedBack(all[2], all[0], 0); err != nil {
		t.Fatal(err)
	}
	if _, err := all[0].HeadVersion(lockedAt, of); (err == nil) != (lock != nil) {
		t.Fatalf("without a later time: %v", err)
	}
	err := errors.Join(movedBack(all[2], all[0], 2), movedBack(all[2], all[1], 2))
	for _, to := range []int{1, 0, 1} { // as replicas do it
		err = errors.Join(err, movedBack(all[1-to], all[to], 0))
	}
	if err != nil {
		t.Fatal(err)
	}
	if one, other := versionsOf(t, all[0]), versionsOf(t, all[1]); one != other {
		t.Fatalf("%s is not %s", one, other)
	}
	for _, d := range all[:2] {
		wantAgain(t, d, of, body(10, size), lock != nil)
	}
	if lock != nil {
		return
	}
	// A client's removal is later than whatever comes back.
	if err := errors.Join(removeLocked(all[0], id, 30, false), movedBack(all[2], all[0], 4)); err != nil {
		t.Fatal(err)
	}
	if _, err := all[0].HeadVersion(lockedAt, of); err == nil {
		t.Error("a removed version is back")
	}
}

// wantAgain wants a version of the time 10 that is back with the offset 2, and one more.
func wantAgain(t *testing.T, d *Device, id format.VersionID, want []byte, isLocked bool) {
	t.Helper()
	o, err := d.OpenVersion(lockedAt, id)
	if err != nil {
		t.Fatal(err)
	}
	defer o.Close()
	m, later := o.Metadata(), format.Timestamp{Ticks: 10, Offset: 2}
	if m.Timestamp != later || m.MetaTimestamp != later || (m.Lock != nil) != isLocked {
		t.Errorf("%+v", m)
	}
	var data bytes.Buffer
	if err := o.WriteRange(&data, 0, m.Size); err != nil || !bytes.Equal(data.Bytes(), want) {
		t.Errorf("other data, %v", err)
	}
	page, err := d.ListVersions(lockedAt, versions.Marker{}, 10)
	if err != nil || page.Count != 2 || len(page.Versions) != 2 {
		t.Errorf("%+v, %v", page, err)
	}
}

// A version that has got a POST meanwhile is not removed.
func TestPostedVersionsAreNotRemoved(t *testing.T) {
	d := open(t, vfs.NewMem("/d"), "/d", Options{compactByHand: true})
	defer d.Close()
	if err := errors.Join(putLocked(d, 1, 10, 5, nil), putLocked(d, 0, 11, 5, nil)); err != nil {
		t.Fatal(err)
	}
	for _, id := range []format.VersionID{versionID(1), {}} {
		err := d.PostVersion(lockedAt, id, func(m *format.Metadata) error {
			m.MetaTimestamp = at(20)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		moved := format.Timestamp{Ticks: 11, Offset: 1}
		if _, err := d.RemoveMoved(lockedAt, id, moved, lockedName, &Posted{at(11), at(11)}); !errors.Is(err, ErrPosted) {
			t.Errorf("%x: %v", id, err)
		}
		if _, err := d.RemoveMoved(lockedAt, id, moved, lockedName, &Posted{at(20), at(11)}); err != nil {
			t.Errorf("%x: %v", id, err)
		}
	}
}

// A moved version is removed where it was as soon as its lock has ended by the clock, although the removal has its time.
func TestMovedVersionsWithEndedLocks(t *testing.T) {
	for _, lock := range []*format.Lock{{Compliance: 100}, {Governance: 100, Governed: at(10)}, {Held: at(20)}} {
		for _, id := range []uint64{0, 1} {
			clock := &lockClock{50}
			d := open(t, vfs.NewMem("/d"), "/d", Options{Clock: clock.now, compactByHand: true})
			must[int](t)(0, putLocked(d, id, 10, 5, lock))
			var of format.VersionID
			if id != 0 {
				of = versionID(id)
			}
			removal := format.Timestamp{Ticks: 10, Offset: 1}
			if _, err := d.RemoveMoved(lockedAt, of, removal, lockedName, nil); errors.Is(err, ErrLocked) != lock.Protects(50, false) {
				t.Errorf("id %d, %+v, before its end: %v", id, *lock, err)
			}
			clock.ticks = 2000
			if _, err := d.RemoveMoved(lockedAt, of, removal, lockedName, nil); err != nil && !errors.As(err, new(*OlderError)) {
				t.Errorf("id %d, %+v, after its end: %v", id, *lock, err)
			}
			var none *NotFoundError
			if _, err := d.Head(lockedAt); !errors.As(err, &none) {
				t.Errorf("id %d, %+v: it is there: %v", id, *lock, err)
			}
			must[int](t)(0, d.Close())
		}
	}
}
