package bundle

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

// A signature tells apart all that a record says, and not where its bytes lie.
func TestSignature(t *testing.T) {
	seal := func(change func(m *Metadata), isLarge bool) uint64 {
		m := goldenMetadata()
		change(&m)
		d := NewDraft(5)
		defer d.Free()
		if isLarge {
			check(t, d.SealSpill(goldenHash(0), &m, 7, make([]byte, 4)))
		} else {
			d.Write([]byte("hello"))
			check(t, d.SealPut(goldenHash(0), &m, nil))
		}
		return d.head.Signature
	}
	same := func(*Metadata) {}
	if seal(same, false) != seal(same, true) {
		t.Error("a large file has another signature")
	}
	for what, change := range map[string]func(m *Metadata){
		"etag": func(m *Metadata) { m.ETag = "x" }, "user": func(m *Metadata) { m.User = nil }, "type": func(m *Metadata) { m.ContentType = "x" },
		"system": func(m *Metadata) { m.System = nil }, "delete at": func(m *Metadata) { m.DeleteAt = 1 },
		"time": func(m *Metadata) { m.MetaTimestamp.Offset++ }, "version": func(m *Metadata) { m.VersionID[0]++ },
	} {
		if seal(same, false) == seal(change, false) {
			t.Errorf("another %s has the same signature", what)
		}
	}
}
