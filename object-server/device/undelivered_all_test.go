package device

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"martlet/object-server/bundle"
	"martlet/object-server/bundle/format"
	"martlet/object-server/vfs"
)

// importedPartition has a partition that a replicator has made, and then count writes of clients.
func importedPartition(t *testing.T, count int) *Device {
	t.Helper()
	fs := vfs.NewMem("/d", "/e")
	from, to := open(t, fs, "/d", modelOptions), open(t, fs, "/e", modelOptions)
	must[State](t)(put(from, locate("/a/c/old", 0), "/a/c/old", 10, nil))
	var all []RawRecord
	_, err := from.Replica(0, 0).Export(bundle.Position{}, nil, func(r RawRecord) error {
		all = append(all, RawRecord{Bytes: slices.Clone(r.Bytes)})
		return nil
	})
	must[int](t)(0, errors.Join(err, from.Close()))
	must[[]Imported](t)(to.Replica(0, 0).Import(all))
	for i := range count {
		name := fmt.Sprintf("/a/c/%d", i)
		must[State](t)(put(to, locate(name, 0), name, 11, nil))
	}
	return to
}

// In a partition that a replicator has made, all that clients have written is visited.
func TestUndeliveredOfAnImportedPartition(t *testing.T) {
	for _, isNoted := range []bool{false, true} {
		const count = unreportedMax + 50
		d := importedPartition(t, count)
		if isNoted { // as every ten seconds while a container server is down
			must[int](t)(0, d.NoteRows(d.RowsBegun()))
		}
		if got := visited(t, d.Undelivered(0)); len(got) < count {
			t.Errorf("noted %v: %d are visited of %d", isNoted, len(got), count)
		}
		must[int](t)(0, d.Close())
	}
}

// A partition that is split while it is visited leaves halves, which are visited: then nothing is missing.
func TestASplitDuringAVisitMissesNothing(t *testing.T) {
	d := open(t, vfs.NewMem("/d"), "/d", crashOptions(SyncFdatasync))
	const count = 40
	for i := range count {
		name := fmt.Sprintf("/a/c/%d", i)
		must[State](t)(put(d, locate(name, modelBits), name, 10, nil))
	}
	u := d.Undelivered(0)
	seen, isSplit := map[string]bool{}, false
	must[int](t)(0, u.Visit(t.Context(), func(_ Location, _ *format.Record, m *format.Metadata) error {
		seen[m.Name] = true
		if !isSplit {
			isSplit = true
			if err := raiseStep(d); err != nil {
				return err
			}
			return finishRaise(d)
		}
		return nil
	}))
	u.End()
	if len(seen) != count || !u.HasAll() {
		t.Errorf("%d of %d are visited, all %v", len(seen), count, u.HasAll())
	}
	must[int](t)(0, d.Close())
}
