package bundle

import (
	"errors"
	"io"
	"testing"

	"martlet/object-server/bundle/format"
	"martlet/object-server/proof"
	"martlet/object-server/vfs"
)

// FuzzScan reads, describes and repairs segments of arbitrary bytes. Where at
// points into a header its checksum is made right. What repair leaves is clean.
func FuzzScan(f *testing.F) {
	for _, golden := range [][]byte{readGolden(f), goldenSealed(f), goldenVersions(f)} {
		f.Add(golden, uint(0), uint(2))
		f.Add(golden[:700], uint(2), uint(8))
		f.Add(golden[:len(golden)-64], uint(4), uint(16))
	}
	const path = "/d/bundles-1/600/00000001-0000.bundle"
	f.Fuzz(func(t *testing.T, b []byte, first, second uint) {
		for _, at := range []uint{first, second} {
			if at < uint(len(b))/format.UnitSize {
				repair(b[at*format.UnitSize:])
			}
		}
		fs := vfs.NewMem("/d", "/d/bundles-1", "/d/bundles-1/600")
		plant(t, fs, path, b)
		proof.Bounded(t, len(b), func() { scanAndDescribe(t, fs, path) })
		files := NewFiles(fs, "/d", 4)
		defer files.Close()
		proof.Bounded(t, len(b), func() {
			if _, err := Verify(files, goldenID, ""); err != nil && !format.IsDamage(err) {
				t.Fatal(err)
			}
		})
		plan, err := PlanRepair(files, goldenID)
		if err != nil { // of a later version, or moved by hand
			return
		}
		if err := plan.Run("/d/quarantined/objects-1/600-now"); err != nil {
			t.Fatal(err)
		}
		if v, err := Verify(NewFiles(fs, "/d", 4), goldenID, ""); err != nil || len(v.Damages) > 0 {
			t.Fatalf("%v; after the repair of %+v: %+v", err, plan.Damages, v)
		}
		if log, err := Open(NewFiles(fs, "/d", 4), goldenID, logConfig); err != nil || len(log.Report().Damaged) > 0 {
			t.Fatalf("opened after the repair of %+v: %v, %+v", plan.Damages, err, log)
		}
	})
}

func scanAndDescribe(t *testing.T, fs vfs.FS, path string) {
	for _, whole := range []bool{false, true} {
		s, err := OpenScan(fs, path, whole)
		if errors.Is(err, format.ErrUnsupported) {
			return
		}
		check(t, err)
		_ = s.Segment()
		for end := int64(0); ; {
			e, err := s.Next()
			if err == io.EOF {
				break
			}
			check(t, err)
			_ = e.Metadata()
			if e.Record == nil {
				continue
			}
			if e.Offset < end {
				t.Fatalf("a record at offset %d, the one before ends at %d", e.Offset, end)
			}
			end = e.Offset + e.Length
			_, err = s.Describe(e)
			check(t, err)
			_, err = Describe(fs, path, e.Offset)
			check(t, err)
		}
		check(t, s.Close())
	}
}
