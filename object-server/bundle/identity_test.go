package bundle

import (
	"testing"

	"martlet/object-server/bundle/format"
	"martlet/object-server/vfs"
)

// fill appends a record, and returns the identity that the bundle has then.
func fill(t *testing.T, b *Bundle, hash format.Hash, ticks uint64) format.Identity {
	t.Helper()
	d := NewDraft(0)
	defer d.Free()
	m := format.Metadata{Name: "/a/c/o", Timestamp: format.Timestamp{Ticks: ticks}}
	check(t, d.SealTombstone(hash, &m))
	a, err := (&Writer{b}).Append([]*Draft{d})
	check(t, err)
	check(t, a.Datasync())
	a.Publish()
	return b.Identity()
}

// The identity of a bundle lasts over segments and restarts, and ends with it.
func TestIdentity(t *testing.T) {
	fs := vfs.NewMem("/d")
	id := ID{Partition: 7}
	reopen := func() *Bundle {
		b, err := Open(NewFiles(fs, "/d", 10), id, logConfig)
		check(t, err)
		return b
	}
	b := reopen()
	if b.Identity() != (format.Identity{}) {
		t.Fatal("an empty bundle has an identity")
	}
	is := fill(t, b, goldenHash(1), 1)
	if is == (format.Identity{}) || reopen().Identity() != is {
		t.Fatalf("%x is not read back", is)
	}
	b = reopen()
	b.close()
	if fill(t, b, goldenHash(2), 2) != is {
		t.Error("the second segment has another identity")
	}
	check(t, fs.Remove("/d/bundles/7/00000001-0000.bundle"))
	if reopen().Identity() != is {
		t.Error("the second segment does not say it")
	}
	check(t, fs.Remove("/d/bundles/7/00000002-0000.bundle"))
	if fill(t, reopen(), goldenHash(1), 1) == is {
		t.Error("a new bundle has the identity of the one before")
	}
}

// The halves of a partition share LSNs, so each has an identity of its own, from
// the first moment on, and keeps it.
func TestIdentityOfHalves(t *testing.T) {
	fs := vfs.NewMem("/d")
	files := NewFiles(fs, "/d", 10)
	parent := ID{Partition: 1}
	b, err := Open(files, parent, logConfig)
	check(t, err)
	seen := map[format.Identity]bool{fill(t, b, format.Hash{0x40}, 1): true}
	fill(t, b, format.Hash{0x60}, 2)
	check(t, b.Close())
	for _, half := range parent.Children(3) {
		check(t, files.Share(parent, half))
		h, adopt, err := Inherit(files, half, logConfig)
		check(t, err)
		check(t, adopt())
		is := h.Identity()
		if seen[is] {
			t.Errorf("%+v has the identity of another", half)
		}
		seen[is] = true
		if fill(t, h, format.Hash{byte(half.Partition << 5), 1}, 3) != is {
			t.Error("its first segment has another")
		}
		h, err = Open(files, half, logConfig)
		if err != nil || h.Identity() != is {
			t.Error("it has another after a restart", err)
		}
	}
}
