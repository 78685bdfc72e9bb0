package device

import (
	"errors"
	"io"
	"testing"

	"martlet/object-server/bundle"
	"martlet/object-server/vfs"
)

// A visitor of an export may take as long as it wants: what would wait for all that use
// the partition, or the device, goes on meanwhile, and ends the export.
func TestExportHoldsUpNothing(t *testing.T) {
	for what, c := range map[string]struct {
		meanwhile func(d *Device) error
		want      error
	}{
		"a write": {func(d *Device) error {
			name := namesIn(0, modelBits, 5)[4]
			_, err := put(d, locate(name, modelBits), name, 20, nil)
			return err
		}, nil},
		"dropped": {func(d *Device) error {
			position, err := d.Replica(0, 0).Position()
			return errors.Join(err, d.Replica(0, 0).Drop(position))
		}, ErrChanged},
		"split": {func(d *Device) error {
			for range 6 {
				if err := raiseStep(d); err != nil {
					return err
				}
			}
			return nil
		}, ErrChanged},
		"closed": {(*Device).Close, ErrClosed},
	} {
		d := open(t, vfs.NewMem("/d"), "/d", crashOptions(SyncFdatasync))
		defer d.Close()
		names := namesIn(0, modelBits, 4)
		for _, name := range names {
			must[State](t)(put(d, locate(name, modelBits), name, 10, body(1, 300)))
		}
		visited := 0
		_, err := d.Replica(0, 0).Export(bundle.Position{}, nil, func(RawRecord) error {
			if visited++; visited == 1 {
				return c.meanwhile(d)
			}
			return nil
		})
		if !errors.Is(err, c.want) || visited == 0 || c.want == nil && visited < len(names) {
			t.Errorf("%s: %v after %d records", what, err, visited)
		}
	}
}

// allRecords exports a partition.
func allRecords(t *testing.T, r Replica) (records map[string]bool, done bundle.Exported) {
	t.Helper()
	records = map[string]bool{}
	done = must[bundle.Exported](t)(r.Export(bundle.Position{}, nil, func(x RawRecord) error {
		records[string(x.Bytes)] = true
		return nil
	}))
	return records, done
}

// dropAsItIs removes a partition, whatever the device writes to it meanwhile by itself.
func dropAsItIs(t *testing.T, r Replica) {
	t.Helper()
	for {
		if err := r.Drop(must[bundle.Position](t)(r.Position())); !errors.Is(err, ErrChanged) {
			must[int](t)(0, err)
			return
		}
	}
}

// A process beside reads what Locate names: the records of an export, byte by byte. What is compacted, dropped or damaged
// meanwhile is left out and noted, whatever lies in its place.
func TestReadOutside(t *testing.T) {
	for what, c := range map[string]struct {
		meanwhile func(t *testing.T, d *Device)
		movesAll  bool
	}{
		"nothing":   {func(*testing.T, *Device) {}, false},
		"compacted": {func(t *testing.T, d *Device) { must[int](t)(0, d.Compact()) }, false},
		"dropped": {func(t *testing.T, d *Device) {
			for partition := range uint32(1 << modelBits) {
				r := d.Replica(0, partition)
				dropAsItIs(t, r)
			}
		}, true},
		"wiped and written again": {func(t *testing.T, d *Device) {
			for partition := range uint32(1 << modelBits) {
				r := d.Replica(0, partition)
				dropAsItIs(t, r)
			}
			for _, name := range namesIn(0, modelBits, 40) {
				must[State](t)(put(d, locate(name, modelBits), name, 30, body(9, 2000)))
			}
		}, true},
	} {
		fs := vfs.NewMem("/d")
		o := crashOptions(SyncFdatasync)
		o.compactByHand = true // when the test says so
		d := open(t, fs, "/d", o)
		names := namesIn(0, modelBits, 40)
		for i, name := range names {
			must[State](t)(put(d, locate(name, modelBits), name, 10, body(1, 2000+i*100)))
			if i%2 == 0 { // garbage for compaction
				must[State](t)(put(d, locate(name, modelBits), name, 20, body(2, 2000+i*100)))
			}
		}
		r := d.Replica(0, 0)
		want, exported := allRecords(t, r)
		all, done, err := r.Locate(bundle.Position{}, nil)
		for err == nil && done != exported { // the caretaker writes footers meanwhile
			want, exported = allRecords(t, r)
			all, done, err = r.Locate(bundle.Position{}, nil)
		}
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		c.meanwhile(t, d)
		files := bundle.Files{Root: "/d"}
		outside := bundle.ReadOutside(fs, files.Directory(bundle.ID{}), all)
		read := 0
		for {
			p, _, err := outside.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil || !want[string(p)] {
				t.Fatalf("%s: a record that was not exported, or %v", what, err)
			}
			read++
		}
		outside.Close()
		if len(want) < len(names) || read+len(outside.Moved) != len(want) || (read == 0) != c.movesAll {
			t.Errorf("%s: %d of %d records, %d moved", what, read, len(want), len(outside.Moved))
		}
		t.Logf("%s: %d read, %d moved", what, read, len(outside.Moved))
		must[int](t)(0, d.Close())
	}
}
