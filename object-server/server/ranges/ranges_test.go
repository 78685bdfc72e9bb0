package ranges

import (
	"slices"
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	for _, c := range []struct {
		header string
		size   int64
		want   []Range
		ok     bool
	}{
		{"bytes=0-0", 10, []Range{{0, 1}}, true},
		{"bytes=2-5", 10, []Range{{2, 6}}, true},
		{"bytes=2-", 10, []Range{{2, 10}}, true},
		{"bytes=2-99", 10, []Range{{2, 10}}, true},
		{"bytes=-3", 10, []Range{{7, 10}}, true},
		{"bytes=-30", 10, []Range{{0, 10}}, true},
		{"bytes=-0", 10, nil, true},
		{"bytes=10-", 10, nil, true},
		{"bytes=0-1, 4-5", 10, []Range{{0, 2}, {4, 6}}, true},
		{"bytes=0-1,20-30", 10, []Range{{0, 2}}, true},
		{"BYTES=1-2", 10, []Range{{1, 3}}, true},
		{"bytes=-5", 0, []Range{{0, 0}}, true},
		{"bytes=0-", 0, nil, true},
		{"bytes=0-99999999999999999999999", 10, []Range{{0, 10}}, true},
		{"bytes=99999999999999999999999-", 10, nil, true},
		{"bytes=-99999999999999999999999", 10, []Range{{0, 10}}, true},
		{"", 10, nil, false},
		{"bytes", 10, nil, false},
		{"bytes=", 10, nil, false},
		{"bytes=-", 10, nil, false},
		{"bytes=5-3", 10, nil, false},
		{"bytes=a-b", 10, nil, false},
		{"bytes=1-2,", 10, nil, false},
		{"bytes=--1", 10, nil, false},
		{"bytes=+1-2", 10, nil, false},
		{"items=0-1", 10, nil, false},
		{"bytes=0-8,1-8,2-8", 10, nil, true},
		{"bytes=" + strings.Repeat("0-0,", 50) + "0-0", 10, nil, true},
	} {
		got, ok := Parse(c.header, c.size)
		if ok != c.ok || !slices.Equal(got, c.want) {
			t.Errorf("%q of %d: got %v, %v, want %v, %v", c.header, c.size, got, ok, c.want, c.ok)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("bytes=0-1,-5,7-", int64(10))
	f.Fuzz(func(t *testing.T, header string, size int64) {
		if size < 0 {
			return
		}
		ranges, _ := Parse(header, size)
		for _, r := range ranges {
			if r.Start < 0 || r.End > size || r.Start > r.End {
				t.Fatalf("%q of %d: %v", header, size, r)
			}
		}
	})
}
