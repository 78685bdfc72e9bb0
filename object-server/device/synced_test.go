package device

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"

	"martlet/object-server/bundle"
	"martlet/object-server/bundle/format"
	"martlet/object-server/bundle/inspect"
	"martlet/object-server/vfs"
)

func syncedThrough(t testing.TB, d *Device, peer string) bundle.Position {
	t.Helper()
	return must[bundle.Position](t)(d.Replica(0, 0).SyncedThrough(peer))
}

// What is set is known after a stop and after a kill, per peer and of this bundle
// alone.
func TestSyncedThrough(t *testing.T) {
	fs := vfs.NewMem("/d")
	d := open(t, fs, "/d", modelOptions)
	r := d.Replica(0, 0)
	var none bundle.Position
	if err := r.SetSyncedThrough("n1", none); err != nil || syncedThrough(t, d, "n1") != none {
		t.Fatal(err)
	}
	must[State](t)(put(d, locate("/a/c/o", 0), "/a/c/o", 10, nil))
	first := must[bundle.Position](t)(r.Position())
	must[State](t)(put(d, locate("/a/c/o", 0), "/a/c/o", 20, nil))
	second := must[bundle.Position](t)(r.Position())
	long := strings.Repeat("p", PeerMax)
	for _, err := range []error{
		r.SetSyncedThrough("n1", second), r.SetSyncedThrough("n1", first), // the later one stays
		r.SetSyncedThrough(long, first),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for want, err := range map[error]error{
		ErrInvalid: errors.Join(r.SetSyncedThrough("", first), r.SetSyncedThrough(long+"p", first)),
		ErrChanged: errors.Join(r.SetSyncedThrough("n3", bundle.Position{Bundle: second.Bundle, LSN: second.LSN + 1}),
			r.SetSyncedThrough("n3", bundle.Position{LSN: 1})),
	} {
		if !errors.Is(err, want) {
			t.Errorf("%v instead of %v", err, want)
		}
	}
	if err := d.Replica(0, 1).SetSyncedThrough("n1", first); !errors.Is(err, ErrChanged) {
		t.Errorf("of an empty partition: %v", err)
	}
	check := func(d *Device) {
		t.Helper()
		if syncedThrough(t, d, "n1") != second || syncedThrough(t, d, long) != first || syncedThrough(t, d, "n3") != none {
			t.Fatal(syncedThrough(t, d, "n1"), syncedThrough(t, d, long), syncedThrough(t, d, "n3"))
		}
	}
	check(d)
	killed := open(t, fs.KillClone(), "/d", modelOptions)
	check(killed)
	must[int](t)(0, errors.Join(killed.Close(), d.Close()))
	d = open(t, fs, "/d", modelOptions)
	check(d)
	must[int](t)(0, d.Replica(0, 0).SetPeers([]string{"n1"}))
	if syncedThrough(t, d, long) != none || syncedThrough(t, d, "n1") != second {
		t.Error("the peer that has no replica is known, or the other is not")
	}
	position := must[bundle.Position](t)(d.Replica(0, 0).Position())
	must[int](t)(0, d.Replica(0, 0).Drop(position))
	must[State](t)(put(d, locate("/a/c/o", 0), "/a/c/o", 10, nil))
	if got := syncedThrough(t, d, "n1"); got != none {
		t.Errorf("%+v of a bundle that is gone", got)
	}
	must[int](t)(0, d.Close())
}

// A split makes two bundles, of which nothing is known.
func TestSyncedThroughASplit(t *testing.T) {
	d := open(t, vfs.NewMem("/d"), "/d", crashOptions(SyncFdatasync))
	for _, name := range modelNames {
		must[State](t)(put(d, locate(name, modelBits), name, 10, nil))
	}
	must[int](t)(0, d.Replica(0, 0).SetSyncedThrough("n1", must[bundle.Position](t)(d.Replica(0, 0).Position())))
	for range 4 {
		must[int](t)(0, raiseStep(d))
	}
	for partition := range uint32(4) {
		if got := must[bundle.Position](t)(d.Replica(0, partition).SyncedThrough("n1")); got != (bundle.Position{}) {
			t.Errorf("%d: %+v", partition, got)
		}
	}
	must[int](t)(0, d.Close())
}

// Whatever byte of the table is rotten, or cut off, the position is unknown, and the
// table is made anew.
func TestSyncedDamaged(t *testing.T) {
	fs := vfs.NewMem("/d")
	d := open(t, fs, "/d", modelOptions)
	must[State](t)(put(d, locate("/a/c/o", 0), "/a/c/o", 10, nil))
	position := must[bundle.Position](t)(d.Replica(0, 0).Position())
	must[int](t)(0, d.Replica(0, 0).SetSyncedThrough("n1", position))
	must[int](t)(0, d.Close())
	path := filepath.Join("/d", SyncedFile)
	for offset := range int64(syncedSlot) {
		for _, isCut := range []bool{false, true} {
			after := fs.KillClone()
			if isCut {
				f := must[vfs.File](t)(after.Open(path))
				must[int](t)(0, errors.Join(f.Truncate(offset), f.Close()))
			} else {
				damage(t, after, path, offset, 1, func(p []byte) { p[0] ^= 0x10 })
			}
			d := open(t, after, "/d", modelOptions)
			if got := syncedThrough(t, d, "n1"); got != (bundle.Position{}) {
				t.Fatalf("offset %d: %+v", offset, got)
			}
			must[int](t)(0, d.Replica(0, 0).SetSyncedThrough("n1", position))
			must[int](t)(0, d.Close())
			d = open(t, after, "/d", modelOptions)
			if got := syncedThrough(t, d, "n1"); got != position {
				t.Fatalf("offset %d: %+v after it was set again", offset, got)
			}
			must[int](t)(0, d.Close())
		}
	}
}

// A log that lost its end after a peer had all of it is damaged: what a later write
// says does not get an LSN that the peer is said to have.
func TestSyncedBeyondALostTail(t *testing.T) {
	fs := vfs.NewMem("/d")
	d := open(t, fs, "/d", modelOptions)
	for _, name := range modelNames {
		must[State](t)(put(d, locate(name, 0), name, 10, body(1, 100)))
	}
	position := must[bundle.Position](t)(d.Replica(0, 0).Position())
	must[int](t)(0, d.Replica(0, 0).SetSyncedThrough("n1", position))
	after := fs.KillClone()
	must[int](t)(0, d.Close())
	rotHeader(t, after, newestSegment(t, after, 0), modelNames[3])
	tools := bundle.NewFiles(after, "/d", 8)
	tools.Floor = must[func(bundle.ID, format.Identity) uint64](t)(ReadFloor(after, "/d"))
	verdict, err := inspect.Verify(tools, bundle.ID{}, "")
	if err = errors.Join(err, tools.Close()); err != nil || len(verdict.Damages) == 0 {
		t.Errorf("verify finds %+v, %v", verdict, err)
	}
	d = open(t, after, "/d", modelOptions)
	defer d.Close()
	if _, err := d.Head(locate(modelNames[3], 0)); !errors.Is(err, ErrQuarantined) {
		t.Errorf("the lost object: %v", err)
	}
	must[State](t)(put(d, locate("/a/c/new", 0), "/a/c/new", 10, nil))
	if now := must[bundle.Position](t)(d.Replica(0, 0).Position()); now.LSN <= position.LSN {
		t.Errorf("the new write is at %+v, the peer has all up to %+v", now, position)
	}
	if err := d.Replica(0, 0).SetSyncedThrough("n1", position); !errors.Is(err, ErrQuarantined) {
		t.Errorf("a position of a log with lost records: %v", err)
	}
	if got := syncedThrough(t, d, "n1"); got != position {
		t.Errorf("%+v", got)
	}
}

// syncing is a device, and peers that got its records.
type syncing struct {
	t       *testing.T
	rng     *rand.Rand
	fs      *vfs.Mem
	device  *Device
	options Options
	peers   map[string]map[format.Hash]format.Timestamp // the newest that each has; no two writes are of one time
	ticks   uint64
	seen    map[string]int
}

// Through writes, compaction, kills, power cuts, lost ends of the log, rotten tables
// and dropped partitions, a peer has all that the device has up to the position that
// is known.
func TestSyncedNeverTooLate(t *testing.T) {
	seen := map[string]int{}
	for seed := range uint64(60) {
		s := &syncing{t: t, rng: rand.New(rand.NewPCG(seed, 1)), fs: vfs.NewMem("/d"), seen: seen, peers: map[string]map[format.Hash]format.Timestamp{}}
		s.options = crashOptions(crashMethods[seed%uint64(len(crashMethods))])
		s.options.ReclaimAge, s.options.compactByHand = 1, true
		s.device = open(t, s.fs, "/d", s.options)
		for range 60 {
			s.step()
			if err := s.check(); err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
		}
		_ = s.device.Close()
	}
	for _, what := range []string{"set", "known", "unknown", "doubt", "forgotten"} {
		if seen[what] == 0 {
			t.Errorf("never %s: %v", what, seen)
		}
	}
}

func (s *syncing) step() {
	names := []string{"/a/c/heron", "/a/c/crane", "/a/c/auk", "/a/c/wren"}
	name := names[s.rng.IntN(len(names))]
	s.ticks++
	switch s.rng.IntN(14) {
	case 0, 1, 2, 3:
		_, _ = put(s.device, locate(name, 0), name, s.ticks, body(s.ticks, 1500)) // refused while in doubt
	case 4, 5:
		_, _ = s.device.Delete(locate(name, 0), at(s.ticks), name)
	case 6, 7, 8:
		s.sync([]string{"n1", "n2"}[s.rng.IntN(2)])
	case 9:
		must[int](s.t)(0, s.device.Replica(0, 0).SetPeers([]string{"n1", "n2"}[s.rng.IntN(2):]))
		must[int](s.t)(0, s.device.Compact())
	case 10:
		must[int](s.t)(0, s.device.Close())
		s.device = open(s.t, s.fs, "/d", s.options)
	case 11:
		s.restart(s.fs.CrashClone(s.rng))
	case 12:
		after := s.fs.KillClone()
		s.lose(after)
		s.restart(after)
	case 13:
		if s.rng.IntN(4) == 0 {
			position := must[bundle.Position](s.t)(s.device.Replica(0, 0).Position())
			if err := s.device.Replica(0, 0).Drop(position); err != nil && !errors.Is(err, ErrChanged) { // by a checkpoint
				s.t.Fatal(err)
			}
		}
	}
}

func (s *syncing) restart(after *vfs.Mem) {
	old := s.device
	s.fs = after
	s.device = open(s.t, after, "/d", s.options)
	_ = old.Close() // of the file system that is left behind
}

// lose takes away the end of the log, or makes the table rot.
func (s *syncing) lose(fs *vfs.Mem) {
	for name, size := range filesBelow(s.t, fs, "/d") {
		switch {
		case filepath.Base(name) == SyncedFile && size > 0 && s.rng.IntN(3) == 0:
			damage(s.t, fs, name, s.rng.Int64N(size), 1, func(p []byte) { p[0] ^= 1 << s.rng.IntN(8) })
		case strings.HasSuffix(name, ".bundle") && name == newestSegment(s.t, fs, 0) && size > format.SegmentHeaderSize:
			from := format.SegmentHeaderSize + s.rng.Int64N(size-format.SegmentHeaderSize)
			damage(s.t, fs, name, from, int(size-from), func(p []byte) { clear(p) })
		}
	}
}

// sync sends all to a peer, and notes it.
func (s *syncing) sync(peer string) {
	r := s.device.Replica(0, 0)
	if s.peers[peer] == nil {
		s.peers[peer] = map[format.Hash]format.Timestamp{}
	}
	since := must[bundle.Position](s.t)(r.SyncedThrough(peer))
	done, err := r.Export(since, nil, func(raw RawRecord) error {
		h := must[format.Header](s.t)(format.ParseHeader(raw.Bytes))
		if s.peers[peer][h.Hash].Compare(h.Timestamp) < 0 {
			s.peers[peer][h.Hash] = h.Timestamp
		}
		return nil
	})
	if err != nil || done.Skipped > 0 || done.Bundle == (format.Identity{}) { // its headers were lost: it gets a new one any time
		return
	}
	err = r.SetSyncedThrough(peer, done.Position)
	switch {
	case err == nil:
		s.seen["set"]++
	case errors.Is(err, ErrQuarantined):
		s.seen["doubt"]++
	default:
		s.t.Fatal(err)
	}
}

// check compares what peers are said to have with what they got.
func (s *syncing) check() error {
	r := s.device.Replica(0, 0)
	for peer, has := range s.peers {
		position, err := r.SyncedThrough(peer)
		if err != nil {
			return err
		}
		if position == (bundle.Position{}) {
			s.seen["unknown"]++
			continue
		}
		s.seen["known"]++
		if now := must[bundle.Position](s.t)(r.Position()); now.Bundle != position.Bundle || now.LSN < position.LSN {
			return fmt.Errorf("%s has all up to %+v of %+v", peer, position, now)
		}
		_, err = r.Export(bundle.Position{}, nil, func(raw RawRecord) error {
			h := must[format.Header](s.t)(format.ParseHeader(raw.Bytes))
			if h.LSN <= position.LSN && has[h.Hash].Compare(h.Timestamp) < 0 {
				return fmt.Errorf("%s is said to have all up to %d, and does not have record %d", peer, position.LSN, h.LSN)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	if len(s.peers) > 0 && len(s.device.synced.known(place{})) == 0 {
		s.seen["forgotten"]++
	}
	return nil
}

// A slot that is taken is the one that is written.
func FuzzSynced(f *testing.F) {
	h := holding{peer: "n1", Position: bundle.Position{Bundle: format.Identity{1}, LSN: 7}}
	f.Add(h.encode(place{1, 600}))
	f.Add(freeSlot[:])
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) < syncedSlot {
			return
		}
		b = b[:syncedSlot]
		at, h, ok := parseHolding(b)
		if !ok {
			return
		}
		if again, h2, ok := parseHolding(h.encode(at)); !ok || at != again || h != h2 {
			t.Fatalf("%+v %+v became %+v %+v", at, h, again, h2)
		}
	})
}
