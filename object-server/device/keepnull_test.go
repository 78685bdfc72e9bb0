package device

import (
	"bytes"
	"errors"
	"testing"

	"martlet/object-server/bundle/format"
	"martlet/object-server/bundle/versions"
	"martlet/object-server/vfs"
)

func TestAnOldNullVersionIsKept(t *testing.T) {
	const name, large = "/a/c/o", 3 << 20
	loc := locate(name, 4)
	for _, c := range []struct {
		kind    string
		replace func(d *Device) (State, error)
	}{
		{"put", func(d *Device) (State, error) { return put(d, loc, name, 4, []byte("four")) }},
		{"hide", func(d *Device) (State, error) { return d.Hide(loc, at(4), name) }},
	} {
		for _, size := range []int{9, large} {
			root := t.TempDir()
			d := open(t, vfs.OS{}, root, Options{KeptID: keptID})
			must[State](t)(put(d, loc, name, 1, body(1, size)))
			if state := must[State](t)(put(d, loc, name, 2, body(2, size))); state.Kept != nil {
				t.Errorf("%s: kept without versions: %+v", c.kind, state.Kept)
			}
			putVersion(t, d, loc, name, 3, "three")
			state := must[State](t)(c.replace(d))
			if state.Kept == nil || state.Kept.Timestamp != at(2) || state.Kept.VersionID != keptID(at(2)) {
				t.Fatalf("%s of %d bytes: kept %+v", c.kind, size, state.Kept)
			}
			for range 2 {
				wantVersion(t, d, loc, keptID(at(2)), body(2, size))
				wantVersion(t, d, loc, versionID(3), []byte("three"))
				if err := d.Close(); err != nil {
					t.Fatal(err)
				}
				d = open(t, vfs.OS{}, root, Options{KeptID: keptID})
			}
			if state = must[State](t)(put(d, loc, name, 5, []byte("five"))); state.Kept != nil {
				t.Errorf("%s: kept though it is current, or a marker: %+v", c.kind, state.Kept)
			}
			if page := must[VersionPage](t)(d.ListVersions(loc, versions.Marker{}, 10)); page.Count != 3 {
				t.Errorf("%s: %d versions: %+v", c.kind, page.Count, page.Versions)
			}
			if err := d.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func TestKeepNull(t *testing.T) {
	const name = "/a/c/o"
	loc := locate(name, 4)
	d := open(t, vfs.OS{}, t.TempDir(), Options{KeptID: keptID})
	defer d.Close()
	must[State](t)(put(d, loc, name, 1, []byte("one")))
	if m := must[*format.Metadata](t)(d.KeepNull(loc, at(2), name)); m.VersionID != keptID(at(1)) {
		t.Errorf("kept %+v", m)
	}
	wantVersion(t, d, loc, keptID(at(1)), []byte("one"))
	var gone *NotFoundError
	if _, err := d.HeadVersion(loc, format.VersionID{}); !errors.As(err, &gone) {
		t.Errorf("the null version is there still: %v", err)
	}
}

// What a crash left of a write that keeps the null version is kept, but for one that
// was removed since.
func TestANullVersionThatIsThereTwice(t *testing.T) {
	const name = "/a/c/o"
	loc := locate(name, 4)
	for _, isRemoved := range []bool{false, true} {
		d := open(t, vfs.OS{}, t.TempDir(), Options{KeptID: keptID})
		must[State](t)(put(d, loc, name, 1, []byte("one")))
		putVersion(t, d, loc, name, 2, "two")
		must[*format.Metadata](t)(d.keepNull(loc))
		if isRemoved {
			must[State](t)(d.DeleteVersion(loc, keptID(at(1)), at(3), name))
		}
		if state := must[State](t)(put(d, loc, name, 4, []byte("four"))); isRemoved != (state.Kept == nil) {
			t.Errorf("removed %v: kept %+v", isRemoved, state.Kept)
		}
		want := 3
		if isRemoved {
			want = 2
		}
		if page := must[VersionPage](t)(d.ListVersions(loc, versions.Marker{}, 10)); page.Count != want {
			t.Errorf("removed %v: versions %+v", isRemoved, page.Versions)
		}
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func putVersion(t *testing.T, d *Device, loc Location, name string, n uint64, text string) {
	t.Helper()
	u := must[*Upload](t)(d.NewUpload(loc, int64(len(text))))
	must[int](t)(u.Write([]byte(text)))
	m := format.Metadata{Name: name, Size: int64(len(text)), Timestamp: at(n), VersionID: versionID(n)}
	must[State](t)(u.Commit(&m))
}

func wantVersion(t *testing.T, d *Device, loc Location, id format.VersionID, want []byte) {
	t.Helper()
	o := must[*Object](t)(d.OpenVersion(loc, id))
	defer o.Close()
	var got bytes.Buffer
	if err := o.WriteRange(&got, 0, o.Metadata().Size); err != nil || !bytes.Equal(got.Bytes(), want) {
		t.Errorf("%x: %d bytes, want %d: %v", id, got.Len(), len(want), err)
	}
}
