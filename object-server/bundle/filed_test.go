package bundle

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"syscall"
	"testing"

	"martlet/object-server/bundle/format"
	"martlet/object-server/bundle/index"
	"martlet/object-server/vfs"
)

var filedConfig = Config{SegmentBytes: 16 << 10, CheckpointBytes: 3 << 10, IndexOnDisk: true}

// tendFiled is tend where the index is on disk.
func tendFiled(t testing.TB, b *Bundle) {
	t.Helper()
	tend(t, b)
	check(t, b.FileIndex(func(format.Hash) {}, func(format.Hash) {}))
}

// Where the index is on disk everything shows as where it is in memory, live,
// after compactions and after restarts either way; only what lies in the segment
// that grows has a slot.
func TestIndexOnDisk(t *testing.T) {
	const names = 90
	fs := vfs.NewMem("/d")
	b, err := Open(NewFiles(fs, "/d", 4), logID, filedConfig)
	check(t, err)
	random := rand.New(rand.NewPCG(1, 1))
	for i := range 2000 {
		n := random.IntN(names)
		if random.IntN(5) == 0 {
			appendBatch(t, b, tombstone(t, n, uint64(i+1)))
		} else {
			appendBatch(t, b, put(t, n, uint64(i+1)))
		}
		tendFiled(t, b)
		if random.IntN(10) == 0 {
			compactAll(t, b, calm())
		}
		if i%40 != 0 {
			continue
		}
		tendFiled(t, b) // the checkpoint may have closed a segment
		shows := content(t, b, names)
		if got := content(t, reopened(t, fs), names); !maps.Equal(got, shows) {
			t.Fatalf("after %d: on disk %v, in memory %v", i, shows, got)
		}
		live, all := b.Bytes()
		again, err := Open(NewFiles(fs, "/d", 4), logID, filedConfig)
		check(t, err)
		if got := content(t, again, names); !maps.Equal(got, shows) {
			t.Fatalf("after %d: %v, restarted %v", i, shows, got)
		}
		if l, a := again.Bytes(); l != live || a != all || again.Len() != b.Len() {
			t.Fatalf("after %d: %d of %d bytes and %d names live, restarted %d of %d and %d", i, live, all, b.Len(), l, a, again.Len())
		}
		for s := range places(b) {
			if uint32(s>>32) != b.segments.inOrder()[len(b.segments.inOrder())-1].sequence {
				t.Fatalf("after %d: a slot in segment %d", i, s>>32)
			}
		}
		if random.IntN(2) == 0 {
			b = again
		}
	}
}

// An entry that rots behind the server's back never makes an object seem absent.
func TestRottenEntry(t *testing.T) {
	fs := vfs.NewMem("/d")
	b, err := Open(NewFiles(fs, "/d", 4), logID, filedConfig)
	check(t, err)
	for n := range 40 {
		appendBatch(t, b, put(t, n, uint64(n+1)))
		tendFiled(t, b)
	}
	s := b.segments.inOrder()[0]
	if s.filter == nil || s.filter.Names < 20 {
		t.Fatalf("%+v", s)
	}
	quarantined := 0
	for at := int64(0); at < int64(s.named)*format.EntrySize; at++ {
		alter(t, fs, logSegment, func(f vfs.File) { flip(t, f, s.run+at) })
		for n := range 40 {
			r, ok, err := find(b, name(n))
			if errors.Is(err, format.ErrQuarantined) {
				quarantined++
			} else if !ok || err != nil || r.Head.Hash != name(n) {
				t.Fatalf("byte %d: object %d: %v, %v", at, n, ok, err)
			}
		}
		clear(b.damaged)
		alter(t, fs, logSegment, func(f vfs.File) { flip(t, f, s.run+at) })
	}
	if want := s.named * format.EntrySize; quarantined != want {
		t.Errorf("%d of %d in quarantine", quarantined, want)
	}
}

// A segment that gets its footer after a later one keeps what may be a link of a
// chain of versions: only the later ones know.
func TestFiledOutOfOrder(t *testing.T) {
	fs := vfs.NewMem("/d")
	b, err := Open(NewFiles(fs, "/d", 4), logID, filedConfig)
	check(t, err)
	for n := range 80 { // two segments and more; the second has all of the first
		appendBatch(t, b, put(t, n%30, uint64(n+1)))
	}
	first, second := b.segments.inOrder()[0], b.segments.inOrder()[1]
	b.mu.Lock()
	first.damaged = true // as far as Seal goes
	b.mu.Unlock()
	tendFiled(t, b)
	if first.sealed || second.filter == nil {
		t.Fatalf("%+v %+v", first, second)
	}
	b.mu.Lock()
	first.damaged = false
	b.mu.Unlock()
	shows := content(t, b, 30)
	tendFiled(t, b)
	for i := range first.named {
		if first.filter.State(uint32(i)) == index.Dead && b.mayBeChained(first, name(i)) {
			t.Errorf("entry %d is dead", i)
		}
	}
	if got := content(t, b, 30); !maps.Equal(got, shows) {
		t.Fatalf("%v became %v", shows, got)
	}
}

