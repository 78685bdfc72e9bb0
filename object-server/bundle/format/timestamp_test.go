package format

import (
	"errors"
	"testing"

	"pgregory.net/rapid"
)

func TestParseTimestamp(t *testing.T) {
	good := map[string]string{
		"0":                                 "0000000000.00000",
		"1780000000":                        "1780000000.00000",
		"1780000000.1":                      "1780000000.10000",
		"1780000000.123456":                 "1780000000.12346",
		"1780000000.123454":                 "1780000000.12345",
		"1.999999":                          "0000000002.00000",
		"1780000000.12345_000000000000002a": "1780000000.12345_000000000000002a",
		"1780000000.12345_2A":               "1780000000.12345_000000000000002a",
		"1780000000.12345_0":                "1780000000.12345",
		"9999999999.99999":                  "9999999999.99999",
	}
	for text, want := range good {
		got, err := ParseTimestamp(text)
		if err != nil || got.String() != want || got.Normal() != want[:16] {
			t.Errorf("%q: %s, %v; want %s", text, got, err, want)
		}
	}
	for _, text := range []string{"", ".", "1.", ".5", "-1", "+1", "1e9", "0x1", " 1", "1 ", "10000000000", "9999999999.999999",
		"1_", "1_g", "1_00000000000000000", "1_+1", "1_1_1", "nan", "1.٣", "1._1"} {
		if got, err := ParseTimestamp(text); !errors.Is(err, ErrTimestamp) {
			t.Errorf("%q: %s, %v", text, got, err)
		}
	}
}

// Text of the same length sorts as the timestamps do, and reads back.
func TestTimestampOrder(t *testing.T) {
	any := rapid.Custom(func(t *rapid.T) Timestamp {
		return Timestamp{rapid.Uint64Range(0, TicksMax).Draw(t, "ticks"), rapid.Uint64().Draw(t, "offset")}
	})
	rapid.Check(t, func(t *rapid.T) {
		a, b := any.Draw(t, "a"), any.Draw(t, "b")
		if read, err := ParseTimestamp(a.String()); err != nil || read != a {
			t.Fatal(a, read, err)
		}
		if c := a.Compare(b); (c < 0) != (a.String() < b.String()) || c != -b.Compare(a) || (c == 0) != (a == b) {
			t.Fatal(a, b, c)
		}
	})
}
