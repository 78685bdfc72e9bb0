package bundle

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"martlet/object-server/bundle/format"
	"martlet/object-server/bundle/versions"
)

// draftStore keeps the records of a chain as they would lie in a log.
type draftStore struct {
	records map[uint64]storedDraft
	head    uint64
	memory  *versions.Memory
}

type storedDraft struct {
	head  format.Header
	block []byte
}

func newDraftStore() *draftStore { return &draftStore{records: map[uint64]storedDraft{}} }

func (s *draftStore) ReadLink(lsn uint64) (versions.Link, error) {
	return versions.NewLink(s.records[lsn].head, s.records[lsn].block)
}

func (s *draftStore) chain() *versions.Chain {
	c := versions.New(s, s.memory, 0, format.Hash{})
	if s.head != 0 {
		l, err := s.ReadLink(s.head)
		if err != nil {
			panic(err)
		}
		c.Start(l, 0)
	}
	return c
}

// store appends a draft as a log does.
func (s *draftStore) store(d *Draft) {
	s.head++
	d.stamp(s.head, s.head-1, 0, 0)
	parts := d.head.Layout()
	s.records[s.head] = storedDraft{d.head, slices.Clone(d.bytes()[format.HeaderSize:parts.Metadata])}
	if format.Checksum(d.bytes()[format.HeaderSize:parts.Data]) != d.head.MetadataCRC {
		panic("checksum of a block")
	}
}

// versionOf is a version id, and the time that goes with it; several ids share one.
func versionOf(n int) (id format.VersionID, t format.Timestamp) {
	binary.BigEndian.PutUint64(id[8:], uint64(n)*0x9e3779b97f4a7c15|1)
	return id, format.Timestamp{Ticks: uint64(n/3+1) * 10, Offset: uint64(n % 2)}
}

// add writes a version.
func (s *draftStore) add(t rapid.TB, n int) {
	id, ts := versionOf(n)
	a, err := s.chain().Add(id, ts)
	check(t, err)
	d, m := NewDraft(0), format.Metadata{Name: "/a/c/o", Timestamp: ts, VersionID: id}
	d.Continue(&a)
	check(t, d.SealPut(format.Hash{}, &m, nil))
	s.store(d)
}

// A batch of removals leaves what the same removals leave one by one.
func TestBatchEqualsSingleRemovals(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		single, batched := newDraftStore(), newDraftStore()
		if rapid.Bool().Draw(rt, "remembers") {
			batched.memory = versions.NewMemory(1 << 20)
		}
		n := rapid.IntRange(1, 150).Draw(rt, "versions")
		for _, s := range []*draftStore{single, batched} {
			for i := range n {
				s.add(rt, i)
			}
		}
		for range 3 {
			removeBoth(rt, single, batched, n)
		}
	})
}

// removeBoth removes the same versions one by one, and in a batch.
func removeBoth(rt *rapid.T, single, batched *draftStore, n int) {
	c := batched.chain()
	var drafts []*Draft
	for range rapid.IntRange(1, 90).Draw(rt, "removals") {
		id, ts := versionOf(rapid.IntRange(0, n+2).Draw(rt, "version"))
		ts.Ticks += rapid.SampledFrom([]uint64{0, 1, 1 << 30}).Draw(rt, "later")
		if rapid.IntRange(0, 20).Draw(rt, "null") == 0 {
			id = format.VersionID{}
		}
		m := format.Metadata{Name: "/a/c/o", Timestamp: ts, VersionID: id}
		want, wantErr := single.chain().Remove(id, ts)
		got, err := c.Remove(id, ts)
		if fmt.Sprint(err) != fmt.Sprint(wantErr) {
			rt.Fatalf("%v, alone %v", err, wantErr)
		}
		if err != nil {
			continue
		}
		a, d := NewDraft(0), NewDraft(0)
		a.Continue(&want)
		d.Continue(&got)
		check(rt, a.SealTombstone(format.Hash{}, &m))
		check(rt, d.SealTombstone(format.Hash{}, &m))
		single.store(a)
		if drafts = append(drafts, d); len(drafts) > 1 {
			drafts[0].Then(drafts[len(drafts)-2], d)
		}
		d.Precede(c)
	}
	for _, d := range drafts {
		batched.store(d)
		if !bytes.Equal(single.records[d.head.LSN].block, batched.records[d.head.LSN].block) || single.records[d.head.LSN].head != d.head {
			rt.Fatalf("record %d: %+v, alone %+v", d.head.LSN, d.head, single.records[d.head.LSN].head)
		}
	}
}
