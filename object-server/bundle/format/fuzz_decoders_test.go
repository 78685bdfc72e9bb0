package format

import (
	"bytes"
	"testing"

	"martlet/object-server/proof"
)

func FuzzHeader(f *testing.F) {
	segment := readGolden(f)
	for offset := SegmentHeaderSize; offset < len(segment); {
		head, err := ParseHeader(segment[offset:])
		check(f, err)
		f.Add(segment[offset : offset+HeaderSize])
		offset += int(head.Units) * UnitSize
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		repair(b)
		head, err := ParseHeader(b)
		if err != nil {
			return
		}
		encoded := make([]byte, HeaderSize)
		head.Encode(encoded)
		if again, err := ParseHeader(encoded); err != nil || again != head {
			t.Fatal(err, head, again)
		}
	})
}

func FuzzMetadata(f *testing.F) {
	segment := readGolden(f)
	for offset := SegmentHeaderSize; offset < len(segment); {
		head, err := ParseHeader(segment[offset:])
		check(f, err)
		parts := head.Layout()
		f.Add(segment[offset+int(parts.Metadata) : offset+int(parts.Metadata)+int(head.MetadataLength)])
		offset += int(head.Units) * UnitSize
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var m *Metadata
		var err error
		proof.Bounded(t, len(b), func() { m, err = DecodeMetadata(b) })
		if err == nil {
			writeAgain(t, m)
		}
	})
}

// writeAgain demands that metadata that were read are written and read as the same.
func writeAgain(t *testing.T, m *Metadata) {
	t.Helper()
	encoded, err := m.MarshalMsg(nil)
	check(t, err)
	again, err := DecodeMetadata(encoded)
	check(t, err)
	if second, err := again.MarshalMsg(nil); err != nil || !bytes.Equal(encoded, second) {
		t.Fatal("metadata change when they are read and written", err)
	}
}

// FuzzSeal reads a footer, and one with checksums made right.
func FuzzSeal(f *testing.F) {
	footer, err := (&Seal{Salt: 1, Base: 2, Last: 4, Through: 1, Horizon: 5}).Encode([]Entry{
		{Hash: Hash{1}, LSN: 2, Unit: 2, Units: 4, Type: TypePut}, {Hash: Hash{2}, LSN: 3, Unit: 6, Units: 2, Type: TypeTombstone},
	}, []Sample{{0, 2}})
	check(f, err)
	f.Add(footer, int64(1<<20))
	f.Add(footer, int64(1<<9))
	f.Fuzz(func(t *testing.T, b []byte, size int64) {
		if len(b) < HeaderSize {
			return
		}
		repair(b[len(b)-HeaderSize:])
		proof.Bounded(t, len(b), func() {
			s, err := ParseSeal(b[len(b)-HeaderSize:])
			if err != nil {
				return
			}
			run, samples, err := s.Check(b[:len(b)-HeaderSize])
			if err != nil {
				if s.size > uint64(len(b)) {
					return
				}
				run, samples = b[:min(s.size, uint64(s.Count)*EntrySize)], nil
			}
			_ = ParseSamples(samples)
			entries, err := ParseRun(nil, run, s.Base, size)
			if err == nil && !bytes.Equal(reserved(AppendRun(nil, s.Base, entries)), reserved(run)) {
				t.Fatal("a run changes when it is read and written")
			}
		})
	})
}

// reserved returns a copy of a run with zeros where nothing is meant.
func reserved(run []byte) []byte {
	run = bytes.Clone(run)
	for i := range run {
		if i%EntrySize >= entryChecked {
			run[i] = 0
		}
	}
	return run
}

func FuzzCheckpoint(f *testing.F) {
	c := Checkpoint{Sequence: 1, Before: 2, Resume: 3}
	f.Add(AppendRun(c.Prefix(), 1, []Entry{{Hash: Hash{1}, LSN: 2, Unit: 2, Units: 4, Type: TypePut}}), uint64(1), int64(1<<20))
	f.Fuzz(func(t *testing.T, b []byte, base uint64, size int64) {
		proof.Bounded(t, len(b), func() {
			c, err := ParseCheckpoint(b)
			if err != nil {
				return
			}
			entries, err := ParseRun(nil, c.Run, base, size)
			if err == nil && !bytes.Equal(reserved(AppendRun(c.Prefix(), base, entries)[checkpointPrefix:]), reserved(c.Run)) {
				t.Fatal("a run changes when it is read and written")
			}
		})
	})
}
