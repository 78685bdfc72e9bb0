package bundle

import (
	"bytes"
	"testing"

	"martlet/object-server/bundle/format"
	"martlet/object-server/proof"
	"martlet/object-server/vfs"
)

// goldenSealed encodes a segment with a CHECKPOINT and a footer from fixed
// values: the records 10 to 13, of which 11 deletes what 10 was.
func goldenSealed(t testing.TB) []byte {
	segment := format.SegmentHeader{
		Policy: uint32(goldenID.Policy), Partition: goldenID.Partition, Sequence: 3,
		UUID: goldenHash(0xc0), Bundle: format.Identity(goldenHash(0x30)), BaseLSN: 10, Created: 178000000000000,
	}
	b := segment.Encode()
	var entries []format.Entry
	var lastCheckpoint uint32
	write := func(d *Draft, lsn uint64) {
		unit := uint32(len(b) / format.UnitSize)
		d.stamp(lsn, lsn-1, segment.Salt(), lastCheckpoint)
		if b = append(b, d.bytes()...); d.head.Type == format.TypeCheckpoint {
			lastCheckpoint = unit
			return
		}
		entries = append(entries, d.head.Entry(unit))
	}
	drafts := goldenDrafts(t)
	put, spill, tombstone := drafts[0], drafts[1], drafts[2]
	write(put, 10)
	tombstone.head.Hash = put.head.Hash
	write(tombstone, 11)
	covered := bytes.Clone(format.AppendRun(nil, segment.BaseLSN, entries))
	c := format.Checkpoint{Sequence: 3, Resume: uint32(len(b) / format.UnitSize)}
	d := NewDraft(0)
	d.Write(c.Prefix())
	d.Write(covered)
	check(t, d.sealCheckpoint(11))
	write(d, 12)
	write(spill, 13)
	samples := format.SamplesOf(entries, segment.BaseLSN)
	format.SortRun(entries)
	seal := format.Seal{Salt: segment.Salt(), Base: segment.BaseLSN, Last: 13, Through: segment.Sequence}
	footer, err := seal.Encode(entries, samples)
	check(t, err)
	return append(b, footer...)
}

func TestGoldenSealed(t *testing.T) {
	golden := goldenSealed(t)
	proof.Golden(t, sealedFile, golden)
	for _, size := range []int{len(golden), len(golden) - 1} { // by the footer; by checkpoint and record
		fs := vfs.NewMem("/d", "/d/bundles-1", "/d/bundles-1/600")
		plant(t, fs, "/d/bundles-1/600/00000003-0000.bundle", golden[:size])
		log, err := Open(NewFiles(fs, "/d", 10), goldenID, logConfig)
		check(t, err)
		gone, _, err := log.Read(goldenHash(0x00))
		check(t, err)
		large, _, err := log.Read(goldenHash(0x10))
		check(t, err)
		if log.lastLSN != 13 || log.Len() != 2 || gone.Type() != format.TypeTombstone || gone.LSN() != 11 || large.LSN() != 13 {
			t.Fatalf("record %d, %d names, %+v, %+v", log.lastLSN, log.Len(), gone, large)
		}
	}
}