// The segment that grows is closed before it holds more than a small share of the
// names.
func TestLongSegmentIsClosed(t *testing.T) {
	fs := vfs.NewMem("/d")
	config := Config{SegmentBytes: 1 << 30, CheckpointBytes: 1 << 30, IndexOnDisk: true}
	b, err := Open(NewFiles(fs, "/d", 4), logID, config)
	check(t, err)
	const count = 3 * filedLeast
	for n := 0; n < count; n += 64 {
		var batch []*Draft
		for i := range 64 {
			d := NewDraft(0)
			m := format.Metadata{Name: fmt.Sprint(n + i), Timestamp: format.Timestamp{Ticks: 1}}
			var h format.Hash
			copy(h[:], fmt.Sprintf("%016x", uint64(n+i)*0x9e3779b97f4a7c15))
			check(t, d.SealPut(h, &m, nil))
			batch = append(batch, d)
		}
		a, err := (&Writer{b}).Append(batch)
		check(t, err)
		a.Publish()
	}
	check(t, b.Seal())
	check(t, b.FileIndex(func(format.Hash) {}, func(format.Hash) {}))
	if b.index.Len() > filedLeast+64 || b.Len() != count {
		t.Errorf("%d of %d names in memory", b.index.Len(), b.Len())
	}
}

// A segment whose first batch a crash has torn keeps none that comes later from
// being filed and compacted.
func TestTornFirstBatch(t *testing.T) {
	fs := vfs.NewMem("/d")
	b, err := Open(NewFiles(fs, "/d", 4), logID, filedConfig)
	check(t, err)
	ticks := uint64(0)
	write := func(count int) {
		for range count {
			ticks++
			appendBatch(t, b, put(t, int(ticks%40), ticks))
			tendFiled(t, b)
			compactAll(t, b, calm())
		}
	}
	write(300)
	b.turn = true
	_, err = (&Writer{b}).Append([]*Draft{put(t, 1, 1000)})
	check(t, err)
	alter(t, fs, b.files.path(b.active.key(logID)), func(f vfs.File) { flip(t, f, format.SegmentHeaderSize) })
	shows := content(t, b, 40)
	b, err = Open(NewFiles(fs, "/d", 4), logID, filedConfig)
	check(t, err)
	if got := content(t, b, 40); !maps.Equal(got, shows) || b.Report().TornTails != 1 {
		t.Fatalf("%v became %v, %+v", shows, got, b.Report())
	}
	write(1000)
	if live, all := b.Bytes(); all > 5*live || b.index.Len() == b.Len() {
		t.Errorf("%d of %d bytes are live; %d of %d names in memory: %q", live, all, b.index.Len(), b.Len(), shape(b))
	}
	again, err := Open(NewFiles(fs, "/d", 4), logID, filedConfig)
	check(t, err)
	if got, want := content(t, again, 40), content(t, b, 40); !maps.Equal(got, want) {
		t.Fatalf("%v, restarted %v", want, got)
	}
}

// A record that cannot be read when a name is written that the index cannot tell
// from its own keeps its place. If it was that of the name itself, it is out for
// good, though it can be read again.
func TestWriteBesideUnreadableRecord(t *testing.T) {
	neighbour := name(5)
	neighbour[7] ^= 1
	for _, onDisk := range []bool{false, true} {
		for _, written := range []format.Hash{neighbour, name(5)} {
			isFailing := false
			mem := vfs.NewMem("/d")
			fs := vfs.NewFaults(mem, func(op, name string) error {
				if isFailing && op == "read" {
					return syscall.EIO
				}
				return nil
			})
			config := filedConfig
			config.IndexOnDisk = onDisk
			b, err := Open(NewFiles(fs, "/d", 4), logID, config)
			check(t, err)
			for n := range 100 {
				appendBatch(t, b, put(t, n, uint64(n+1)))
				tendFiled(t, b)
			}
			isFailing = true
			r, _, damage := b.ReadHead(written)
			isFailing = false
			if !errors.Is(damage, format.ErrQuarantined) {
				t.Fatal(damage)
			}
			d := NewDraft(0)
			d.Replaces(r)
			check(t, d.SealTombstone(written, &format.Metadata{Timestamp: format.Timestamp{Ticks: 1000}}))
			appendBatch(t, b, d)
			look := func(b *Bundle) {
				t.Helper()
				if r, ok, err := find(b, written); !ok || err != nil || r.Type() != format.TypeTombstone {
					t.Errorf("on disk %v: what was written: %v, %v", onDisk, ok, err)
				}
				if r, ok, err := find(b, name(5)); !ok || err != nil || written != name(5) && r.Type() != format.TypePut {
					t.Errorf("on disk %v: the neighbour: %v, %v", onDisk, ok, err)
				}
			}
			look(b)
			for i := range 400 {
				if i%40 != 5 {
					appendBatch(t, b, put(t, i%40, uint64(i+2000)))
				}
				tendFiled(t, b)
				compactAll(t, b, calm())
			}
			look(b)
			again, err := Open(NewFiles(mem, "/d", 4), logID, config)
			check(t, err)
			look(again)
			if n := again.Len(); b.Len() != n || len(b.superseded) > 0 {
				t.Errorf("%d names, restarted %d; %v", b.Len(), n, b.superseded)
			}
		}
	}
}

// Damage to the body of another name's record, which the index cannot tell from
// the one looked for, is no damage of this one.
func TestDamageBesideAbsentName(t *testing.T) {
	fs, neighbour := vfs.NewMem("/d"), name(5)
	neighbour[7] ^= 1
	b := openLog(t, fs)
	appendBatch(t, b, put(t, 5, 1))
	alter(t, fs, logSegment, func(f vfs.File) { flip(t, f, format.SegmentHeaderSize+format.HeaderSize+2) })
	if r, ok, err := find(b, neighbour); ok || err != nil {
		t.Errorf("%+v, %v, %v", r, ok, err)
	}
	if _, _, err := find(b, name(5)); !errors.Is(err, format.ErrQuarantined) {
		t.Error(err)
	}
}
