package bundle

import (
	"testing"

	"martlet/object-server/bundle/format"
)

// A signature tells apart all that a record says, and not where its bytes lie.
func TestSignature(t *testing.T) {
	seal := func(change func(m *format.Metadata), isLarge bool) uint64 {
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
	same := func(*format.Metadata) {}
	if seal(same, false) != seal(same, true) {
		t.Error("a large file has another signature")
	}
	for what, change := range map[string]func(m *format.Metadata){
		"etag": func(m *format.Metadata) { m.ETag = "x" }, "user": func(m *format.Metadata) { m.User = nil }, "type": func(m *format.Metadata) { m.ContentType = "x" },
		"system": func(m *format.Metadata) { m.System = nil }, "delete at": func(m *format.Metadata) { m.DeleteAt = 1 },
		"time": func(m *format.Metadata) { m.MetaTimestamp.Offset++ }, "version": func(m *format.Metadata) { m.VersionID[0]++ },
	} {
		if seal(same, false) == seal(change, false) {
			t.Errorf("another %s has the same signature", what)
		}
	}
}
