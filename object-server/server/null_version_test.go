package server

import (
	"fmt"
	"testing"

	"martlet/object-server/server/versionid"
)

// removedNull is what the time of a null version has more in the row of its removal.
const removedNull = "_0001000000000000"

// wantNull checks the answer to a HEAD of the null version, whatever is current: its id and the number of its write.
func (f *versionsFixture) wantNull(id string, n int) {
	f.t.Helper()
	got := f.do("HEAD", objectPath, "", versionHeader, versionid.AnyNull)
	if got.status != 200 || got.header.Get(versionHeader) != id || got.header.Get(dataTimestampHeader) != moment(n) {
		f.t.Fatalf("HEAD of the null version: %d %v", got.status, got.header)
	}
}

// wantNoNull checks that there is none; its delete marker may be seen.
func (f *versionsFixture) wantNoNull(isMarked bool) {
	f.t.Helper()
	got := f.do("HEAD", objectPath, "", versionHeader, versionid.AnyNull)
	if got.status != 404 || (got.header.Get(markerHeader) == "true") != isMarked {
		f.t.Fatalf("HEAD of the null version: %d %v", got.status, got.header)
	}
}

func TestTheNullVersionWhateverIsCurrent(t *testing.T) {
	f := newVersionsFixture(t)
	f.wantNoNull(false)
	f.send(201, "PUT", "null", 1)
	f.wantNull("null", 1)
	f.putVersion(3, "three")
	f.wantNull("null", 1)
	f.send(204, "DELETE", "", 4, versionHeader, moment(4), markerHeader, "true")
	f.wantNull("null", 1)
	f.send(204, "DELETE", "", 5, versionHeader, moment(1))
	f.wantNoNull(false)
	f.send(400, "GET", "", 6, versionHeader, versionid.AnyNull)
}

func TestTheNullDeleteMarkerWhateverIsCurrent(t *testing.T) {
	f := newVersionsFixture(t)
	f.mark(404, 1)
	f.putVersion(2, "two")
	f.wantNoNull(true)
}

// Made current again, it has the id of its time. Clients of the S3 API still find it as the null version, until another one is
// current.
func TestTheNullVersionThatWasMadeCurrentIsFound(t *testing.T) {
	f := newVersionsFixture(t)
	f.send(201, "PUT", "null", 1)
	f.putVersion(2, "two")
	f.putVersion(3, "three")
	f.send(204, "DELETE", "", 4, versionHeader, moment(3), hideHeader, "true")
	f.send(201, "PUT", "", 5, restoreHeader, moment(2))
	f.wantNull("null", 1)
	f.send(201, "PUT", "", 6, restoreHeader, moment(1))
	f.wantCurrent("null", moment(1))
	f.wantNull(moment(1), 1)
	f.putVersion(7, "seven")
	f.wantNoNull(false)
	f.wantVersion(moment(1), "null")
	f.send(201, "PUT", "later", 8)
	f.wantNull("null", 8)
}

// putMoved writes the null version with the offset that it gets when it comes back from another policy.
func (f *versionsFixture) putMoved(want, n, offset int) {
	f.t.Helper()
	at := fmt.Sprintf("%s_%016x", moment(n), offset)
	got := f.do("PUT", objectPath, "null", append(f.rows.headers(), "X-Timestamp", at, "Content-Type", "text/plain")...)
	if got.status != want {
		f.t.Fatalf("PUT at %s: %d %s, want %d", at, got.status, got.body, want)
	}
}

// Replicas may have different offsets of it, and clients may know any of them.
func TestANullVersionThatWasMovedKeepsItsID(t *testing.T) {
	f := newVersionsFixture(t)
	f.putMoved(201, 1, 2)
	f.putVersion(3, "three")
	f.wantVersion(moment(1), "null")
	f.wantVersion(moment(1)+"_0000000000000002", "null")
	f.send(201, "PUT", "five", 5)
	f.wantVersion(moment(1), "null")
	f.rows.take("/sdb/5/AUTH_a/c")
	f.send(204, "DELETE", "", 6, versionHeader, moment(1))
	f.wantRows(moment(1) + " " + moment(6) + " 1")
	f.wantVersion(moment(1), "")
	f.wantNull("null", 5)
}

func TestNoMoveBringsARemovedNullVersionBack(t *testing.T) {
	for _, id := range []string{moment(1), moment(1) + "_0000000000000002"} {
		f := newVersionsFixture(t)
		f.putMoved(201, 1, 2)
		f.putVersion(3, "three")
		f.send(409, "DELETE", "", 0, versionHeader, id)
		f.rows.take("/sdb/5/AUTH_a/c")
		f.send(204, "DELETE", "", 6, versionHeader, id)
		f.wantRows(moment(1)+" "+moment(6)+" 1", "null "+moment(1)+removedNull+" 1")
		f.putMoved(409, 1, 6)
		f.wantNoNull(false)
		f.wantVersion(moment(1), "")
		f.send(201, "PUT", "two", 2) // which comes late
		f.wantNull("null", 2)
	}
}
