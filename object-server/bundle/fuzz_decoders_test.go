package bundle

import (
	"bytes"
	"testing"

	"martlet/object-server/proof"
)

func FuzzHeader(f *testing.F) {
	segment := readGolden(f)
	for offset := segmentHeaderSize; offset < len(segment); {
		head, err := parseHeader(segment[offset:])
		check(f, err)
		f.Add(segment[offset : offset+headerSize])
		offset += int(head.Units) * unitSize
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		repair(b)
		head, err := parseHeader(b)
		if err != nil {
			return
		}
		encoded := make([]byte, headerSize)
		head.encode(encoded)
		if again, err := parseHeader(encoded); err != nil || again != head {
			t.Fatal(err, head, again)
		}
	})
}

func FuzzMetadata(f *testing.F) {
	segment := readGolden(f)
	for offset := segmentHeaderSize; offset < len(segment); {
		head, err := parseHeader(segment[offset:])
		check(f, err)
		parts := head.layout()
		f.Add(segment[offset+int(parts.metadata) : offset+int(parts.metadata)+int(head.MetadataLength)])
		offset += int(head.Units) * unitSize
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var m *Metadata
		var err error
		proof.Bounded(t, len(b), func() { m, err = decodeMetadata(b) })
		if err != nil {
			return
		}
		encoded, err := m.MarshalMsg(nil)
		if err != nil {
			return // more headers than are written
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

// FuzzSeal reads a footer, and one with checksums made right.
func FuzzSeal(f *testing.F) {
	footer, err := encodeSeal(1, 2, 4, 1, []runEntry{
		{Hash: Hash{1}, LSN: 2, Unit: 2, Units: 4, Type: TypePut}, {Hash: Hash{2}, LSN: 3, Unit: 6, Units: 2, Type: TypeTombstone},
	}, []sample{{0, 2}})
	check(f, err)
	f.Add(footer, int64(1<<20))
	f.Add(footer, int64(1<<9))
	f.Fuzz(func(t *testing.T, b []byte, size int64) {
		if len(b) < headerSize {
			return
		}
		repair(b[len(b)-headerSize:])
		proof.Bounded(t, len(b), func() {
			s, err := parseSeal(b[len(b)-headerSize:])
			if err != nil {
				return
			}
			run, samples, err := s.check(b[:len(b)-headerSize])
			if err != nil {
				if s.size > uint64(len(b)) {
					return
				}
				run, samples = b[:min(s.size, uint64(s.count)*runEntrySize)], nil
			}
			_ = parseSamples(samples)
			entries, err := parseRun(nil, run, s.base, size)
			if err == nil && !bytes.Equal(reserved(appendRun(nil, s.base, entries)), reserved(run)) {
				t.Fatal("a run changes when it is read and written")
			}
		})
	})
}

// reserved returns a copy of a run with zeros where nothing is meant.
func reserved(run []byte) []byte {
	run = bytes.Clone(run)
	for i := range run {
		if i%runEntrySize >= 30 {
			run[i] = 0
		}
	}
	return run
}

func FuzzCheckpoint(f *testing.F) {
	c := checkpoint{sequence: 1, before: 2, resume: 3}
	f.Add(appendRun(c.prefix(), 1, []runEntry{{Hash: Hash{1}, LSN: 2, Unit: 2, Units: 4, Type: TypePut}}), uint64(1), int64(1<<20))
	f.Fuzz(func(t *testing.T, b []byte, base uint64, size int64) {
		proof.Bounded(t, len(b), func() {
			c, err := parseCheckpoint(b)
			if err != nil {
				return
			}
			entries, err := parseRun(nil, c.run, base, size)
			if err == nil && !bytes.Equal(reserved(appendRun(c.prefix(), base, entries)[checkpointPrefix:]), reserved(c.run)) {
				t.Fatal("a run changes when it is read and written")
			}
		})
	})
}
