package partpower

import (
	"encoding/binary"
	"hash/crc32"
	"math"
	"testing"

	"martlet/object-server/proof"
)

// The page says what each byte of the file means.
func TestPage(t *testing.T) {
	l := proof.ReadLayout(t, "../../../doc/formats/bundle.md", "`<device>/bundles.part-power`")
	plain := State{}.encode(0, 0)
	l.Check(t, plain, map[string][]byte{
		"power":     State{Power: math.MaxUint8}.encode(0, 0),
		"next":      State{Next: math.MaxUint8}.encode(0, 0),
		"first":     State{First: math.MaxUint8}.encode(0, 0),
		"policy":    State{}.encode(math.MaxUint32, 0),
		"splitting": State{Splitting: true}.encode(0, 0),
		"from":      State{From: math.MaxUint64}.encode(0, 0),
		"change":    State{}.encode(0, math.MaxUint64),
	}, "magic", "version", "CRC")
	if crc := binary.LittleEndian.Uint32(l.Of(t, "CRC", plain)); crc != crc32.Checksum(plain[:60], castagnoli) {
		t.Errorf("the CRC is %x", crc)
	}
}
