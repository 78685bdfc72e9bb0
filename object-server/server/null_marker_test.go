package server

import (
	"encoding/json"
	"testing"
)

func (f *versionsFixture) mark(want, n int) answer {
	f.t.Helper()
	got := f.send(want, "DELETE", "", n, versionHeader, "null", markerHeader, "true")
	if got.header.Get(versionHeader) != "null" {
		f.t.Errorf("marker at %d: %v", n, got.header)
	}
	return got
}

// wantMarked checks that a null delete marker is current.
func (f *versionsFixture) wantMarked(n int) {
	f.t.Helper()
	for _, id := range [][]string{nil, {versionHeader, "null"}, {versionHeader, moment(n)}} {
		for _, method := range []string{"GET", "HEAD"} {
			got := f.do(method, objectPath, "", id...)
			if got.status != 404 || got.header.Get(markerHeader) != "true" || got.header.Get(versionHeader) != "null" ||
				got.header.Get(timestampHeader) != moment(n) {
				f.t.Errorf("%s %q: %d %v", method, id, got.status, got.header)
			}
		}
	}
}

func TestNullMarkers(t *testing.T) {
	f := newVersionsFixture(t)
	f.mark(404, 1) // of a name that never was
	rows := f.rows.take("/sdb/5/AUTH_a/c")
	if len(rows) != 1 || rows[0].ContentType != markerContentType || rows[0].ETag != nullMarkerETag || rows[0].Size != 0 {
		t.Errorf("row of a marker: %+v", rows)
	}
	f.wantMarked(1)
	f.send(201, "PUT", "null", 2)
	f.wantRows(" " + moment(2) + " 0")
	f.wantCurrent("null", "null")
	f.mark(204, 3)
	f.wantRows("null " + moment(3) + " 0")
	f.mark(404, 3) // a peer may have sent it
	f.wantRows("null " + moment(3) + " 0")
	f.wantMarked(3)
	f.send(404, "POST", "", 4, versionHeader, "null", "X-Object-Meta-Color", "red")
	f.send(404, "PUT", "", 4, restoreHeader, moment(3))
	f.rows.take("/sdb/5/AUTH_a/c")

	if got := f.send(404, "DELETE", "", 5); got.header.Get(markerHeader) != "true" {
		t.Errorf("removal: %v", got.header)
	}
	f.wantRows(" " + moment(5) + " 1")
	if got := f.do("GET", objectPath, ""); got.status != 404 || got.header.Get(markerHeader) != "" {
		t.Errorf("after its removal: %d %v", got.status, got.header)
	}
	// What leaves no marker wins.
	if got := f.send(404, "DELETE", "", 5, versionHeader, "null", markerHeader, "true"); got.header.Get(versionHeader) != "" {
		t.Errorf("a marker that was refused: %v", got.header)
	}
	f.rows.take("/sdb/5/AUTH_a/c")
	f.wantVersion("null", "")
}

// Once a version was written over it, a null delete marker has an id, as a null version has.
func TestRemovalOfANullMarkerByItsTime(t *testing.T) {
	f := newVersionsFixture(t)
	f.send(201, "PUT", "null", 1)
	f.mark(204, 2)
	f.putVersion(3, "three")
	f.wantCurrent("three", moment(3))
	for _, id := range []string{moment(2), "null"} {
		got := f.do("HEAD", objectPath, "", versionHeader, id)
		if isMarker := got.header.Get(markerHeader) != ""; got.status != 404 || isMarker != (id != "null") {
			t.Errorf("%s: %d %v", id, got.status, got.header)
		}
	}
	list, _ := json.Marshal([]string{moment(2)})
	if got := f.send(200, "DELETE", string(list), 8, "X-Backend-Version-List", "true"); got.body != "[409]" {
		t.Errorf("removal in a list: %s", got.body)
	}
	f.rows.take("/sdb/5/AUTH_a/c")
	got := f.send(204, "DELETE", "", 9, versionHeader, moment(2))
	if got.header.Get(markerHeader) != "true" {
		t.Errorf("removal: %v", got.header)
	}
	f.wantTold(got, "null "+moment(2)+removedNull+" 1")
	f.wantRows(moment(2)+" "+moment(9)+" 1", "null "+moment(2)+removedNull+" 1")
	f.wantCurrent("three", moment(3))
	if got := f.do("HEAD", objectPath, "", versionHeader, moment(2)); got.header.Get(markerHeader) != "" {
		t.Errorf("after its removal: %v", got.header)
	}
	f.mark(204, 10)
	f.putVersion(11, "eleven")
	f.send(201, "PUT", "null", 12) // a marker is not kept
	if got := f.do("HEAD", objectPath, "", versionHeader, moment(10)); got.header.Get(markerHeader) != "" {
		t.Errorf("after a later write: %v", got.header)
	}
}

// A delete marker with an id is not the null version.
func TestTheNullVersionIsNoOtherMarker(t *testing.T) {
	f := newVersionsFixture(t)
	f.send(404, "DELETE", "", 2, versionHeader, moment(2), markerHeader, "true")
	for _, method := range []string{"GET", "HEAD"} {
		got := f.do(method, objectPath, "", versionHeader, "null")
		if got.status != 404 || got.header.Get(markerHeader) != "" {
			t.Errorf("%s: %d %v", method, got.status, got.header)
		}
	}
}
