package format

import (
	"testing"

	"pgregory.net/rapid"
)

// drawMetadata has few values for each field, so that many are equal.
var drawMetadata = rapid.Custom(func(t *rapid.T) *Metadata {
	ticks := func(label string) Timestamp { return Timestamp{Ticks: rapid.Uint64Range(1, 2).Draw(t, label)} }
	value := rapid.SampledFrom([]string{"", "a", "b"})
	return &Metadata{
		Name: "/a/c/o", ETag: value.Draw(t, "etag"), ContentType: value.Draw(t, "type"), DeleteAt: rapid.Int64Range(0, 1).Draw(t, "delete at"),
		Timestamp: ticks("data"), MetaTimestamp: ticks("meta"), TypeTimestamp: ticks("type"),
		User: Headers{"X-Object-Meta-A": value.Draw(t, "user")}, System: Headers{"X-Object-Sysmeta-A": value.Draw(t, "system")},
	}
})

// Each part of an object is in a total order, or replicas could go round in circles.
func TestPartsAreInATotalOrder(t *testing.T) {
	for name, compare := range map[string]func(m, o *Metadata) int{
		"data": (*Metadata).CompareData, "metadata": (*Metadata).CompareMeta, "content type": (*Metadata).CompareType,
	} {
		rapid.Check(t, func(t *rapid.T) {
			a, b, c := drawMetadata.Draw(t, "a"), drawMetadata.Draw(t, "b"), drawMetadata.Draw(t, "c")
			if compare(a, a) != 0 || compare(a, b) != -compare(b, a) {
				t.Fatalf("%s: %d and %d", name, compare(a, b), compare(b, a))
			}
			if compare(a, b) <= 0 && compare(b, c) <= 0 && compare(a, c) > 0 {
				t.Fatalf("%s goes round in a circle", name)
			}
		})
	}
}
