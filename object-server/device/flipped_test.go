package device

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"martlet/object-server/bundle"
	"martlet/object-server/bundle/format"
	"martlet/object-server/vfs"
)

// flippable is a device and its peer with the same objects in one partition: written once or more
// often, one of them large, one with later metadata, some deleted. A deleted one is nil.
func flippable(t *testing.T, mem *vfs.Mem, o Options) (d, peer *Device, want map[string][]byte) {
	t.Helper()
	d, peer, want = open(t, mem, "/d", o), open(t, vfs.NewMem("/d"), "/d", o), map[string][]byte{}
	for i, name := range namesIn(0, 1, 14) {
		size := 600
		if i == 2 {
			size = 9000
		}
		for _, to := range []*Device{d, peer} {
			for ticks := range uint64(1 + i%3) {
				want[name] = body(uint64(i)*10+ticks, size)
				must[State](t)(put(to, locate(name, 1), name, ticks+1, want[name]))
			}
			switch i % 7 {
			case 3:
				must[int](t)(0, to.Post(locate(name, 1), func(m *format.Metadata) error {
					m.MetaTimestamp = at(7)
					return nil
				}))
			case 4:
				must[State](t)(to.Delete(locate(name, 1), at(9), name))
				want[name] = nil
			}
		}
	}
	return d, peer, want
}

// flipHeaders flips bits in the headers of records, also in those that have no name.
func flipHeaders(t *testing.T, mem *vfs.Mem, rng *rand.Rand, count int) {
	t.Helper()
	type place struct {
		segment string
		offset  int64
	}
	var places []place
	for name, size := range files(t, mem) {
		if !strings.HasPrefix(name, "/d/bundles/0/") || !strings.HasSuffix(name, ".bundle") {
			continue
		}
		p := make([]byte, size)
		f := must[vfs.File](t)(mem.Open(name))
		must[int](t)(f.ReadAt(p, 0))
		must[int](t)(0, f.Close())
		for offset := 0; offset+format.HeaderSize <= len(p); offset += format.UnitSize {
			if string(p[offset:offset+4]) == "mrRC" {
				places = append(places, place{name, int64(offset)})
			}
		}
	}
	slices.SortFunc(places, func(x, y place) int { return strings.Compare(fmt.Sprint(x), fmt.Sprint(y)) })
	for range count {
		x := places[rng.IntN(len(places))]
		bit := byte(1) << rng.IntN(8)
		damage(t, mem, x.segment, x.offset+rng.Int64N(format.HeaderSize), 1, func(p []byte) { p[0] ^= bit })
	}
}

// mendFrom does what a pass of the replicator does while a peer has everything.
func mendFrom(t *testing.T, peer, d *Device) {
	t.Helper()
	must[[]bundle.Damage](t)(d.Examine(0, 0, plain))
	r := d.Replica(0, 0)
	_, _ = send(peer, d, 0, bundle.Position{}, keepOrder) // what is refused is imported once it is lost
	for _, mayDoubt := range []bool{false, true} {
		if err := r.Mend(mayDoubt); err != nil && !errors.Is(err, ErrQuarantined) {
			t.Fatal(err)
		}
	}
	doubt := must[bundle.Position](t)(r.Doubt())
	if doubt.LSN == 0 {
		return
	}
	_, _ = send(peer, d, 0, bundle.Position{}, keepOrder)
	if err := r.Heal(doubt, Compared{Peers: []ComparedPeer{{Name: "p1"}}}); err != nil && !errors.Is(err, ErrQuarantined) {
		t.Fatal(err)
	}
}

// Wherever bits flip in headers of records, and in however many: a peer that has everything makes the device whole
// again, while it is in use and after a restart.
func TestFlippedHeadersAreMended(t *testing.T) {
	t.Parallel()
	seeds := uint64(400)
	if raceDetector {
		seeds = 80
	}
	for seed := range seeds {
		rng := rand.New(rand.NewPCG(seed, 1))
		o := Options{SegmentBytes: 8 << 10, SpillBytes: 5000, compactByHand: true, IndexOnDisk: seed%4 == 1}
		if seed%3 == 0 {
			o.SegmentBytes = 1 << 20
		}
		mem := vfs.NewMem("/d")
		d, peer, want := flippable(t, mem, o)
		if seed%5 == 0 {
			must[int](t)(0, d.Compact())
		}
		isRestarted := seed%2 == 0
		if isRestarted {
			must[int](t)(0, d.Close())
		}
		flipHeaders(t, mem, rng, 1+rng.IntN(4))
		if isRestarted {
			d = open(t, mem, "/d", o)
		}
		for range 3 {
			mendFrom(t, peer, d)
		}
		for range 2 {
			if err := isWhole(d, want); err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			must[int](t)(0, d.Close())
			d = open(t, mem, "/d", o)
		}
		must[int](t)(0, errors.Join(d.Close(), peer.Close()))
	}
}

// isWhole is an error unless all objects are served without doubt, and no damage is known.
func isWhole(d *Device, want map[string][]byte) error {
	if doubt, err := d.Replica(0, 0).Doubt(); err != nil || doubt.LSN > 0 {
		return fmt.Errorf("the doubt is %+v, %w", doubt, err)
	}
	if all, _ := d.Damages(); len(all) > 0 {
		return fmt.Errorf("%+v", all)
	}
	for name, b := range want {
		got, m, err := get(d, locate(name, 1))
		var none *NotFoundError
		if b == nil && !errors.As(err, &none) || b != nil && (err != nil || string(got) != string(b) || m.Doubtful) {
			return fmt.Errorf("%s: %d bytes of %d, %w", name, len(got), len(b), err)
		}
	}
	return nil
}
