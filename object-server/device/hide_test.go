package device

import (
	"testing"

	"martlet/object-server/bundle/format"
	"martlet/object-server/vfs"
)

func TestHide(t *testing.T) {
	d := open(t, vfs.OS{}, t.TempDir(), Options{})
	defer d.Close()
	const name = "/a/c/o"
	loc := locate(name, 4)
	must[State](t)(put(d, loc, name, 1, []byte("one")))
	state := must[State](t)(d.Hide(loc, at(2), name)) // as a DELETE, while there are no versions
	if !state.Existed || state.Metadata.Timestamp != at(1) {
		t.Errorf("state of a name without versions: %+v", state)
	}
	wantNotFound(t, d, loc, 2)

	id := versionID(3)
	u := must[*Upload](t)(d.NewUpload(loc, 5))
	must[int](t)(u.Write([]byte("three")))
	must[State](t)(u.Commit(&format.Metadata{Name: name, Size: 5, Timestamp: at(3), VersionID: id}))
	wantBody(t, d, loc, []byte("three"))
	state = must[State](t)(d.Hide(loc, at(4), name))
	if !state.Existed || state.Metadata.VersionID != id {
		t.Errorf("state of a name with versions: %+v", state)
	}
	wantNotFound(t, d, loc, 4)
	if m := must[*format.Metadata](t)(d.HeadVersion(loc, id)); m.Timestamp != at(3) {
		t.Errorf("the version is gone: %+v", m)
	}
	if state = must[State](t)(d.Hide(loc, at(5), name)); state.Existed {
		t.Errorf("state of what was hidden: %+v", state)
	}
	if _, err := d.Hide(loc, at(4), name); err == nil {
		t.Error("an older one was taken")
	}
}
