package bundle

import (
	"bytes"
	"encoding/hex"
	"os"
	"strings"
	"testing"

	"martlet/object-server/bundle/format"
	"martlet/object-server/proof"
	"martlet/object-server/vfs"
)

const (
	goldenFile = "../../test/golden/bundle/00000001-0000.bundle"
	sealedFile = "../../test/golden/bundle/sealed/00000003-0000.bundle"
	goldenPage = "../../doc/formats/bundle.md"
)

var goldenID = ID{Policy: 1, Partition: 600}

func goldenHash(first byte) (h format.Hash) {
	for i := range h {
		h[i] = first + byte(i)
	}
	return h
}

func goldenMetadata() format.Metadata {
	return format.Metadata{
		Name: "/AUTH_test/photos/heron", ContentType: "text/plain", ETag: "5d41402abc4b2a76b9719d911017c592",
		Size: 5, DeleteAt: 0,
		Timestamp:     format.Timestamp{Ticks: 178000000012345},
		MetaTimestamp: format.Timestamp{Ticks: 178000000012345},
		TypeTimestamp: format.Timestamp{Ticks: 178000000012345},
		System:        format.Headers{"X-Object-Sysmeta-Origin": "a"},
		User:          format.Headers{"X-Object-Meta-Where": "pond", "X-Object-Meta-Legs": "2"},
	}
}

// goldenDrafts has one record of each type that is written today.
func goldenDrafts(t testing.TB) []*Draft {
	m := goldenMetadata()
	put := NewDraft(5)
	put.Write([]byte("hello"))
	check(t, put.SealPut(goldenHash(0x00), &m, nil))

	large := m
	large.Name, large.Size = "/AUTH_test/photos/crane", 3*format.ChunkSize/2
	large.MetaTimestamp = format.Timestamp{Ticks: 178000000099999, Offset: 0x2a}
	spill := NewDraft(0)
	table := format.AppendChunkTable(nil, bytes.Repeat([]byte("crane"), int(large.Size)/5+1)[:large.Size])
	check(t, spill.SealSpill(goldenHash(0x10), &large, 0x0123456789abcdef, table))

	gone := format.Metadata{Name: "/AUTH_test/photos/auk", Timestamp: format.Timestamp{Ticks: 178000000000001, Offset: 1}}
	gone.MetaTimestamp, gone.TypeTimestamp = gone.Timestamp, gone.Timestamp
	tombstone := NewDraft(0)
	check(t, tombstone.SealTombstone(goldenHash(0x20), &gone))

	pad := NewDraft(0)
	pad.sealPad()
	return []*Draft{put, spill, tombstone, pad}
}

var check = proof.Check

// golden encodes the segment from fixed values.
func golden(t testing.TB) []byte {
	head := format.SegmentHeader{
		Policy: uint32(goldenID.Policy), Partition: goldenID.Partition, Sequence: 1,
		UUID: goldenHash(0xa0), Bundle: format.Identity(goldenHash(0x30)), BaseLSN: 1, Created: 178000000000000,
	}
	b := head.Encode()
	for i, d := range goldenDrafts(t) {
		d.stamp(uint64(i+1), uint64(i/2*2), head.Salt(), 0) // two batches of two
		b = append(b, d.bytes()...)
	}
	return b
}

func readGolden(t testing.TB) []byte {
	t.Helper()
	b, err := os.ReadFile(goldenFile)
	check(t, err)
	return b
}

func TestGoldenEncode(t *testing.T) {
	proof.Golden(t, goldenFile, golden(t))
}

// pageExample returns the bytes that a page on a format shows as its example;
// none if it has no such section.
func pageExample(t *testing.T, path string) (shown []byte) {
	page, err := os.ReadFile(path)
	check(t, err)
	_, example, _ := strings.Cut(string(page), "\n## Example")
	for line := range strings.Lines(example) {
		fields := strings.Fields(line)
		if !strings.HasPrefix(line, "    ") || len(fields) < 2 {
			continue
		}
		for _, field := range fields[1:] {
			b, err := hex.DecodeString(field)
			if err != nil {
				break // the text beside the bytes
			}
			shown = append(shown, b...)
		}
	}
	return shown
}

// The page shows the first bytes of the golden file, header and one record.
func TestGoldenPage(t *testing.T) {
	shown := pageExample(t, goldenPage)
	b := readGolden(t)
	head, err := format.ParseHeader(b[format.SegmentHeaderSize:])
	check(t, err)
	want := b[:format.SegmentHeaderSize+int(head.Units)*format.UnitSize]
	if !bytes.Equal(shown, want) {
		t.Fatalf("the example in %s is not the golden file; it should be\n%s", goldenPage, hex.Dump(want))
	}
}

func TestGoldenDecode(t *testing.T) {
	fs := vfs.NewMem("/d", "/d/bundles-1", "/d/bundles-1/600", "/d/bundles-1/600/large")
	plant(t, fs, "/d/bundles-1/600/00000001-0000.bundle", readGolden(t))
	plant(t, fs, "/d/bundles-1/600/large/0123456789abcdef.data", nil)
	b, err := Open(NewFiles(fs, "/d", 10), goldenID, logConfig)
	check(t, err)
	if r := b.Report(); r.Records != 3 || r.TornTails != 0 || len(r.Damaged) != 0 || r.LargeAside != 0 {
		t.Fatalf("report %+v", r)
	}
	record, buffer, err := b.Read(goldenHash(0x00))
	check(t, err)
	defer buffer.Free()
	m, err := record.Metadata()
	check(t, err)
	want := goldenMetadata()
	if string(record.Data) != "hello" || m.Name != want.Name || m.ETag != want.ETag || m.Timestamp != want.Timestamp ||
		m.User["X-Object-Meta-Where"] != "pond" || m.System["X-Object-Sysmeta-Origin"] != "a" {
		t.Fatalf("%q %+v", record.Data, m)
	}
	check(t, record.CheckChunk(0, record.Data))
	if large, _, err := b.Read(goldenHash(0x10)); err != nil || large.Type() != format.TypeSpill || large.LargeID != 0x0123456789abcdef {
		t.Fatal(large, err)
	}
	if gone, _, err := b.Read(goldenHash(0x20)); err != nil || gone.Live() || gone.Timestamp() != (format.Timestamp{Ticks: 178000000000001, Offset: 1}) {
		t.Fatal(gone, err)
	}
}

// plant makes a file with durable content.
func plant(t testing.TB, fs vfs.FS, name string, content []byte) {
	t.Helper()
	f, err := fs.Create(name)
	check(t, err)
	check(t, f.Writev([][]byte{content}, 0))
	check(t, f.Datasync())
	check(t, f.Close())
}
