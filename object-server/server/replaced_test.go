package server

import "testing"

// A PUT tells that it has replaced an object that was an upload, unless that is kept as a version. A DELETE does so, too, where
// the name has no versions.
func TestReplacedUploads(t *testing.T) {
	f := newVersionsFixture(t)
	remove := func(status, n int, wantReplaced string) {
		t.Helper()
		got := f.send(status, "DELETE", "", n)
		if id := got.header.Get(replacedUploadHeader); id != wantReplaced {
			t.Fatalf("the DELETE at %d has removed %q, want %q", n, id, wantReplaced)
		}
	}
	put := func(n int, wantReplaced string, headers ...string) {
		t.Helper()
		got := f.send(201, "PUT", "x", n, headers...)
		if id := got.header.Get(replacedUploadHeader); id != wantReplaced {
			t.Fatalf("the PUT at %d has replaced %q, want %q", n, id, wantReplaced)
		}
	}
	put(1, "")
	put(2, "", uploadIDName, "one")
	put(3, "", uploadIDName, "one") // the same parts
	put(4, "one", uploadIDName, "two")
	f.send(409, "PUT", "x", 3)
	put(5, "two")
	put(6, "")
	put(7, "", uploadIDName, "three")
	f.send(409, "DELETE", "", 6)
	remove(204, 8, "three")
	remove(404, 8, "")
	put(9, "")

	put(10, "", uploadIDName, "four")
	f.putVersion(11, "version")
	put(12, "") // the null version is kept
	put(13, "", uploadIDName, "five")
	put(14, "five") // another replica may have a version between them, and keep the object
	put(15, "", uploadIDName, "six")
	put(16, "", uploadIDName, "six")
	remove(204, 17, "")
	put(18, "", uploadIDName, "seven")
	f.send(201, "PUT", "x", 19, versionHeader, moment(19), uploadIDName, "eight")
	f.send(201, "PUT", "x", 19, versionHeader, moment(19), uploadIDName, "eight")
	put(20, "") // the null version is kept
}

func TestACopyTellsTheReplacedUpload(t *testing.T) {
	f := newVersionsFixture(t)
	source := f.do("PUT", objectPath+"-source", "x", "X-Timestamp", moment(1), "Content-Type", "text/plain")
	if source.status != 201 {
		t.Fatal(source.status)
	}
	f.send(201, "PUT", "y", 2, uploadIDName, "one")
	got := f.send(201, "PUT", "", 3, copyFromHeader, "/7/AUTH_a/c/o-source", "Etag", source.header.Get("Etag"))
	if id := got.header.Get(replacedUploadHeader); id != "one" {
		t.Errorf("the copy has replaced %q", id)
	}
}
