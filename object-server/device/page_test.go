package device

import (
	"encoding/binary"
	"encoding/json"
	"math"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"martlet/object-server/bundle"
	"martlet/object-server/bundle/format"
	"martlet/object-server/proof"
)

const bundlePage = "../../doc/formats/bundle.md"

// The page says what each byte of the file of the clean stop means.
func TestPageOfTheCleanStop(t *testing.T) {
	header := proof.ReadLayout(t, bundlePage, "## Clean stop")
	plain := encodeCleanStop(nil, 0)
	header.Check(t, plain, map[string][]byte{"time of the stop": encodeCleanStop(nil, math.MaxUint64)},
		"magic", "version", "number of entries", "CRC of the whole file")
	encode := func(id bundle.ID, last uint64) []byte {
		return encodeCleanStop(map[bundle.ID]uint64{id: last}, 0)
	}
	one := encode(bundle.ID{}, 0)
	if n := binary.LittleEndian.Uint64(header.Of(t, "number of entries", one)); n != 1 {
		t.Errorf("%d entries, not 1", n)
	}
	entry := proof.ReadLayout(t, bundlePage, "| offset in an entry |")
	from := len(plain)
	entry.Check(t, one[from:], map[string][]byte{
		"policy":     encode(bundle.ID{Policy: math.MaxUint32}, 0)[from:],
		"partition":  encode(bundle.ID{Partition: math.MaxUint32}, 0)[from:],
		"part power": encode(bundle.ID{Power: math.MaxUint8}, 0)[from:],
		"last LSN":   encode(bundle.ID{}, math.MaxUint64)[from:],
	})
}

// The page names each key of a line in the list of damages.
func TestPageOfDamages(t *testing.T) {
	page, err := os.ReadFile(bundlePage)
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "\n## Damages\n")
	section, _, _ = strings.Cut(section, "\n## ")
	var named []string
	for _, row := range regexp.MustCompile("(?m)^\\| (`[^|]+) \\|").FindAllStringSubmatch(section, -1) {
		for _, key := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(row[1], -1) {
			named = append(named, key[1])
		}
	}
	// What is Final is never listed: it ends a repair before anything is noted.
	x := Damage{Older: true, Damage: bundle.Damage{
		Segment: "s", Offset: 1, Length: 1, FirstLSN: 1, LastLSN: 1, Lost: []bundle.Lost{{Hash: format.Hash{1}}},
		Unnamed: 1, LargeID: 1, Cause: "c",
	}}
	var written map[string]any
	if _, text, _ := strings.Cut(string(x.encode()), " "); json.Unmarshal([]byte(text), &written) != nil {
		t.Fatal(text)
	}
	var keys []string
	for key := range written {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	slices.Sort(named)
	if !slices.Equal(keys, named) {
		t.Errorf("written are %q, the page names %q", keys, named)
	}
}
