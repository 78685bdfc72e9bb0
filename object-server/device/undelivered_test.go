package device

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"martlet/object-server/bundle"
	"martlet/object-server/vfs"
)

// Of a partition that was made while nothing could be noted, all is visited after a crash,
// also in its halves.
func TestUnreportedOfANewPartition(t *testing.T) {
	for _, splits := range []bool{false, true} {
		fs := vfs.NewMem("/d")
		d := open(t, fs, "/d", crashOptions(SyncFdatasync))
		d.OweRows(true)
		const count = 4*unreportedMax + 50
		for i := range count {
			name := fmt.Sprintf("/a/c/%d", i)
			must[State](t)(put(d, locate(name, modelBits), name, 10, nil))
		}
		for i := 0; splits && i < 4; i++ {
			must[int](t)(0, raiseStep(d))
		}
		left := fs.KillClone()
		must[int](t)(0, d.Close())
		d = open(t, left, "/d", crashOptions(SyncFdatasync))
		if got := visited(t, d.Unreported()); len(got) != count {
			t.Errorf("split %v: %d are visited, want %d", splits, len(got), count)
		}
		must[int](t)(0, d.Close())
	}
}

// A partition that a replicator has filled owes no rows of what it brought: no more than
// the newest is visited.
func TestUnreportedOfAnImportedPartition(t *testing.T) {
	fs := vfs.NewMem("/d", "/e")
	from, to := open(t, fs, "/d", modelOptions), open(t, fs, "/e", modelOptions)
	const count = unreportedMax + 50
	for i := range count {
		name := fmt.Sprintf("/a/c/%d", i)
		must[State](t)(put(from, locate(name, 0), name, 10, nil))
	}
	var all []RawRecord
	_, err := from.Replica(0, 0).Export(bundle.Position{}, nil, func(r RawRecord) error {
		all = append(all, RawRecord{Bytes: slices.Clone(r.Bytes)})
		return nil
	})
	must[int](t)(0, err)
	must[[]Imported](t)(to.Replica(0, 0).Import(all))
	to.OweRows(true)
	must[State](t)(put(to, locate("/a/c/last", 0), "/a/c/last", 11, nil))
	left := fs.KillClone()
	must[int](t)(0, errors.Join(from.Close(), to.Close()))
	to = open(t, left, "/e", modelOptions)
	got := visited(t, to.Unreported())
	if len(got) == 0 || len(got) > unreportedMax || !slices.Contains(got, "/a/c/last 1 11") {
		t.Errorf("%d are visited", len(got))
	}
	must[int](t)(0, to.Close())
}

// Rows that are lost may be those of all records through which rows are not delivered. Until
// they were visited, a hand-off stays.
func TestUndelivered(t *testing.T) {
	fs := vfs.NewMem("/d")
	d := open(t, fs, "/d", modelOptions)
	r := d.Replica(0, 0)
	write := func(name string, time uint64) { must[State](t)(put(d, locate(name, 0), name, time, nil)) }
	write("/a/c/0", 10)
	if got, want := visited(t, d.Undelivered(0)), []string{"/a/c/0 1 10"}; !slices.Equal(got, want) {
		t.Errorf("visited %q of a new partition, want %q", got, want)
	}
	begun := d.RowsBegun()
	must[int](t)(0, errors.Join(d.NoteRows(begun), d.NoteDelivered(begun)))
	write("/a/c/1", 11)
	must[int](t)(0, d.NoteRows(d.RowsBegun()))
	if again := d.RowsBegun(); len(again) != 1 {
		t.Errorf("%d partitions have rows that are not delivered", len(again))
	}
	must[int](t)(0, r.SetPeers(nil))

	left := fs.KillClone()
	must[int](t)(0, d.Close())
	d = open(t, left, "/d", modelOptions)
	r = d.Replica(0, 0)
	if got := visited(t, d.Unreported()); len(got) != 0 {
		t.Errorf("visited %q, though their rows are pending", got)
	}
	write("/a/c/2", 12)
	at := must[bundle.Position](t)(r.Position())
	if got := visited(t, d.Undelivered(1)); len(got) != 0 {
		t.Errorf("visited %q of another policy", got)
	}
	isLost := true
	d.AskForLostRows(func() bool { return isLost })
	u := d.Undelivered(0)
	if err := r.Drop(at); !errors.Is(err, ErrBusy) {
		t.Errorf("dropped before it was visited: %v", err)
	}
	if got, want := visited(t, u), []string{"/a/c/1 1 11", "/a/c/2 1 12"}; !slices.Equal(got, want) || !u.HasAll() {
		t.Errorf("visited %q, want %q", got, want)
	}
	isLost = false
	must[int](t)(0, r.Drop(at))
	must[int](t)(0, d.Close())
}

// Where nothing is noted, the newest records are visited.
func TestUndeliveredIsBounded(t *testing.T) {
	d := open(t, vfs.NewMem("/d"), "/d", modelOptions)
	for i := range unreportedMax + 5 {
		name := fmt.Sprintf("/a/c/%d", i)
		must[State](t)(put(d, locate(name, 0), name, 10, nil))
	}
	forgetRows(t, d)
	got := visited(t, d.Undelivered(0))
	if len(got) == 0 || len(got) > unreportedMax || slices.Contains(got, "/a/c/0 1 10") {
		t.Errorf("%d are visited", len(got))
	}
	must[int](t)(0, d.Close())
}
