package device

import (
	"errors"
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
