package bundle

import (
	"encoding/binary"
	"testing"

	"martlet/object-server/bundle/format"
	"martlet/object-server/bundle/index"
	"martlet/object-server/proof"
	"martlet/object-server/vfs"
)

// repair makes the checksum of a header right, so that fuzzing gets past it.
func repair(b []byte) {
	if len(b) >= format.HeaderSize {
		binary.LittleEndian.PutUint32(b[124:], format.Checksum(b[:124]))
	}
}

// FuzzOpen opens a bundle of arbitrary bytes. Where at points into a header its
// checksum is made right.
func FuzzOpen(f *testing.F) {
	f.Add(readGolden(f), uint(0), uint(2))
	f.Add(readGolden(f)[:700], uint(2), uint(8))
	f.Fuzz(func(t *testing.T, b []byte, first, second uint) {
		for _, at := range []uint{first, second} {
			if at < uint(len(b))/format.UnitSize {
				repair(b[at*format.UnitSize:])
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
		log.index.Each(func(s index.Slot) bool {
			head, err := log.preadExactly(log.segments.table[s.Segment()], s.Unit(), format.HeaderSize)
			check(t, err)
			defer head.Free()
			_, buffer, _ := log.Read(format.Hash(head.B[24:40]))
			buffer.Free()
			return true
		})
	})
}
