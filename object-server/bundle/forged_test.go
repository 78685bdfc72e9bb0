package bundle

import (
	"encoding/binary"
	"fmt"
	"testing"

	"martlet/object-server/bundle/format"
	"martlet/object-server/vfs"
)

// forged is an object full of record headers that prove themselves, as a client could store them: of a later
// version, and of another segment.
func forged(t testing.TB, n int) *Draft {
	m := format.Metadata{Name: fmt.Sprint("/a/c/", n), Size: 8 << 10, Timestamp: format.Timestamp{Ticks: 1}}
	h := format.Header{Type: format.TypePad, LSN: 1000, Salt: 0xbad, Units: format.HeaderSize / format.UnitSize}
	later := make([]byte, format.HeaderSize)
	h.Encode(later)
	later[4]++ // the version
	binary.LittleEndian.PutUint32(later[124:], format.Checksum(later[:124]))

	d := NewDraft(int(m.Size))
	shift := (format.HeaderSize + len(must(m.MarshalMsg(nil)))) % format.UnitSize // so that they stand where records may begin
	d.Write(make([]byte, format.UnitSize-shift))
	for len(d.Data())+format.HeaderSize <= int(m.Size) {
		d.Write(later)
	}
	d.Write(make([]byte, int(m.Size)-len(d.Data())))
	check(t, d.SealPut(name(n), &m, nil))
	return d
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// What clients store never decides whether a partition opens: only records of the segment itself do.
func TestForgedHeadersInAnObjectAreNoRecords(t *testing.T) {
	for _, first := range []bool{true, false} {
		for _, lost := range []int64{30, 128 + 50} { // in the segment header; in the header of the first record
			fs := vfs.NewMem("/d")
			b := openLog(t, fs)
			if !first {
				appendBatch(t, b, put(t, 1, 1))
			}
			appendBatch(t, b, forged(t, 2))
			e, _, _ := find(b, name(2))
			alter(t, fs, logSegment, func(f vfs.File) {
				flip(t, f, lost)
				flip(t, f, int64(e.slot.Unit())*format.UnitSize+40) // the record is torn
			})
			again, err := Open(NewFiles(fs, "/d", 4), logID, logConfig)
			if err != nil {
				t.Fatalf("first %v, lost at %d: %v", first, lost, err)
			}
			if _, ok, _ := find(again, name(2)); ok {
				t.Error("a torn record counts")
			}
			appendBatch(t, again, put(t, 3, 1))
			if e, ok, err := find(openLog(t, fs), name(3)); !ok || err != nil || e.LSN() > 10 {
				t.Errorf("first %v, lost at %d: after the next write %+v, %v, %v", first, lost, e, ok, err)
			}
		}
	}
}
