package inspect

import (
	"io"
	"testing"

	"martlet/object-server/bundle/segment"
	"martlet/object-server/vfs"
)

// A segment file with a bad sector is scanned by itself to its end.
func TestScanOfBadSectors(t *testing.T) {
	fs := vfs.NewMem("/d")
	b := openLog(t, fs)
	for n := range 48 {
		b.append(t, put(t, n, 1))
	}
	size := int64(len(contents(t, fs, logSegment)))
	try := func(bad segment.Span) {
		disk := vfs.NewBadSectors(fs, func(_ string, at, end int64) bool { return at < bad.To && bad.From < end })
		for _, whole := range []bool{false, true} {
			s, err := OpenScan(disk, logSegment, whole)
			check(t, err)
			damages := 0
			for {
				e, err := s.Next()
				if err == io.EOF {
					break
				}
				check(t, err)
				if e.Damage != nil {
					damages++
				}
				if e.Damage != nil && e.Damage.Final {
					t.Fatalf("%d to %d: the scan ends with %v", bad.From, bad.To, e.Damage)
				}
			}
			if whole && damages == 0 || s.Torn() {
				t.Fatalf("%d to %d: no damage, torn %v", bad.From, bad.To, s.Torn())
			}
			check(t, s.Close())
		}
	}
	for _, length := range []int64{segment.SectorSize, segment.BlockSize, size} {
		for at := int64(0); at < size; at += length {
			try(segment.Span{From: at, To: at + length})
		}
	}
}
