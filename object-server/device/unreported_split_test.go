package device

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"martlet/object-server/bundle"
	"martlet/object-server/bundle/format"
	"martlet/object-server/vfs"
)

// A partition that is split before it was visited leaves its records to its halves.
func TestUnreportedThroughASplit(t *testing.T) {
	fs := vfs.NewMem("/d")
	d := open(t, fs, "/d", crashOptions(SyncFdatasync))
	var want []string
	for _, name := range modelNames {
		must[State](t)(put(d, locate(name, modelBits), name, 10, nil))
		want = append(want, fmt.Sprintf("%s 1 10", name))
	}
	slices.Sort(want)
	left := fs.KillClone()
	must[int](t)(0, d.Close())
	d = open(t, left, "/d", crashOptions(SyncFdatasync))
	u := d.Unreported()
	for range 4 {
		must[int](t)(0, raiseStep(d))
	}
	if got := visited(t, u); !slices.Equal(got, want) {
		t.Errorf("visited %q, want %q", got, want)
	}
	must[int](t)(0, d.Close())
}

// The halves of a partition have the position of NoteRows that it had.
func TestNotedRowsThroughASplit(t *testing.T) {
	for _, before := range []bool{true, false} {
		fs := vfs.NewMem("/d")
		d := open(t, fs, "/d", crashOptions(SyncFdatasync))
		write := func(name string) { must[State](t)(put(d, locate(name, modelBits), name, 10, nil)) }
		for _, name := range modelNames { // of all partitions
			write(name)
		}
		must[int](t)(0, d.NoteRows(d.RowsBegun()))
		d.OweRows(true)
		count := 4 * unreportedMax
		for i := range count {
			write(fmt.Sprintf("/a/c/%d", i))
		}
		split := func() {
			for range 4 {
				must[int](t)(0, raiseStep(d))
			}
		}
		if before {
			split()
		}
		left := fs.KillClone()
		must[int](t)(0, d.Close())
		d = open(t, left, "/d", crashOptions(SyncFdatasync))
		u := d.Unreported()
		if !before {
			split()
		}
		if got := visited(t, u); len(got) != count || slices.Contains(got, modelNames[0]+" 1 10") {
			t.Errorf("split before the crash %v: %d are visited, want %d", before, len(got), count)
		}
		must[int](t)(0, d.Close())
	}
}

// A hand-off stays while containers may not know its records: they could not be visited.
func TestDropWhileRowsAreOwed(t *testing.T) {
	fs := vfs.NewMem("/d")
	d := open(t, fs, "/d", modelOptions)
	r := d.Replica(0, 0)
	must[State](t)(put(d, locate("/a/c/0", 0), "/a/c/0", 10, nil))
	at := must[bundle.Position](t)(r.Position())
	d.OweRows(true)
	if err := r.Drop(at); !errors.Is(err, ErrBusy) {
		t.Errorf("dropped while rows are in memory alone: %v", err)
	}
	left := fs.KillClone()
	must[int](t)(0, d.Close())
	d = open(t, left, "/d", modelOptions)
	u, r := d.Unreported(), d.Replica(0, 0)
	if err := r.Drop(at); !errors.Is(err, ErrBusy) {
		t.Errorf("dropped before it was visited: %v", err)
	}
	if got, want := visited(t, u), []string{"/a/c/0 1 10"}; !slices.Equal(got, want) {
		t.Errorf("visited %q, want %q", got, want)
	}
	must[int](t)(0, r.Drop(must[bundle.Position](t)(r.Position())))
	must[int](t)(0, d.Close())
}

// A partition that is split while others are visited leaves its records to its halves.
func TestUnreportedDuringASplit(t *testing.T) {
	fs := vfs.NewMem("/d")
	d := open(t, fs, "/d", crashOptions(SyncFdatasync))
	names := map[string]bool{}
	for i := range 20 { // of both partitions
		name := fmt.Sprintf("/a/c/%d", i)
		must[State](t)(put(d, locate(name, modelBits), name, 10, nil))
		names[name] = true
	}
	left := fs.KillClone()
	must[int](t)(0, d.Close())
	d = open(t, left, "/d", crashOptions(SyncFdatasync))
	u, isFirst := d.Unreported(), true
	must[int](t)(0, u.Visit(t.Context(), func(_ Location, _ *format.Record, m *format.Metadata) error {
		if isFirst {
			isFirst = false
			for range 3 { // the last partition is split first
				must[int](t)(0, raiseStep(d))
			}
		}
		delete(names, m.Name)
		return nil
	}))
	if len(names) > 0 {
		t.Errorf("not visited: %v", names)
	}
	must[int](t)(0, d.Close())
}

// A partition that could not be visited because the device was busy is visited later.
func TestUnreportedOfABusyDevice(t *testing.T) {
	fs := vfs.NewMem("/d")
	options := crashOptions(SyncFdatasync)
	options.OperationsMax, options.busyAfter = 4, time.Millisecond
	d := open(t, fs, "/d", options)
	for partition := range uint32(2) {
		must[State](t)(put(d, Location{0, partition, locate("/a/c/o", 0).Hash}, "/a/c/o", 10, nil))
	}
	left := fs.KillClone()
	must[int](t)(0, d.Close())
	d = open(t, left, "/d", options)
	u, places, visits := d.Unreported(), d.operations.places, 0
	must[int](t)(0, u.Visit(t.Context(), func(Location, *format.Record, *format.Metadata) error {
		if visits++; visits == 1 {
			for len(places) < cap(places) {
				places <- struct{}{}
			}
			go func() { places <- struct{}{} }() // that of this visit, as soon as it ends
			time.Sleep(10 * time.Millisecond)
			time.AfterFunc(100*time.Millisecond, func() {
				for range cap(places) {
					<-places
				}
			})
		}
		return nil
	}))
	u.End()
	if visits != 2 || d.unreported.Load() {
		t.Errorf("%d are visited, want 2; some is not: %v", visits, d.unreported.Load())
	}
	must[int](t)(0, d.Close())
}
