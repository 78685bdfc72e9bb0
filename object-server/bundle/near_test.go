package bundle

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	"martlet/object-server/bundle/format"
	"martlet/object-server/vfs"
)

// A record is found by its number with a short read where sizes are alike, and
// found at all where they are not, or where an object holds copies of records.
func TestRecordNearItsPlace(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	kinds := map[string]func(i int, last []byte) (data []byte, share int){
		"alike":   func(int, []byte) ([]byte, int) { return make([]byte, 4000), 95 },
		"blocks":  func(i int, _ []byte) ([]byte, int) { return make([]byte, 300+i%64/63*4000), 80 },
		"any":     func(int, []byte) ([]byte, int) { return make([]byte, rng.IntN(40_000)), 0 },
		"two":     func(i int, _ []byte) ([]byte, int) { return make([]byte, 100+i/300*9000), 80 },
		"records": func(_ int, last []byte) ([]byte, int) { return bytes.Repeat(last, 4), 0 },
	}
	for kind, fill := range kinds {
		t.Run(kind, func(t *testing.T) {
			const count = 600
			b, err := Open(NewFiles(vfs.NewMem("/d"), "/d", 4), logID, Config{SegmentBytes: 1 << 30, CheckpointBytes: 1 << 30})
			check(t, err)
			var contents [][]byte
			var last []byte
			share := 0
			for i := range count {
				var data []byte
				data, share = fill(i, last)
				d := NewDraft(len(data))
				d.Write(data)
				check(t, d.SealPut(name(i), &format.Metadata{Name: fmt.Sprint("/a/c/", i), Size: int64(len(data)), Timestamp: format.Timestamp{Ticks: 1}}, nil))
				appendBatch(t, b, d)
				contents = append(contents, data)
				if i%5 == 0 && len(d.bytes()) < 2000 {
					last = bytes.Clone(d.bytes())
				}
			}
			near := 0
			for i, data := range contents {
				record, buffer, err := b.readLSN(uint64(i)+1, name(i), false)
				if err != nil || record == nil || !bytes.Equal(record.Data, data) {
					t.Fatalf("record %d: %+v, %v", i+1, record, err)
				}
				buffer.Free()
				if isNear(t, b, uint64(i)+1) {
					near++
				}
			}
			if near*100 < share*count {
				t.Errorf("%d of %d are near their places", near, count)
			}
		})
	}
}

// isNear tells whether a short read finds the record.
func isNear(t *testing.T, b *Bundle, lsn uint64) bool {
	s := b.segments.withLSN(lsn)
	h := hop{origin: s.origin(), lsn: lsn}
	h.between(s.samples, uint32(lsn-s.base), s.tail, uint32(s.last-s.base))
	file, err := b.files.get(s.key(b.id))
	check(t, err)
	defer file.release()
	record, buffer := h.near(file)
	defer buffer.Free()
	if record != nil && record.LSN() != lsn {
		t.Fatalf("record %d in place of %d", record.LSN(), lsn)
	}
	return record != nil
}
