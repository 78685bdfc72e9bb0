package device

import (
	"errors"
	"fmt"
	"testing"

	"martlet/object-server/bundle"
	"martlet/object-server/bundle/format"
	"martlet/object-server/bundle/sethash"
	"martlet/object-server/vfs"
)

// exported lists the names of which a partition gives records to a peer.
func exported(t *testing.T, d *Device, partition uint32) (names map[format.Hash]bool, done bundle.Exported) {
	t.Helper()
	names = map[format.Hash]bool{}
	done, err := d.Replica(0, partition).Export(bundle.Position{}, nil, func(raw RawRecord) error {
		r, err := format.ParseRecord(raw.Bytes)
		names[r.Head.Hash] = true
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names, done
}

// A tombstone whose header is damaged hides the object that it has deleted from peers, in
// an older segment or the same. All else of the partition is told and sent.
func TestADamagedTombstoneHidesWhatItDeleted(t *testing.T) {
	for _, isOnDisk := range []bool{false, true} {
		for _, between := range []int{0, 8} {
			t.Run(fmt.Sprint(isOnDisk, between), func(t *testing.T) { hiddenByATombstone(t, isOnDisk, between) })
		}
	}
}

func hiddenByATombstone(t *testing.T, isOnDisk bool, between int) {
	mem := vfs.NewMem("/d")
	o := Options{compactByHand: true, IndexOnDisk: isOnDisk}
	if between > 0 {
		o.SegmentBytes = 4 << 10
	}
	d := open(t, mem, "/d", o)
	defer d.Close()
	names := namesIn(0, 1, 12)
	deleted := locate(names[0], 1)
	must[State](t)(put(d, deleted, names[0], 1, body(0, 700)))
	for i := range between { // the object lies in a segment that is full then
		must[State](t)(put(d, locate(names[1], 1), names[1], uint64(2+i), body(1, 700)))
	}
	must[State](t)(d.Delete(deleted, at(20), names[0]))
	for _, name := range names[2:4] {
		must[State](t)(put(d, locate(name, 1), name, 30, body(2, 100)))
	}
	before := must[[]sethash.Slice](t)(slicesOf(d))
	rotHeader(t, mem, newestSegment(t, mem, 0), names[0])
	got, done := exported(t, d, 0)
	want := 3
	if between == 0 {
		want = 2
	}
	if got[deleted.Hash] || len(got) != want || done.Skipped != 1 {
		t.Errorf("%d names, of %d; %+v; what was deleted: %v", len(got), want, done, got[deleted.Hash])
	}
	if after := must[[]sethash.Slice](t)(slicesOf(d)); len(after) != 1 || after[0] != before[0] {
		t.Errorf("the digest was %+v, is %+v", before, after)
	}
	elements, _, err := d.Replica(0, 0).Elements(1, 0)
	if err != nil || len(elements) != want {
		t.Errorf("%+v, %v", elements, err)
	}
	for _, e := range elements {
		if e.Hash == deleted.Hash {
			t.Error("the deleted object is told of")
		}
	}
	if err := d.Replica(0, 0).SetSyncedThrough("n1", done.Position); !errors.Is(err, ErrQuarantined) {
		t.Errorf("what is hidden may be nowhere else: %v", err)
	}
	must[State](t)(put(d, deleted, names[0], later(), body(7, 100))) // it replaces what cannot be read: the set is made anew
	must[State](t)(put(d, locate(names[2], 1), names[2], later(), body(7, 100)))
	if got, _ := exported(t, d, 0); !got[deleted.Hash] || len(got) != want+1 {
		t.Errorf("%d names; what was written anew: %v", len(got), got[deleted.Hash])
	}
	must[[]sethash.Slice](t)(slicesOf(d))
	if err := d.Replica(0, 0).SetSyncedThrough("n2", done.Position); !errors.Is(err, ErrQuarantined) {
		t.Errorf("a digest without what is hidden proves nothing: %v", err)
	}
}

// later is a time that is later than that of any record.
func later() uint64 { return format.TicksMax / 2 }

func slicesOf(d *Device) ([]sethash.Slice, error) {
	found, _, err := d.Replica(0, 0).Slices(0, 0, 0, format.Timestamp{})
	return found, err
}
