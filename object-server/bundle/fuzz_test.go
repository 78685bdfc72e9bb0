package bundle

import (
	"bytes"
	"encoding/binary"
	"testing"

	"martlet/object-server/proof"
	"martlet/object-server/vfs"
)

// repair makes the checksum of a header right, so that fuzzing gets past it.
func repair(b []byte) {
	if len(b) >= headerSize {
		binary.LittleEndian.PutUint32(b[124:], checksum(b[:124]))
	}
}

func FuzzRecord(f *testing.F) {
	segment := readGolden(f)
	for offset := segmentHeaderSize; offset < len(segment); {
		head, err := parseHeader(segment[offset:])
		check(f, err)
		f.Add(segment[offset : offset+int(head.Units)*unitSize])
		offset += int(head.Units) * unitSize
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		repair(b)
		head, err := parseHeader(b)
		if err != nil {
			return
		}
		parts := head.layout()
		if uint64(len(b)) >= parts.length { // get past the other checksums too
			head.MetadataCRC = checksum(b[headerSize:parts.data])
			start := parts.table
			if head.Type == TypeSpill {
				start = parts.data
			}
			head.DataCRC = checksum(b[start:parts.end])
			head.encode(b)
		}
		var record *Record
		proof.Bounded(t, len(b), func() { record, err = parseRecord(b) })
		if err != nil {
			return
		}
		_ = record.checkData()
		m, err := record.Metadata()
		if err != nil {
			return
		}
		encoded, err := m.MarshalMsg(nil)
		if err != nil {
			t.Fatal(err)
		}
		again, err := decodeMetadata(encoded)
		if err != nil {
			t.Fatal(err)
		}
		if second, err := again.MarshalMsg(nil); err != nil || !bytes.Equal(encoded, second) {
			t.Fatal("metadata change when they are read and written", err)
		}
	})
}

func FuzzSegmentHeader(f *testing.F) {
	f.Add(readGolden(f)[:segmentHeaderSize])
	f.Fuzz(func(t *testing.T, b []byte) {
		repair(b)
		head, err := parseSegmentHeader(b)
		if err != nil {
			return
		}
		if again, err := parseSegmentHeader(head.encode()); err != nil || again != head {
			t.Fatal(err, head, again)
		}
	})
}

// FuzzOpen opens a bundle of arbitrary bytes. Where at points into a header its
// checksum is made right.
func FuzzOpen(f *testing.F) {
	f.Add(readGolden(f), uint(0), uint(2))
	f.Add(readGolden(f)[:700], uint(2), uint(8))
	f.Fuzz(func(t *testing.T, b []byte, first, second uint) {
		for _, at := range []uint{first, second} {
			if at < uint(len(b))/unitSize {
				repair(b[at*unitSize:])
			}
		}
		fs := vfs.NewMem("/d", "/d/bundles-1", "/d/bundles-1/600")
		plant(t, fs, "/d/bundles-1/600/00000001-0000.bundle", b)
		var log *Bundle
		var err error
		proof.Bounded(t, len(b), func() { log, err = Open(NewFiles(fs, "/d", 2), goldenID, logConfig) })
		if err != nil {
			return
		}
		report := log.Report()
		if again, err := Open(NewFiles(fs, "/d", 2), goldenID, logConfig); err != nil || again.lastLSN != log.lastLSN ||
			again.Len() != log.Len() || len(again.report.Damaged) != len(report.Damaged) {
			t.Fatal("opening is not idempotent", err)
		}
		log.index.each(func(s slot) bool {
			head, err := log.preadExactly(log.segments.table[s.segment()], s.unit(), headerSize)
			check(t, err)
			defer head.Free()
			_, buffer, _ := log.Read(Hash(head.B[24:40]))
			buffer.Free()
			return true
		})
	})
}

func FuzzTimestamp(f *testing.F) {
	for _, s := range []string{"0", "1780000000.12345", "1780000000.12345_000000000000002a", "9999999999.999994", "1.5_f"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		parsed, err := ParseTimestamp(s)
		if err != nil {
			return
		}
		if again, err := ParseTimestamp(parsed.String()); err != nil || again != parsed {
			t.Fatal(s, parsed, again, err)
		}
	})
}
