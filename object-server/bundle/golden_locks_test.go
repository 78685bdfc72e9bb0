package bundle

import (
	"os"
	"testing"

	"martlet/object-server/bundle/format"
	"martlet/object-server/proof"
	"martlet/object-server/vfs"
)

const goldenLocksFile = "../../test/golden/bundle/locks/00000001-0000.bundle"

// goldenLocks are the locks of a PUT, and of a TOMBSTONE that bypasses governance.
func goldenLocks() (put, removal *format.Lock) {
	put = &format.Lock{
		Compliance: 178000000400000, Governance: 178000000500000, Governed: format.Timestamp{Ticks: 178000000100000},
		Hold: true, Held: format.Timestamp{Ticks: 178000000200000, Offset: 1},
	}
	return put, &format.Lock{Bypass: true}
}

// goldenLockDrafts are an object with a lock, and the removal of another one.
func goldenLockDrafts(t testing.TB) []*Draft {
	put, removal := NewDraft(5), NewDraft(0)
	m := goldenMetadata()
	gone := format.Metadata{Name: "/AUTH_test/photos/auk", Timestamp: format.Timestamp{Ticks: 178000000000001}}
	gone.MetaTimestamp, gone.TypeTimestamp = gone.Timestamp, gone.Timestamp
	m.Lock, gone.Lock = goldenLocks()
	put.Write([]byte("hello"))
	check(t, put.SealPut(goldenHash(0x00), &m, nil))
	check(t, removal.SealTombstone(goldenHash(0x20), &gone))
	return []*Draft{put, removal}
}

func TestGoldenLocks(t *testing.T) {
	head := format.SegmentHeader{
		Policy: uint32(goldenID.Policy), Partition: goldenID.Partition, Sequence: 1,
		UUID: goldenHash(0xa0), Bundle: format.Identity(goldenHash(0x30)), BaseLSN: 1, Created: 178000000000000,
	}
	encoded := head.Encode()
	for i, d := range goldenLockDrafts(t) {
		d.stamp(uint64(i+1), uint64(i), head.Salt(), 0)
		encoded = append(encoded, d.bytes()...)
	}
	proof.Golden(t, goldenLocksFile, encoded)

	stored, err := os.ReadFile(goldenLocksFile)
	check(t, err)
	fs := vfs.NewMem("/d", "/d/bundles-1", "/d/bundles-1/600")
	plant(t, fs, "/d/bundles-1/600/00000001-0000.bundle", stored)
	b, err := Open(NewFiles(fs, "/d", 10), goldenID, logConfig)
	check(t, err)
	put, removal := goldenLocks()
	for hash, want := range map[format.Hash]*format.Lock{goldenHash(0x00): put, goldenHash(0x20): removal} {
		record, buffer, err := b.ReadHead(hash)
		check(t, err)
		m, err := record.Metadata()
		buffer.Free()
		check(t, err)
		if !format.SameLock(m.Lock, want) || record.Head.Flags != format.FlagLock {
			t.Errorf("%+v, flags %#x, want %+v", m.Lock, record.Head.Flags, want)
		}
	}
}
