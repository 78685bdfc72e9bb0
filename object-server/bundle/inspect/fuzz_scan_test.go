package inspect

import (
	"encoding/binary"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"martlet/object-server/bundle"
	"martlet/object-server/bundle/format"
	"martlet/object-server/proof"
	"martlet/object-server/vfs"
)

var goldenID = bundle.ID{Policy: 1, Partition: 600}

func readGolden(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("../../../test/golden/bundle", name))
	check(t, err)
	return b
}

// mendHeader makes the checksum of a header right, so that fuzzing gets past it.
func mendHeader(b []byte) {
	if len(b) >= format.HeaderSize {
		binary.LittleEndian.PutUint32(b[124:], format.Checksum(b[:124]))
	}
}

// FuzzScan reads, describes and repairs segments of arbitrary bytes. Where at
// points into a header its checksum is made right. What repair leaves is clean.
func FuzzScan(f *testing.F) {
	for _, golden := range []string{"00000001-0000.bundle", "sealed/00000003-0000.bundle", "versions/00000001-0000.bundle"} {
		golden := readGolden(f, golden)
		f.Add(golden, uint(0), uint(2))
		f.Add(golden[:700], uint(2), uint(8))
		f.Add(golden[:len(golden)-64], uint(4), uint(16))
	}
	const path = "/d/bundles-1/600/00000001-0000.bundle"
	f.Fuzz(func(t *testing.T, b []byte, first, second uint) {
		for _, at := range []uint{first, second} {
			if at < uint(len(b))/format.UnitSize {
				mendHeader(b[at*format.UnitSize:])
			}
		}
		fs := vfs.NewMem("/d", "/d/bundles-1", "/d/bundles-1/600")
		plant(t, fs, path, b)
		proof.Bounded(t, len(b), func() { scanAndDescribe(t, fs, path) })
		files := bundle.NewFiles(fs, "/d", 4)
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
		if v, err := Verify(bundle.NewFiles(fs, "/d", 4), goldenID, ""); err != nil || len(v.Damages) > 0 {
			t.Fatalf("%v; after the repair of %+v: %+v", err, plan.Damages, v)
		}
		if log, err := bundle.Open(bundle.NewFiles(fs, "/d", 4), goldenID, logConfig); err != nil || len(log.Report().Damaged) > 0 {
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
