package frame

import (
	"bytes"
	"encoding/hex"
	"testing"

	"martlet/object-server/proof"
)

// FuzzDecode reads arbitrary bytes as frames. What it accepts is the same after it was written and read again.
func FuzzDecode(f *testing.F) {
	for _, c := range goldenCases() {
		if len(c.encoded) < 10_000 {
			f.Add(c.encoded)
		}
	}
	for _, v := range variants()["answer"] {
		b, _ := hex.DecodeString(v.Hex)
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var one Frame
		var rest []byte
		var err error
		proof.Bounded(t, len(b), func() { rest, err = one.Decode(b) })
		if err != nil {
			return
		}
		if len(rest) >= len(b) || !bytes.HasSuffix(b, rest) {
			t.Fatal("the rest is no rest")
		}
		again := encode(&one)
		if again == nil {
			return // of an unknown type
		}
		var second Frame
		if rest, err := second.Decode(again); err != nil || len(rest) > 0 || !bytes.Equal(encode(&second), again) {
			t.Fatalf("%+v is %+v after it was written: %v", one, second, err)
		}
	})
}
