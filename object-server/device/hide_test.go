package device

import (
	"errors"
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

// A null delete marker that clients see is alone where there are no versions, hides those that there are, and is itself
// the null version: a later write or removal of that replaces it.
func TestMarkNull(t *testing.T) {
	d := open(t, vfs.OS{}, t.TempDir(), Options{})
	defer d.Close()
	const name = "/a/c/o"
	loc := locate(name, 4)
	must[State](t)(put(d, loc, name, 1, []byte("one")))
	state := must[State](t)(d.MarkNull(loc, at(2), name))
	if !state.Existed || state.Marker || state.Metadata.Timestamp != at(1) {
		t.Errorf("state of an object: %+v", state)
	}
	wantMarker(t, d, loc, 2)
	if state = must[State](t)(d.MarkNull(loc, at(3), name)); state.Existed || !state.Marker {
		t.Errorf("state of a marker: %+v", state)
	}
	wantMarker(t, d, loc, 3)
	must[State](t)(put(d, loc, name, 4, []byte("four")))
	wantBody(t, d, loc, []byte("four"))
	must[State](t)(d.MarkNull(loc, at(5), name))
	if state = must[State](t)(d.Hide(loc, at(6), name)); state.Existed || !state.Marker {
		t.Errorf("state of a marker that is hidden: %+v", state)
	}
	wantNotFound(t, d, loc, 6)
	if isMarked(d, loc) {
		t.Error("what hides is a marker for clients")
	}
	if _, err := d.MarkNull(loc, at(6), name); err == nil {
		t.Error("of two at the same time, the later was taken")
	}
	must[State](t)(d.MarkNull(loc, at(7), name))
	must[State](t)(d.DeleteVersion(loc, format.VersionID{}, at(8), name))
	wantNotFound(t, d, loc, 8)
	if isMarked(d, loc) {
		t.Error("a removed marker is there")
	}
}

func wantMarker(t *testing.T, d *Device, loc Location, ticks uint64) {
	t.Helper()
	wantNotFound(t, d, loc, ticks)
	if !isMarked(d, loc) {
		t.Error("no null marker")
	}
}

// isMarked tells whether a null delete marker that clients see is current.
func isMarked(d *Device, loc Location) bool {
	_, err := d.Head(loc)
	var gone *NotFoundError
	return errors.As(err, &gone) && gone.Marker && gone.VersionID.IsNull()
}
