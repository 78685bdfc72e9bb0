package journal

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"martlet/object-server/bundle"
	"martlet/object-server/bundle/format"
	"martlet/object-server/vfs"
)

var example = header{Number: 7, Salt: 0x1122334455667788, Destaged: 5}

func exampleExtents() []bundle.Extent {
	return []bundle.Extent{
		{ID: bundle.ID{Policy: 1, Partition: 600}, Sequence: 2, Offset: 4480, Bytes: [][]byte{[]byte("record of a heron")}},
		{ID: bundle.ID{Partition: 3}, Sequence: 1, Offset: 0, Bytes: [][]byte{[]byte("segment"), []byte(" header")}},
	}
}

func encodeExample(h header, extents []bundle.Extent) []byte {
	buffers, _ := encodeBatch(&h, extents)
	return bytes.Join(buffers, nil)
}

// The page of the format shows what is written, byte for byte.
func TestExample(t *testing.T) {
	page, err := os.ReadFile("../../../doc/formats/journal.md")
	if err != nil {
		t.Fatal(err)
	}
	var shown []byte
	for _, line := range regexp.MustCompile(`(?m)^    ([0-9a-f]{4})  ([0-9a-f ]+?) *\|`).FindAllStringSubmatch(string(page), -1) {
		if line[1] != fmt.Sprintf("%04x", len(shown)) {
			t.Fatalf("line %s stands at %04x", line[1], len(shown))
		}
		b, err := hex.DecodeString(strings.ReplaceAll(line[2], " ", ""))
		if err != nil {
			t.Fatal(err)
		}
		shown = append(shown, b...)
	}
	want := encodeExample(example, exampleExtents())
	if len(want) != block || !bytes.Equal(shown, bytes.TrimRight(want, "\x00")) {
		t.Fatalf("the page shows\n%s\nwritten is\n%s", hex.Dump(shown), hex.Dump(bytes.TrimRight(want, "\x00")))
	}
	h, err := parseHeader(shown)
	if err != nil || h.Number != 7 || h.Salt != example.Salt || h.Destaged != 5 {
		t.Fatal(h, err)
	}
	extents, err := h.parseBody(shown[headerSize:])
	if err != nil {
		t.Fatal(err)
	}
	for i, e := range exampleExtents() {
		e.Bytes = [][]byte{bytes.Join(e.Bytes, nil)}
		if !reflect.DeepEqual(extents[i], e) {
			t.Errorf("got %+v, want %+v", extents[i], e)
		}
	}
}

func FuzzJournal(f *testing.F) {
	f.Add(encodeExample(example, exampleExtents()))
	f.Add(encodeExample(example, nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := parseHeader(b)
		if err != nil {
			if !errors.Is(err, errNoBatch) && !errors.Is(err, format.ErrUnsupported) {
				t.Fatal(err)
			}
			return
		}
		if uint64(len(b)) < uint64(h.Length) {
			return
		}
		extents, err := h.parseBody(b[headerSize:h.Length])
		if err != nil {
			return
		}
		again := encodeExample(h, extents)
		if h2, err := parseHeader(again); err != nil || h2.Number != h.Number || h2.Length != h.Length {
			t.Fatal(h2, err)
		}
	})
}

// journalOf returns a file with batches one after the other.
func journalOf(t *testing.T, batches ...[]byte) vfs.File {
	f, err := vfs.NewMem("/").Create("/j")
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Writev(append(batches, make([]byte, block)), 0); err != nil {
		t.Fatal(err)
	}
	return f
}

func numbers(t *testing.T, f vfs.File) (all []uint64) {
	c := &Config{Logger: slog.New(slog.DiscardHandler)}
	err := c.each(f, func(h header, _ []bundle.Extent, _ bool) error {
		all = append(all, h.Number)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// What an earlier round of the file left, whatever bytes an object may have put
// there, is not taken for a batch of this one.
func TestReadsOneRound(t *testing.T) {
	batch := func(number, salt uint64) []byte {
		return encodeExample(header{Number: number, Salt: salt}, exampleExtents())
	}
	newer := batch(9, 1)
	newer[4] = 2 // a version that is not known
	damaged := batch(2, 1)
	damaged[130] ^= 1
	torn := make([]byte, block)
	cases := []struct {
		name string
		file vfs.File
		want []uint64
	}{
		{"whole", journalOf(t, batch(1, 1), batch(2, 1), batch(3, 1)), []uint64{1, 2, 3}},
		{"stale behind", journalOf(t, batch(5, 1), batch(2, 3)), []uint64{5}},
		{"forged number", journalOf(t, batch(5, 1), batch(6, 3), batch(7, 3)), []uint64{5}},
		{"forged behind a gap", journalOf(t, batch(5, 1), torn, batch(7, 3)), []uint64{5}},
		{"unknown version behind", journalOf(t, batch(8, 1), newer), []uint64{8}},
		{"damage is skipped", journalOf(t, batch(1, 1), damaged, batch(3, 1)), []uint64{1, 3}},
		{"lost header is skipped", journalOf(t, batch(1, 1), torn, batch(3, 1)), []uint64{1, 3}},
		{"the last is torn", journalOf(t, batch(1, 1), damaged), []uint64{1}},
		{"empty", journalOf(t), nil},
	}
	for _, c := range cases {
		if got := numbers(t, c.file); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: got %v, want %v", c.name, got, c.want)
		}
	}
}
