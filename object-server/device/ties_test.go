package device

import (
	"bytes"
	"crypto/md5"
	"errors"
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"martlet/object-server/bundle/format"
	"martlet/object-server/bundle/versions"
	"martlet/object-server/vfs"
)

// tied is one of several writes of a name whose timestamps may collide.
type tied struct {
	kind    string // put, delete, mark, post, remove; with versions delete hides, remove takes the null version away
	ticks   uint64
	content int    // which of the bodies
	user    string // a header that a POST replaces
}

const tiedName = "/a/c/tied"

// tiedBodies has two of one size and one that lies in a large file.
var tiedBodies = [][]byte{body(1, 300), body(2, 300), body(3, 2000)}

func drawTied(kinds ...string) *rapid.Generator[tied] {
	return rapid.Custom(func(t *rapid.T) tied {
		return tied{
			rapid.SampledFrom(kinds).Draw(t, "kind"), rapid.Uint64Range(10, 11).Draw(t, "ticks"),
			rapid.IntRange(0, len(tiedBodies)-1).Draw(t, "content"), rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "user"),
		}
	})
}

// do makes the write. That it is refused says nothing: the state counts.
func (w tied) do(t *rapid.T, d *Device, loc Location) {
	var err error
	switch w.kind {
	case "put":
		err = w.put(d, loc)
	case "delete":
		_, err = d.Hide(loc, at(w.ticks), tiedName)
	case "mark":
		_, err = d.MarkNull(loc, at(w.ticks), tiedName)
	case "remove":
		_, err = d.DeleteVersion(loc, format.VersionID{}, at(w.ticks), tiedName)
	case "post":
		err = d.Post(loc, w.post)
	}
	var older *OlderError
	var gone *NotFoundError
	if err != nil && !errors.As(err, &older) && !errors.As(err, &gone) && !errors.Is(err, errPostIsOld) {
		t.Fatalf("%+v: %v", w, err)
	}
}

func (w tied) put(d *Device, loc Location) error {
	data := tiedBodies[w.content]
	u, err := d.NewUpload(loc, int64(len(data)))
	if err != nil {
		return err
	}
	defer u.Abort()
	if _, err := u.Write(data); err != nil {
		return err
	}
	_, err = u.Commit(&format.Metadata{
		Name: tiedName, ContentType: "text/" + w.user, ETag: fmt.Sprint(w.content), Size: int64(len(data)),
		Timestamp: at(w.ticks), User: format.Headers{"X-Object-Meta-User": w.user},
	})
	return err
}

var errPostIsOld = errors.New("the POST is too old")

// post edits as the server does.
func (w tied) post(m *format.Metadata) error {
	posted := *m
	posted.User, posted.MetaTimestamp = format.Headers{"X-Object-Meta-User": w.user + "posted"}, at(w.ticks)
	posted.ContentType, posted.TypeTimestamp = "text/posted"+w.user, at(w.ticks)
	isMeta, isType := m.MetaYields(&posted), m.TypeYields(&posted)
	if isMeta {
		m.User, m.MetaTimestamp = posted.User, posted.MetaTimestamp
	}
	if isType {
		m.ContentType, m.TypeTimestamp = posted.ContentType, posted.TypeTimestamp
	}
	if !isMeta && !isType {
		return errPostIsOld
	}
	return nil
}

// tiedState is all that a device has of the name.
func tiedState(t *rapid.T, d *Device, loc Location) string {
	var b bytes.Buffer
	data, m, err := get(d, loc)
	var gone *NotFoundError
	if err != nil && !errors.As(err, &gone) {
		t.Fatal(err)
	}
	fmt.Fprintf(&b, "%x, %+v, gone %+v\n", md5.Sum(data), m, gone)
	page, err := d.ListVersions(loc, versions.Marker{}, 100)
	if err != nil && !errors.As(err, &gone) {
		t.Fatal(err)
	}
	for _, v := range page.Versions {
		v.LSN, v.MetadataLength = 0, 0
		fmt.Fprintf(&b, "%+v\n", v)
	}
	s, err := d.use(loc)
	if err != nil {
		t.Fatal(err)
	}
	defer s.done()
	if record, buffer, err := s.bundle.ReadHead(loc.Hash); err == nil && record != nil && !record.Versioned() {
		fmt.Fprintf(&b, "%d %x", record.Type(), record.Signature())
		buffer.Free()
	}
	return b.String()
}

// checkTies demands that two devices that get the same writes in different
// orders, after the same beginning, end up with the same.
func checkTies(t *testing.T, begin func(d *Device, loc Location) error, kinds ...string) {
	loc := locate(tiedName, modelBits)
	rapid.Check(t, func(t *rapid.T) {
		writes := rapid.SliceOfN(drawTied(kinds...), 2, 6).Draw(t, "writes")
		var states [2]string
		var devices [2]*Device
		var disks [2]vfs.FS
		for i := range devices {
			disks[i] = vfs.NewMem("/d")
			var err error
			if devices[i], err = Open(disks[i], "/d", Options{SpillBytes: 1000, Logger: quiet}); err != nil {
				t.Fatal(err)
			}
			if err := begin(devices[i], loc); err != nil {
				t.Fatal(err)
			}
			order := writes
			if i == 1 {
				order = rapid.Permutation(writes).Draw(t, "order")
			}
			for _, w := range order {
				w.do(t, devices[i], loc)
			}
			states[i] = tiedState(t, devices[i], loc)
		}
		if states[0] != states[1] {
			t.Fatalf("replicas differ:\n%s\n\n%s", states[0], states[1])
		}
		for i, d := range devices {
			if err := d.Close(); err != nil {
				t.Fatal(err)
			}
			again, err := Open(disks[i], "/d", Options{SpillBytes: 1000, Logger: quiet})
			if err != nil {
				t.Fatal(err)
			}
			if state := tiedState(t, again, loc); state != states[i] {
				t.Fatalf("after a restart:\n%s\nnot\n%s", state, states[i])
			}
			_ = again.Close()
		}
	})
}

func nothingBefore(*Device, Location) error { return nil }

// Arrival decides nothing: PUTs and DELETEs with one timestamp converge.
func TestTiesOfPutsAndDeletes(t *testing.T) { checkTies(t, nothingBefore, "put", "delete") }

// So do PUTs and POSTs; a POST finds an object wherever it arrives.
func TestTiesOfPutsAndPosts(t *testing.T) {
	checkTies(t, func(d *Device, loc Location) error { return tied{kind: "put", ticks: 5}.put(d, loc) }, "put", "post")
}

// So does the null version of a name with versions.
func TestTiesOfNullVersions(t *testing.T) {
	checkTies(t, func(d *Device, loc Location) error {
		return doVersion(d, tiedName, versionChange{"put", 1, 5})
	}, "put", "delete", "mark", "remove")
}
