package device

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"

	"martlet/object-server/bundle"
	"martlet/object-server/bundle/format"
	"martlet/object-server/bundle/sethash"
	"martlet/object-server/bundle/versions"
	"martlet/object-server/vfs"
)

// elementsOf computes from what the records of names say, one by one, what the sets of
// their partitions must have.
func elementsOf(d *Device, names []string, bits int) (map[bundle.ID]sethash.Digest, error) {
	all := map[bundle.ID]sethash.Digest{}
	for _, name := range names {
		at := locate(name, bits)
		s, err := d.existing(at)
		var none *NotFoundError
		if errors.As(err, &none) {
			continue
		}
		if err != nil {
			return nil, err
		}
		digest, err := digestOf(s.bundle, at.Hash)
		s.done()
		if err != nil {
			return nil, err
		}
		id := s.bundle.ID()
		sum := all[id]
		sum.Add(digest)
		all[id] = sum
	}
	maps.DeleteFunc(all, func(_ bundle.ID, d sethash.Digest) bool { return d.IsEmpty() })
	return all, nil
}

// digestOf is the digest of one name.
func digestOf(b *bundle.Bundle, hash format.Hash) (d sethash.Digest, err error) {
	head, buffer, err := b.ReadHead(hash)
	defer buffer.Free()
	if err != nil || head == nil {
		return d, err
	}
	chain, err := b.Chain(hash, head, nil)
	if err != nil {
		return d, err
	}
	if null, lives := chain.Null(); !lives && !null.IsZero() {
		h := format.Header{Type: format.TypeTombstone, Hash: hash, Timestamp: null}
		e := h.Entry(0)
		d.Tombstones = sethash.Sum{Signatures: e.Signature, Count: 1}
	}
	page, err := chain.Page(versions.Marker{}, 1<<20)
	for _, v := range page {
		d.Add(sethash.Digest{Versions: sethash.Sum{Signatures: v.Signature, Count: 1}})
	}
	return d, err
}

// checkAgreement compares the sets of all partitions with what their records say.
func checkAgreement(d *Device, names []string, bits int) error {
	want, err := elementsOf(d, names, bits)
	if err != nil {
		return err
	}
	got := map[bundle.ID]sethash.Digest{}
	for _, b := range d.bundles.all() {
		id := b.ID()
		digest, _, err := d.Replica(id.Policy, id.Partition).Digest(0, 0, format.Timestamp{})
		if err != nil {
			return err
		}
		if !digest.IsEmpty() {
			got[id] = digest
		}
	}
	if !maps.Equal(got, want) {
		return fmt.Errorf("digests %v, the records say %v", got, want)
	}
	return nil
}

// Two devices with the same writes in different orders, one of them compacted and
// opened again, have the same digests of every slice and the same elements.
func TestDigestsOfReplicas(t *testing.T) {
	fs := []*memory{newMemory(t), newMemory(t)}
	names := make([]string, 600)
	for i := range names {
		names[i] = fmt.Sprintf("/a/c/%d", i)
	}
	for n, m := range fs {
		order := slices.Clone(names)
		if n == 1 {
			slices.Reverse(order)
		}
		for i, name := range order {
			ticks := uint64(10 + len(name))
			must[State](t)(put(m.device, locate(name, 1), name, ticks, body(ticks, 100)))
			if name[len(name)-1] == '7' {
				must[State](t)(m.device.Delete(locate(name, 1), at(ticks+50), name))
			}
			if n == 1 && i%100 == 0 {
				must[int](t)(0, m.device.Compact())
			}
		}
	}
	fs[1].reopen()
	for partition := range uint32(2) {
		for _, level := range []uint8{1, 4, 12} {
			left, _, err := fs[0].device.Replica(0, partition).Slices(1, partition, level, format.Timestamp{})
			right, _, err2 := fs[1].device.Replica(0, partition).Slices(1, partition, level, format.Timestamp{})
			if err != nil || err2 != nil || len(left) < min(1<<(level-1), 100) || !slices.Equal(left, right) {
				t.Fatalf("level %d: %v, %v, %v, %v", level, left, right, err, err2)
			}
		}
		left, _, err := fs[0].device.Replica(0, partition).Elements(3, partition<<2|1)
		right, _, err2 := fs[1].device.Replica(0, partition).Elements(3, partition<<2|1)
		if err != nil || err2 != nil || len(left) < 30 || !slices.Equal(left, right) {
			t.Fatalf("%d elements, and %d, %v, %v", len(left), len(right), err, err2)
		}
	}
	// One write more, and one slice differs.
	must[State](t)(put(fs[0].device, locate(names[5], 1), names[5], 1000, nil))
	partition := locate(names[5], 1).Partition
	left, _, _ := fs[0].device.Replica(0, partition).Slices(0, 0, 12, format.Timestamp{})
	right, _, _ := fs[1].device.Replica(0, partition).Slices(0, 0, 12, format.Timestamp{})
	differ := slices.DeleteFunc(left, func(s sethash.Slice) bool { return slices.Contains(right, s) })
	if len(differ) != 1 || differ[0].Prefix != sethash.Prefix(locate(names[5], 1).Hash, 12) {
		t.Fatalf("%v differ", differ)
	}
}

// memory is a device in memory that can be opened again.
type memory struct {
	t      testing.TB
	fs     *vfs.Mem
	device *Device
}

func newMemory(t testing.TB) *memory {
	m := &memory{t: t, fs: vfs.NewMem("/d")}
	m.device = open(t, m.fs, "/d", modelOptions)
	t.Cleanup(func() { _ = m.device.Close() })
	return m
}

func (m *memory) reopen() {
	if err := m.device.Close(); err != nil {
		m.t.Fatal(err)
	}
	m.device = open(m.t, m.fs, "/d", modelOptions)
}
