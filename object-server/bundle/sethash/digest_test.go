package sethash

import (
	"bytes"
	"encoding/hex"
	"errors"
	"testing"

	"martlet/object-server/proof"
)

var goldenSlices = []Slice{
	{0x258, Digest{Sum{0x0807060504030201, 3}, Sum{}}},
	{0x25a, Digest{Sum{0x1817161514131211, 1}, Sum{0x2827262524232221, 2}}},
}

const golden = "58020000" + "0102030405060708" + "0300000000000000" + "0000000000000000" + "0000000000000000" +
	"5a020000" + "1112131415161718" + "0100000000000000" + "2122232425262728" + "0200000000000000"

// The bytes are those of doc/formats/replication.md.
func TestSlicesOnTheWire(t *testing.T) {
	b := AppendSlices(nil, goldenSlices)
	if hex.EncodeToString(b) != golden {
		t.Fatalf("%x, want %s", b, golden)
	}
	got, err := ParseSlices(b, 10)
	if err != nil || len(got) != 2 || got[0] != goldenSlices[0] || got[1] != goldenSlices[1] {
		t.Fatal(got, err)
	}
}

func TestMalformedSlices(t *testing.T) {
	good := AppendSlices(nil, goldenSlices)
	for what, c := range map[string]struct {
		b     []byte
		level uint8
	}{
		"cut off":        {good[:len(good)-1], 10},
		"too many bits":  {good, 9},
		"level":          {nil, 33},
		"not ascending":  {bytes.Repeat(good[:sliceSize], 2), 10},
		"too many":       {make([]byte, sliceSize*(slicesMax+1)), 32},
		"longer than it": {append(bytes.Clone(good), 0), 10},
	} {
		if got, err := ParseSlices(c.b, c.level); !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: %v, %v", what, got, err)
		}
	}
	if _, err := ParseDigest(good[:DigestSize-1]); !errors.Is(err, ErrMalformed) {
		t.Error(err)
	}
}

func FuzzSlices(f *testing.F) {
	f.Add(AppendSlices(nil, goldenSlices), uint8(10))
	f.Fuzz(func(t *testing.T, b []byte, level uint8) {
		var got []Slice
		var err error
		proof.Bounded(t, len(b), func() { got, err = ParseSlices(b, level) })
		if err == nil && !bytes.Equal(AppendSlices(nil, got), b) {
			t.Fatalf("%x is read as %v", b, got)
		}
	})
}
