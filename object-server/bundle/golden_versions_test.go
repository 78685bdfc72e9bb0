package bundle

import (
	"bytes"
	"encoding/hex"
	"os"
	"testing"

	"martlet/object-server/bundle/format"
	"martlet/object-server/bundle/versions"
	"martlet/object-server/proof"
	"martlet/object-server/vfs"
)

const (
	goldenVersionsFile = "../../test/golden/bundle/versions/00000001-0000.bundle"
	goldenVersionsPage = "../../doc/formats/versions.md"
	goldenShown        = 3 // LSN of the record on the page
)

// goldenStep is a record of the golden chain.
type goldenStep struct {
	kind  format.Type
	id    byte // first byte of the version id; 0 is the null version
	ticks uint64
	post  uint64 // of a POST: its time
}

// goldenSteps are a PUT without versions, versions in and out of order, a delete
// marker, a removal and a POST.
var goldenSteps = []goldenStep{
	{format.TypePut, 0, 178000000000000, 0},
	{format.TypePut, 0xb0, 178000000100000, 0},
	{format.TypePut, 0xc0, 178000000200000, 0},
	{format.TypeDeleteMarker, 0xd0, 178000000300000, 0},
	{format.TypePut, 0xe0, 178000000050000, 0},
	{format.TypeTombstone, 0xd0, 178000000400000, 0},
	{format.TypePut, 0xb0, 178000000100000, 178000000500000},
}

func goldenVersion(first byte) format.VersionID {
	if first == 0 {
		return format.VersionID{}
	}
	return format.VersionID(goldenHash(first))
}

// goldenVersions encodes the segment from fixed values.
func goldenVersions(t testing.TB) []byte {
	head := format.SegmentHeader{
		Policy: uint32(goldenID.Policy), Partition: goldenID.Partition, Sequence: 1,
		UUID: goldenHash(0xa0), Bundle: format.Identity(goldenHash(0x30)), BaseLSN: 1, Created: 178000000000000,
	}
	b := head.Encode()
	store := newDraftStore()
	for i, s := range goldenSteps {
		d := goldenVersionDraft(t, store, s)
		d.stamp(uint64(i+1), uint64(i), head.Salt(), 0)
		store.head = uint64(i + 1)
		store.records[store.head] = storedDraft{d.head, d.bytes()[format.HeaderSize : format.HeaderSize+int(d.head.BlockLength)]}
		b = append(b, d.bytes()...)
	}
	pad := NewDraft(0)
	pad.sealPad()
	lsn := uint64(len(goldenSteps) + 1)
	pad.stamp(lsn, lsn-1, head.Salt(), 0)
	return append(b, pad.bytes()...)
}

func goldenVersionDraft(t testing.TB, store *draftStore, s goldenStep) *Draft {
	id, ts := goldenVersion(s.id), format.Timestamp{Ticks: s.ticks}
	m := format.Metadata{Name: "/AUTH_test/photos/heron", Timestamp: ts, MetaTimestamp: ts, TypeTimestamp: ts, VersionID: id}
	c, d := store.chain(), NewDraft(0)
	var a versions.Addition
	var err error
	switch {
	case s.post != 0:
		m.MetaTimestamp.Ticks = s.post
		old, failed := c.Find(id)
		check(t, failed)
		a, err = c.Rewrite(old)
	case s.kind == format.TypeTombstone:
		a, err = c.Remove(id, ts)
	default:
		a, err = c.Add(id, ts)
	}
	check(t, err)
	if store.head != 0 {
		d.Continue(&a)
	}
	switch s.kind {
	case format.TypePut:
		d.Write([]byte("hello"))
		m.Size = 5
		check(t, d.SealPut(goldenHash(0), &m, nil))
	case format.TypeTombstone:
		check(t, d.SealTombstone(goldenHash(0), &m))
	default:
		check(t, d.SealDeleteMarker(goldenHash(0), &m))
	}
	return d
}

func TestGoldenVersionsEncode(t *testing.T) {
	proof.Golden(t, goldenVersionsFile, goldenVersions(t))
}

func TestGoldenVersionsDecode(t *testing.T) {
	stored, err := os.ReadFile(goldenVersionsFile)
	check(t, err)
	fs := vfs.NewMem("/d", "/d/bundles-1", "/d/bundles-1/600")
	plant(t, fs, "/d/bundles-1/600/00000001-0000.bundle", stored)
	b, err := Open(NewFiles(fs, "/d", 10), goldenID, logConfig)
	check(t, err)
	record, buffer, err := b.ReadHead(goldenHash(0))
	check(t, err)
	c, err := b.Chain(goldenHash(0), record, nil)
	buffer.Free()
	check(t, err)
	page, err := c.Page(versions.Marker{}, 10)
	check(t, err)
	want := []struct {
		id       byte
		lsn      uint64
		ticks, s uint64
	}{
		{0xc0, 3, 178000000200000, 0}, {0xb0, 7, 178000000100000, 178000000200000},
		{0xe0, 5, 178000000050000, 178000000100000}, {0, 1, 178000000000000, 178000000050000},
	}
	if len(page) != len(want) || c.Len() != len(want) || c.Incomplete() {
		t.Fatalf("%+v", page)
	}
	for i, v := range page {
		w := want[i]
		if v.ID != goldenVersion(w.id) || v.LSN != w.lsn || v.Timestamp.Ticks != w.ticks || v.Successor.Ticks != w.s || v.Size != 5 {
			t.Errorf("version %d: %+v", i, v)
		}
	}
}

// The page shows every byte of one record.
func TestGoldenVersionsPage(t *testing.T) {
	shown := pageExample(t, goldenVersionsPage)
	b := goldenVersions(t)[format.SegmentHeaderSize:]
	head, err := format.ParseHeader(b)
	check(t, err)
	for head.LSN < goldenShown {
		b = b[int(head.Units)*format.UnitSize:]
		head, err = format.ParseHeader(b)
		check(t, err)
	}
	if want := b[:int(head.Units)*format.UnitSize]; !bytes.Equal(shown, want) {
		t.Fatalf("the example in %s is not of the golden file; it should be\n%s", goldenVersionsPage, hex.Dump(want))
	}
}
