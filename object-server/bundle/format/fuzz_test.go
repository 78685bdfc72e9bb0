package format

import (
	"testing"

	"martlet/object-server/proof"
)

func FuzzRecord(f *testing.F) {
	segment := readGolden(f)
	for offset := SegmentHeaderSize; offset < len(segment); {
		head, err := ParseHeader(segment[offset:])
		check(f, err)
		f.Add(segment[offset : offset+int(head.Units)*UnitSize])
		offset += int(head.Units) * UnitSize
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		repair(b)
		head, err := ParseHeader(b)
		if err != nil {
			return
		}
		parts := head.Layout()
		if uint64(len(b)) >= parts.Length { // get past the other checksums too
			head.MetadataCRC = Checksum(b[HeaderSize:parts.Data])
			start := parts.Table
			if head.Type == TypeSpill {
				start = parts.Data
			}
			head.DataCRC = Checksum(b[start:parts.End])
			head.Encode(b)
		}
		var record *Record
		proof.Bounded(t, len(b), func() { record, err = ParseRecord(b) })
		if err != nil {
			return
		}
		_ = record.CheckData()
		if m, err := record.Metadata(); err == nil {
			writeAgain(t, m)
		}
	})
}

func FuzzSegmentHeader(f *testing.F) {
	f.Add(readGolden(f)[:SegmentHeaderSize])
	f.Fuzz(func(t *testing.T, b []byte) {
		repair(b)
		head, err := ParseSegmentHeader(b)
		if err != nil {
			return
		}
		if again, err := ParseSegmentHeader(head.Encode()); err != nil || again != head {
			t.Fatal(err, head, again)
		}
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
