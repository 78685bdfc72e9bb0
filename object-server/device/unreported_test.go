package device

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"martlet/object-server/bundle"
	"martlet/object-server/bundle/format"
	"martlet/object-server/vfs"
)

// visited are the names that Unreported visits, with their times.
func visited(t *testing.T, u *Unreported) (names []string) {
	t.Helper()
	err := u.Visit(t.Context(), func(_ Location, r *format.Record, m *format.Metadata) error {
		names = append(names, fmt.Sprintf("%s %d %d", m.Name, r.Type(), m.Timestamp.Ticks))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	u.End()
	slices.Sort(names)
	return names
}

// forgetRows makes a partition one of which an older process has noted nothing.
func forgetRows(t *testing.T, d *Device, peers ...string) {
	t.Helper()
	must[int](t)(0, d.synced.keep(place{0, 0}, peers))
}

// A process that was killed leaves its last writes, until a later one has visited them.
func TestUnreported(t *testing.T) {
	fs := vfs.NewMem("/d")
	d := open(t, fs, "/d", modelOptions)
	for i, name := range []string{"/a/c/0", "/a/c/1", "/a/c/2"} {
		must[State](t)(put(d, locate(name, 1), name, uint64(10+i), body(1, 100)))
	}
	must[State](t)(d.Hide(locate("/a/c/1", 1), at(20), "/a/c/1"))
	want := []string{"/a/c/0 1 10", "/a/c/1 4 20", "/a/c/2 1 12"}
	left := fs.KillClone()
	must[int](t)(0, d.Close())

	d = open(t, left, "/d", modelOptions) // it stops before it has visited anything
	if d.Unreported() == nil {
		t.Fatal("a kill looks like a clean stop")
	}
	must[int](t)(0, d.Close())

	d = open(t, left, "/d", modelOptions)
	u := d.Unreported()
	stop := errors.New("stop")
	if err := u.Visit(t.Context(), func(Location, *format.Record, *format.Metadata) error { return stop }); !errors.Is(err, stop) {
		t.Error(err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := u.Visit(ended, nil); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	must[int](t)(0, d.Close())

	d = open(t, left, "/d", modelOptions) // it stops before the rows are durable
	must[int](t)(0, d.Unreported().Visit(t.Context(), func(Location, *format.Record, *format.Metadata) error { return nil }))
	must[int](t)(0, d.Close())

	d = open(t, left, "/d", modelOptions)
	u = d.Unreported()
	if got := visited(t, u); !slices.Equal(got, want) {
		t.Errorf("visited %q, want %q", got, want)
	}
	must[State](t)(put(d, locate("/a/c/3", 1), "/a/c/3", 30, nil))
	if got := visited(t, u); !slices.Equal(got, want) {
		t.Errorf("visited %q, want %q: its own writes are reported by their requests", got, want)
	}
	must[int](t)(0, d.Close())
	d = open(t, left, "/d", modelOptions)
	if d.Unreported() != nil {
		t.Error("a clean stop looks like a kill")
	}
	must[int](t)(0, d.Close())
}

// What all known peers had when the device was opened is not visited, whatever they get
// afterwards.
func TestUnreportedAndPeers(t *testing.T) {
	fs := vfs.NewMem("/d")
	d := open(t, fs, "/d", modelOptions)
	r := d.Replica(0, 0)
	var positions []bundle.Position
	for i, name := range []string{"/a/c/0", "/a/c/1", "/a/c/2"} {
		must[State](t)(put(d, locate(name, 0), name, uint64(10+i), nil))
		positions = append(positions, must[bundle.Position](t)(r.Position()))
	}
	must[int](t)(0, errors.Join(r.SetSyncedThrough("n1", positions[0]), r.SetSyncedThrough("n2", positions[1])))
	forgetRows(t, d, "n1", "n2")
	left := fs.KillClone()
	must[int](t)(0, d.Close())
	d = open(t, left, "/d", modelOptions)
	u, r := d.Unreported(), d.Replica(0, 0)
	must[int](t)(0, errors.Join(r.SetSyncedThrough("n1", positions[2]), r.SetSyncedThrough("n2", positions[2])))
	if got, want := visited(t, u), []string{"/a/c/1 1 11", "/a/c/2 1 12"}; !slices.Equal(got, want) {
		t.Errorf("visited %q, want %q", got, want)
	}
	must[int](t)(0, d.Close())
}

// Of a partition without known peers only the newest records are visited.
func TestUnreportedIsBounded(t *testing.T) {
	fs := vfs.NewMem("/d")
	d := open(t, fs, "/d", modelOptions)
	const more = 5
	for i := range unreportedMax + more {
		name := fmt.Sprintf("/a/c/%d", i)
		must[State](t)(put(d, locate(name, 0), name, 10, nil))
	}
	forgetRows(t, d)
	left := fs.KillClone()
	must[int](t)(0, d.Close())
	d = open(t, left, "/d", modelOptions)
	got := visited(t, d.Unreported())
	if len(got) > unreportedMax || len(got) < unreportedMax*9/10 || slices.Contains(got, "/a/c/0 1 10") ||
		!slices.Contains(got, fmt.Sprintf("/a/c/%d 1 10", unreportedMax+more-1)) {
		t.Errorf("%d are visited", len(got))
	}
	must[int](t)(0, d.Close())
}

// What NoteRows has noted is not visited; what is behind it is, however much that is, and
// whatever peers have.
func TestUnreportedAfterNotedRows(t *testing.T) {
	fs := vfs.NewMem("/d")
	d := open(t, fs, "/d", modelOptions)
	r := d.Replica(0, 0)
	write := func(name string, time uint64) { must[State](t)(put(d, locate(name, 0), name, time, nil)) }
	write("/a/c/0", 10)
	begun := d.RowsBegun()
	write("/a/c/1", 11)
	if len(begun) != 1 {
		t.Fatalf("%d partitions have rows", len(begun))
	}
	d.OweRows(true)
	must[int](t)(0, d.NoteRows(d.RowsBegun())) // not now
	d.OweRows(false)
	must[int](t)(0, d.NoteRows(begun))
	must[int](t)(0, r.SetPeers([]string{"n1"}))
	must[int](t)(0, r.SetSyncedThrough("n1", must[bundle.Position](t)(r.Position())))
	left := fs.KillClone()
	for i := range unreportedMax {
		write(fmt.Sprintf("/a/c/2-%d", i), 12)
	}
	many := fs.KillClone()
	must[int](t)(0, d.NoteRows(d.RowsBegun()))
	must[int](t)(0, d.NoteDelivered(d.RowsBegun()))
	if again := d.RowsBegun(); len(again) != 0 {
		t.Errorf("%d partitions have rows that are noted", len(again))
	}
	none := fs.KillClone()
	must[int](t)(0, d.Close())

	for _, one := range []struct {
		left *vfs.Mem
		want int
	}{{left, 1}, {many, 1 + unreportedMax}, {none, 0}} {
		d = open(t, one.left, "/d", modelOptions)
		u := d.Unreported()
		must[int](t)(0, d.NoteRows(d.RowsBegun())) // not before the visits have ended
		got := visited(t, u)
		if len(got) != one.want || (one.want > 0 && got[0] != "/a/c/1 1 11") {
			t.Errorf("%d are visited, want %d", len(got), one.want)
		}
		must[int](t)(0, d.Close())
	}
}

// A stop while rows are in memory alone is as a kill: the next process visits their records,
// though peers have got them meanwhile.
func TestUnreportedAfterAStopThatOwesRows(t *testing.T) {
	fs := vfs.NewMem("/d")
	d := open(t, fs, "/d", modelOptions)
	r := d.Replica(0, 0)
	must[State](t)(put(d, locate("/a/c/0", 0), "/a/c/0", 10, nil))
	before := must[bundle.Position](t)(r.Position())
	must[int](t)(0, r.SetSyncedThrough("n1", before))
	forgetRows(t, d, "n1")
	d.OweRows(true)
	must[State](t)(put(d, locate("/a/c/1", 0), "/a/c/1", 11, nil))
	must[int](t)(0, r.SetSyncedThrough("n1", must[bundle.Position](t)(r.Position())))
	if got := must[bundle.Position](t)(r.SyncedThrough("n1")); got != before {
		t.Errorf("synced through %+v, want %+v", got, before)
	}
	must[int](t)(0, d.Close())

	d = open(t, fs, "/d", modelOptions)
	if got, want := visited(t, d.Unreported()), []string{"/a/c/1 1 11"}; !slices.Equal(got, want) {
		t.Errorf("visited %q, want %q", got, want)
	}
	d.OweRows(true)
	d.OweRows(false)
	must[int](t)(0, d.Close())
	d = open(t, fs, "/d", modelOptions)
	if d.Unreported() != nil {
		t.Error("a clean stop looks like a kill")
	}
	must[int](t)(0, d.Close())
}
