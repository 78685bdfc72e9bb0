package bundle

import (
	"errors"
	"strings"
	"testing"

	"martlet/object-server/bundle/format"
	"martlet/object-server/vfs"
)

// The metadata beside a large file are whole, or not there at all.
func TestMetadataAttributes(t *testing.T) {
	mem := vfs.NewMem("/d")
	f, err := mem.Create("/d/f")
	check(t, err)
	for _, size := range []int{10, 3*xattrMax + 5, xattrMax + 1, 20} {
		m := &format.Metadata{Name: "/a/c/o", User: format.Headers{"X-Object-Meta-A": strings.Repeat("v", size)}}
		check(t, WriteCopy(f, m))
		encoded, err := ReadCopy(f)
		check(t, err)
		var got format.Metadata
		if rest, err := got.UnmarshalMsg(encoded); err != nil || len(rest) > 0 || got.User["X-Object-Meta-A"] != m.User["X-Object-Meta-A"] {
			t.Fatalf("%d bytes: %v, %d left, %+v", size, err, len(rest), got)
		}
	}
	mem.Lack(vfs.FeatureXattr)
	check(t, WriteCopy(f, &format.Metadata{Name: "/a/c/other"}))
	if value, err := f.GetXattr(copyXattr); !errors.Is(err, vfs.ErrNoXattr) {
		t.Fatalf("what is no longer true stayed: %q", value)
	}
}
