package server

import (
	"fmt"
	"testing"

	"martlet/object-server/server/versionid"
)

// made is the answer to a HEAD of a version that was made of an upload.
func (f *versionsFixture) made(upload string) answer {
	f.t.Helper()
	return f.do("HEAD", objectPath, "", versionHeader, versionid.MadeOf+upload)
}

// wantMade checks it: the id of the version and the number of its write.
func (f *versionsFixture) wantMade(upload, id string, n int) {
	f.t.Helper()
	got := f.made(upload)
	if got.status != 200 || got.header.Get(versionHeader) != id || got.header.Get(dataTimestampHeader) != moment(n) {
		f.t.Fatalf("HEAD of a version of %s: %d %v", upload, got.status, got.header)
	}
}

// wantNotMade checks that there is none. The answer has no time, so that of a replica that has one counts more.
func (f *versionsFixture) wantNotMade(upload string) {
	f.t.Helper()
	if got := f.made(upload); got.status != 404 || got.header.Get(timestampHeader) != "" {
		f.t.Fatalf("HEAD of a version of %s: %d %v", upload, got.status, got.header)
	}
}

func (f *versionsFixture) putUpload(n int, upload string) {
	f.t.Helper()
	f.send(201, "PUT", "x", n, versionHeader, moment(n), uploadIDName, upload)
}

func TestTheVersionsOfAnUpload(t *testing.T) {
	f := newVersionsFixture(t)
	f.wantNotMade("one")
	f.send(201, "PUT", "x", 1, uploadIDName, "one")
	f.wantMade("one", "", 1) // the name has no versions
	f.putUpload(2, "two")
	f.putUpload(3, "two")
	f.putVersion(4, "four")
	f.wantMade("one", "null", 1)
	f.wantMade("two", moment(3), 3)
	f.send(204, "DELETE", "", 5, versionHeader, moment(5), markerHeader, "true")
	f.send(204, "DELETE", "", 6, versionHeader, moment(3))
	f.wantMade("two", moment(2), 2)
	f.send(204, "DELETE", "", 7, versionHeader, moment(2))
	f.wantNotMade("two")
	f.wantNotMade("")
	f.wantNotMade("three")
	f.send(204, "DELETE", "", 8, versionHeader, moment(1))
	f.wantNotMade("one")
	for _, method := range []string{"GET", "DELETE", "POST"} {
		f.send(400, method, "", 9, versionHeader, versionid.MadeOf+"one")
	}
}

// Without an upload none is found, also where a tombstone or an object of another kind is stored.
func TestANameWithoutVersionsIsOfNoUpload(t *testing.T) {
	f := newVersionsFixture(t)
	f.send(201, "PUT", "x", 1)
	f.wantNotMade("one")
	f.wantNotMade("")
	f.send(201, "PUT", "x", 2, uploadIDName, "one")
	f.wantMade("one", "", 2)
	f.send(204, "DELETE", "", 3)
	f.wantNotMade("one")
}

// The null version is found as well once it has an id, and once it is current again.
func TestTheNullVersionOfAnUpload(t *testing.T) {
	f := newVersionsFixture(t)
	f.send(201, "PUT", "x", 1, uploadIDName, "one")
	f.putVersion(2, "two")
	f.send(201, "PUT", "x", 3)
	f.wantMade("one", moment(1), 1)
	f.send(201, "PUT", "", 4, restoreHeader, moment(1))
	f.wantMade("one", moment(1), 1)
	f.send(204, "DELETE", "", 5, versionHeader, moment(1), hideHeader, "true")
	f.wantNotMade("one")
}

func TestAnUploadBehindManyVersions(t *testing.T) {
	f := newVersionsFixture(t)
	f.putUpload(1, "one")
	for n := 2; n < madePage+3; n++ {
		f.putVersion(n, fmt.Sprint(n))
	}
	f.wantMade("one", moment(1), 1)
	f.wantNotMade("two")
}
