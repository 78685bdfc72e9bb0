package server

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"martlet/object-server/device"
	"martlet/object-server/server/devices"
	"martlet/object-server/server/versionid"
	"martlet/object-server/updates"
	"martlet/object-server/vfs"
)

// versionsFixture is a server with a real device, and a container server that keeps rows.
type versionsFixture struct {
	*fixture
	rows *listings
}

func newVersionsFixture(t *testing.T) *versionsFixture {
	t.Helper()
	f := newFixture(t, patient)
	f.config.Device.KeptID, f.config.Device.HiddenID = versionid.OfNull, versionid.Hidden
	f.open = func(path string) (devices.Store, *updates.Pending, error) {
		opened, err := device.Open(vfs.OS{}, path, f.config.Device)
		if err != nil {
			return nil, nil, err
		}
		pending, err := f.server.updater.Attach(vfs.OS{}, path)
		return devices.NewStore(opened, io.NopCloser(nil)), pending, err
	}
	return &versionsFixture{f, newListings(t)}
}

// moment is the timestamp of a numbered write, which is also the id of the version it makes.
func moment(n int) string { return fmt.Sprintf("1700000000.%05d", n) }

func (f *versionsFixture) send(want int, method, body string, at int, headers ...string) answer {
	f.t.Helper()
	headers = append(headers, f.rows.headers()...)
	got := f.do(method, objectPath, body, append(headers, "X-Timestamp", moment(at), "Content-Type", "text/plain")...)
	if got.status != want {
		f.t.Fatalf("%s at %d %q: %d %s, want %d", method, at, headers, got.status, got.body, want)
	}
	return got
}

func (f *versionsFixture) putVersion(n int, body string) {
	f.t.Helper()
	f.send(201, "PUT", body, n, versionHeader, moment(n))
}

// wantCurrent checks the answer to a GET without a version: body and id, or 404 if body is empty.
func (f *versionsFixture) wantCurrent(body, id string) {
	f.t.Helper()
	got := f.do("GET", objectPath, "")
	if body == "" {
		if got.status != 404 {
			f.t.Fatalf("current: %d %q, want 404", got.status, got.body)
		}
		return
	}
	if got.status != 200 || got.body != body || got.header.Get(versionHeader) != id {
		f.t.Fatalf("current: %d %q id %q, want %q id %q", got.status, got.body, got.header.Get(versionHeader), body, id)
	}
}

func (f *versionsFixture) wantVersion(id, body string) {
	f.t.Helper()
	got := f.do("GET", objectPath, "", versionHeader, id)
	if body == "" && got.status == 404 {
		return
	}
	if got.status != 200 || got.body != body {
		f.t.Fatalf("version %s: %d %q, want %q", id, got.status, got.body, body)
	}
}

// wantTold checks the rows that an answer has for the proxy, as "version created_at deleted".
func (f *versionsFixture) wantTold(got answer, want ...string) {
	f.t.Helper()
	var rows []updates.Row
	if text := got.header.Get(rowsHeader); text != "" {
		if err := json.Unmarshal([]byte(text), &rows); err != nil {
			f.t.Fatal(err)
		}
	}
	f.compareRows(rows, want)
}

// wantRows checks the rows since the last call, as "version created_at deleted".
func (f *versionsFixture) wantRows(want ...string) {
	f.t.Helper()
	f.compareRows(f.rows.take("/sdb/5/AUTH_a/c"), want)
}

func (f *versionsFixture) compareRows(rows []updates.Row, want []string) {
	f.t.Helper()
	var got []string
	for _, row := range rows {
		got = append(got, fmt.Sprintf("%s %s %d", row.VersionID, row.CreatedAt, row.Deleted))
	}
	if !slices.Equal(got, want) {
		f.t.Fatalf("rows:\n got %q\nwant %q", got, want)
	}
}

func TestVersionsOfAName(t *testing.T) {
	f := newVersionsFixture(t)
	f.send(201, "PUT", "null", 1)
	f.wantRows(" " + moment(1) + " 0")
	f.wantCurrent("null", "")
	f.putVersion(2, "two")
	f.wantRows(moment(2) + " " + moment(2) + " 0")
	f.putVersion(3, "three")
	f.wantCurrent("three", moment(3))
	f.wantVersion(moment(2), "two")
	f.wantVersion("null", "")
	f.wantVersion(moment(1), "null") // its id once it is not current
	f.wantVersion(moment(4), "")

	f.rows.take("/sdb/5/AUTH_a/c")
	got := f.send(204, "DELETE", "", 5, versionHeader, moment(5), markerHeader, "true")
	if got.header.Get(versionHeader) != moment(5) {
		t.Errorf("marker: %v", got.header)
	}
	rows := f.rows.take("/sdb/5/AUTH_a/c")
	if len(rows) != 1 || rows[0].ContentType != markerContentType || rows[0].Deleted != 0 || rows[0].VersionID != moment(5) {
		t.Errorf("row of a marker: %+v", rows)
	}
	f.wantCurrent("", "")
	marker := f.do("HEAD", objectPath, "", versionHeader, moment(5))
	if marker.status != 404 || marker.header.Get(markerHeader) != "true" || marker.header.Get(versionHeader) != moment(5) {
		t.Errorf("HEAD of a marker: %d %v", marker.status, marker.header)
	}
	f.send(404, "DELETE", "", 6, versionHeader, moment(6), markerHeader, "true")
	f.rows.take("/sdb/5/AUTH_a/c")
	f.send(404, "DELETE", "", 6, versionHeader, moment(6), markerHeader, "true") // a peer may have sent it
	f.wantRows(moment(6) + " " + moment(6) + " 0")
	if got := f.send(204, "DELETE", "", 7, versionHeader, moment(6)); got.header.Get(markerHeader) != "true" {
		t.Errorf("removal of a marker: %v", got.header)
	}
	f.send(409, "DELETE", "", 6, versionHeader, moment(6), markerHeader, "true") // it was removed
	f.wantVersion(moment(3), "three")
}

func TestLateAndRepeatedVersions(t *testing.T) {
	f := newVersionsFixture(t)
	f.putVersion(5, "five")
	f.putVersion(2, "two") // late
	f.wantCurrent("five", moment(5))
	f.wantVersion(moment(2), "two")
	f.rows.take("/sdb/5/AUTH_a/c")
	again := f.send(201, "PUT", "two", 2, versionHeader, moment(2)) // a peer may have sent it
	f.wantRows(moment(2) + " " + moment(2) + " 0")
	if again.header.Get(versionHeader) != moment(2) {
		t.Errorf("the same write again: %v", again.header)
	}
	if other := f.send(409, "PUT", "toy", 2, versionHeader, moment(2)); other.header.Get(timestampHeader) != moment(2) {
		t.Errorf("another write of that time: %v", other.header)
	}
	f.wantVersion(moment(2), "two")
	large := strings.Repeat("x", 2<<20)
	f.send(201, "PUT", large, 3, versionHeader, moment(3), "Expect", "100-continue") // late, and announced
	f.wantVersion(moment(3), large)
	f.wantCurrent("five", moment(5))
}

func TestDeleteOfTheCurrentVersion(t *testing.T) {
	f := newVersionsFixture(t)
	f.send(201, "PUT", "null", 1)
	f.putVersion(2, "two")
	f.putVersion(3, "three")
	f.rows.take("/sdb/5/AUTH_a/c")
	f.send(204, "DELETE", "", 9, versionHeader, moment(3), hideHeader, "true")
	f.wantRows("current "+moment(3)+" 1", moment(3)+" "+moment(9)+" 1")
	f.wantCurrent("", "")
	f.wantVersion(moment(3), "")
	f.wantVersion(moment(2), "two")
	f.wantVersion(moment(1), "null")
	f.send(404, "DELETE", "", 10, versionHeader, moment(3), hideHeader, "true") // again
	f.putVersion(4, "four")                                                     // came while it was deleted
	f.wantCurrent("four", moment(4))
}

func TestDeleteOfAnotherVersion(t *testing.T) {
	f := newVersionsFixture(t)
	f.send(201, "PUT", "null", 1)
	f.putVersion(2, "two")
	f.putVersion(3, "three")
	f.rows.take("/sdb/5/AUTH_a/c")
	f.send(204, "DELETE", "", 9, versionHeader, moment(2))
	f.wantRows(moment(2) + " " + moment(9) + " 1")
	f.wantCurrent("three", moment(3))
	f.send(204, "DELETE", "", 10, versionHeader, moment(1)) // the null version, by its time
	f.wantRows(moment(1)+" "+moment(10)+" 1", "null "+moment(1)+removedNull+" 1")
	f.wantVersion("null", "")
	f.wantCurrent("three", moment(3))
	f.send(204, "DELETE", "", 11, versionHeader, moment(11), markerHeader, "yes")
	f.send(204, "DELETE", "", 12, versionHeader, moment(11), hideHeader, "true")
	f.wantCurrent("", "") // the removal of a marker makes no version current
}

func TestRestoreOfAVersion(t *testing.T) {
	f := newVersionsFixture(t)
	f.putVersion(2, "two")
	f.putVersion(3, "three")
	f.rows.take("/sdb/5/AUTH_a/c")
	f.send(404, "PUT", "", 4, restoreHeader, moment(1))
	f.send(400, "PUT", "body", 4, restoreHeader, moment(2))
	f.send(400, "PUT", "", 4, restoreHeader, "two")
	f.send(201, "PUT", "", 5, restoreHeader, moment(2))
	f.wantRows("current " + moment(5) + " 0")
	f.wantCurrent("two", moment(2))
	if got := f.do("HEAD", objectPath, ""); got.header.Get(timestampHeader) != moment(5) || got.header.Get("X-Timestamp") != moment(2) {
		t.Errorf("HEAD of a restored version: %v", got.header)
	}
	f.send(202, "POST", "", 6, "X-Object-Meta-Color", "blue")
	f.wantRows(moment(2) + " " + moment(2) + " 0")
	for _, id := range [][]string{nil, {versionHeader, moment(2)}} {
		if got := f.do("HEAD", objectPath, "", id...); got.header.Get("X-Object-Meta-Color") != "blue" {
			t.Errorf("POST of a restored version: %v", got.header)
		}
	}
	f.send(204, "DELETE", "", 7, versionHeader, moment(2), hideHeader, "true")
	f.wantRows("current "+moment(5)+" 1", moment(2)+" "+moment(7)+" 1")
	f.wantCurrent("", "")
	f.wantVersion(moment(3), "three")
}

func TestTheNullVersionUnderItsTimestamp(t *testing.T) {
	f := newVersionsFixture(t)
	f.putVersion(1, "one")
	f.send(201, "PUT", "null", 2)
	f.wantVersion("null", "null")
	f.putVersion(3, "three")
	f.wantVersion("null", "") // it has an id now
	f.wantVersion(moment(2), "null")
	f.rows.take("/sdb/5/AUTH_a/c")
	f.wantTold(f.send(201, "PUT", "", 4, restoreHeader, moment(2)), moment(2)+" "+moment(2)+" 0", "null "+moment(4)+" 1")
	f.wantRows(moment(2)+" "+moment(2)+" 0", "null "+moment(4)+" 1", "current "+moment(4)+" 0")
	f.wantCurrent("null", moment(2))
	f.send(204, "DELETE", "", 5, versionHeader, moment(2), hideHeader, "true")
	f.wantCurrent("", "")

	f.send(201, "PUT", "again", 6)
	f.rows.take("/sdb/5/AUTH_a/c")
	f.wantTold(f.send(204, "DELETE", "", 7, versionHeader, moment(6)), "null "+moment(6)+removedNull+" 1") // no older version becomes current
	f.wantRows(moment(6)+" "+moment(7)+" 1", "null "+moment(6)+removedNull+" 1")
	f.wantCurrent("", "")
	f.wantVersion(moment(3), "three")
}

// The removal of the null version by its timestamp does not remove a null version with a later timestamp, even one that
// arrives after the removal.
func TestDeleteOfTheNullVersionBeforeALaterWrite(t *testing.T) {
	f := newVersionsFixture(t)
	f.send(201, "PUT", "null", 1)
	f.putVersion(2, "two")
	f.send(409, "DELETE", "", 1, versionHeader, moment(1))
	f.wantVersion(moment(1), "null")
	f.send(204, "DELETE", "", 9, versionHeader, moment(1))
	f.wantVersion(moment(1), "")
	f.send(201, "PUT", "late", 5)
	f.wantCurrent("late", "null")
	f.send(404, "DELETE", "", 10, versionHeader, moment(1))
	f.wantCurrent("late", "null")
	f.send(409, "PUT", "null", 1, versionHeader, moment(1)) // from a replica that kept it
}

// After a crash a null version that was being kept may exist twice: as null version and under its timestamp.
func TestDeleteOfANullVersionThatIsThereTwice(t *testing.T) {
	f := newVersionsFixture(t)
	f.send(201, "PUT", "null", 1)
	f.putVersion(2, "two")
	f.putVersion(1, "null")
	f.wantVersion(moment(1), "null")
	f.send(204, "DELETE", "", 9, versionHeader, moment(1))
	f.wantVersion(moment(1), "")
	f.wantCurrent("two", moment(2))
	f.rows.take("/sdb/5/AUTH_a/c")
	f.send(201, "PUT", "new", 10)
	f.wantRows(" " + moment(10) + " 0") // nothing is kept
	f.wantVersion(moment(1), "")
}

func TestAnOldNullVersionIsNotReplaced(t *testing.T) {
	f := newVersionsFixture(t)
	f.send(201, "PUT", "one", 1)
	f.send(202, "POST", "", 2, "X-Object-Meta-Color", "red")
	f.putVersion(3, "three")
	f.rows.take("/sdb/5/AUTH_a/c")
	f.wantTold(f.send(201, "PUT", "four", 4), moment(1)+" "+moment(1)+" 0") // suspended
	f.wantRows(moment(1)+" "+moment(1)+" 0", " "+moment(4)+" 0")
	f.wantVersion(moment(1), "one")
	if got := f.do("HEAD", objectPath, "", versionHeader, moment(1)); got.header.Get("X-Object-Meta-Color") != "red" {
		t.Errorf("kept: %v", got.header)
	}
	f.wantVersion(moment(3), "three")
	f.wantTold(f.send(201, "PUT", "five", 5)) // the null version is current, and replaced
	f.wantVersion(moment(4), "")
	f.putVersion(6, "six")
	f.rows.take("/sdb/5/AUTH_a/c")
	f.wantTold(f.send(204, "DELETE", "", 7), moment(5)+" "+moment(5)+" 0") // suspended again
	f.wantRows(moment(5)+" "+moment(5)+" 0", " "+moment(7)+" 1")
	f.wantCurrent("", "")
	f.wantVersion(moment(5), "five")
	f.send(204, "DELETE", "", 8, versionHeader, moment(5))
	f.send(204, "DELETE", "", 8, versionHeader, moment(1))
	f.wantVersion(moment(5), "")
	f.wantVersion(moment(6), "six")
}

// A DELETE without versioning and a PUT with it at the same time have the same result in either order.
func TestADeleteBesideTheFirstVersion(t *testing.T) {
	for _, order := range []string{"delete, put", "delete, copy", "put, delete"} {
		f := newVersionsFixture(t)
		f.send(201, "PUT", "null", 1)
		put := func() { f.putVersion(2, "two") }
		if order == "delete, copy" {
			const etag = "b8a9f715dbb64fd5c56e7783c6820a61" // of "two"
			f.do("PUT", "/sda/7/AUTH_a/c/source", "two", "X-Timestamp", moment(1), "Content-Type", "text/plain")
			put = func() {
				f.send(201, "PUT", "", 2, versionHeader, moment(2), copyFromHeader, "/7/AUTH_a/c/source", "Etag", etag)
			}
		}
		remove := func() { f.send(204, "DELETE", "", 3) }
		if order == "put, delete" {
			put()
			remove()
		} else {
			remove()
			put()
		}
		f.wantCurrent("", "")
		f.wantVersion(moment(2), "two")
		f.putVersion(4, "four")
		f.wantCurrent("four", moment(4))
	}
}

func TestSuspendedVersions(t *testing.T) {
	f := newVersionsFixture(t)
	f.putVersion(2, "two")
	f.send(204, "DELETE", "", 3)
	f.wantCurrent("", "")
	f.wantVersion(moment(2), "two")
	f.send(404, "DELETE", "", 4)
	f.send(201, "PUT", "null", 5)
	f.wantCurrent("null", "null")
	f.send(201, "PUT", "later", 6)
	f.wantVersion("null", "later")
	f.send(204, "DELETE", "", 7)
	f.wantCurrent("", "")
	f.wantVersion("null", "")
	f.wantVersion(moment(2), "two")
}

func TestExpiryOfTheCurrentVersion(t *testing.T) {
	f := newVersionsFixture(t)
	f.send(201, "PUT", "null", 1)
	f.send(201, "PUT", "two", 2, versionHeader, moment(2), "X-Delete-At", "1700000010")
	f.wantCurrent("", "")           // it is long after that
	f.wantVersion(moment(2), "two") // which only ends that it is current
	f.rows.take("/sdb/5/AUTH_a/c")
	late := "1700000011.00000"
	got := f.do("DELETE", objectPath, "", append(f.rows.headers(), "X-Timestamp", late, ifDeleteAt, "1700000010")...)
	if got.status != 204 {
		t.Fatalf("DELETE of the expirer: %d %s", got.status, got.body)
	}
	f.wantRows("current " + moment(2) + " 1")
	f.wantVersion(moment(2), "two")
	f.wantVersion(moment(1), "null")
	f.wantCurrent("", "")
}

func TestRestoreOfAVersionThatHasExpired(t *testing.T) {
	f := newVersionsFixture(t)
	f.send(201, "PUT", "two", 2, versionHeader, moment(2), "X-Delete-At", "1700000010")
	f.wantCurrent("", "")
	restored := "1700000011.00000"
	got := f.do("PUT", objectPath, "", append(f.rows.headers(), "X-Timestamp", restored, restoreHeader, moment(2))...)
	if got.status != 201 {
		t.Fatalf("restore: %d %s", got.status, got.body)
	}
	f.wantCurrent("two", moment(2))
	late := "1700000012.00000" // an expirer that comes after the restore
	got = f.do("DELETE", objectPath, "", append(f.rows.headers(), "X-Timestamp", late, ifDeleteAt, "1700000010")...)
	if got.status != 412 {
		t.Fatalf("DELETE of the expirer: %d %s", got.status, got.body)
	}
	f.wantCurrent("two", moment(2))
	got = f.do("POST", objectPath, "", append(f.rows.headers(), "X-Timestamp", late, "X-Object-Meta-A", "b")...)
	if got.status != 202 {
		t.Fatalf("POST: %d %s", got.status, got.body)
	}
	f.wantCurrent("two", moment(2))
}

func TestPostNamesTheVersionThatItMeans(t *testing.T) {
	f := newVersionsFixture(t)
	f.send(201, "PUT", "null", 1)
	f.send(202, "POST", "", 2, versionHeader, "null", "X-Object-Meta-Color", "red")
	f.wantCurrent("null", "") // the name has no versions because of that
	f.send(201, "PUT", "three", 3, versionHeader, moment(3), "X-Delete-At", "1700000010")
	f.send(404, "POST", "", 4, versionHeader, "null", "X-Object-Meta-Color", "green")
	f.send(404, "POST", "", 4, versionHeader, moment(4), "X-Object-Meta-Color", "green")
	late := append(f.rows.headers(), "X-Timestamp", "1700000011.00000", versionHeader, moment(3), "X-Object-Meta-Color", "blue")
	if got := f.do("POST", objectPath, "", late...); got.status != 202 { // it was current when the proxy looked
		t.Errorf("POST of a version that has expired: %d", got.status)
	}
	for id, want := range map[string]string{moment(1): "red", moment(3): "blue"} {
		if got := f.do("HEAD", objectPath, "", versionHeader, id); got.header.Get("X-Object-Meta-Color") != want {
			t.Errorf("%s: %v, want %s", id, got.header, want)
		}
	}
}

// A device that missed the removal still has the version: the proxy knows by the timestamp not to serve it.
func TestARemovedVersionTellsWhenItWasRemoved(t *testing.T) {
	f := newVersionsFixture(t)
	f.putVersion(2, "two")
	f.putVersion(3, "three")
	f.send(204, "DELETE", "", 7, versionHeader, moment(2))
	for _, method := range []string{"GET", "HEAD"} {
		got := f.do(method, objectPath, "", versionHeader, moment(2))
		if got.status != 404 || got.header.Get(timestampHeader) != moment(7) {
			t.Errorf("%s: %d %q, want 404 of %s", method, got.status, got.header.Get(timestampHeader), moment(7))
		}
	}
	got := f.do("GET", objectPath, "", versionHeader, moment(4))
	if got.status != 404 || got.header.Get(timestampHeader) != "" {
		t.Errorf("a version that never was: %d %q", got.status, got.header.Get(timestampHeader))
	}
	// If the removed version was restored meanwhile, the removal does not decide what is current.
	f.send(201, "PUT", "", 8, restoreHeader, moment(3))
	f.send(204, "DELETE", "", 9, versionHeader, moment(3))
	got = f.do("GET", objectPath, "")
	if got.status != 404 || got.header.Get(timestampHeader) != "" {
		t.Errorf("current: %d %q, want 404 without a time", got.status, got.header.Get(timestampHeader))
	}
}

func TestBadVersionHeaders(t *testing.T) {
	f := newVersionsFixture(t)
	f.putVersion(2, "two")
	for _, c := range []struct {
		method  string
		headers []string
	}{
		{"GET", []string{versionHeader, "two"}},
		{"HEAD", []string{versionHeader, "0"}},
		{"PUT", []string{versionHeader, moment(7)}},
		{"PUT", []string{versionHeader, "x"}},
		{"POST", []string{versionHeader, "-1"}},
		{"DELETE", []string{versionHeader, "null"}},
		{"DELETE", []string{versionHeader, moment(7), markerHeader, "true"}},
	} {
		if got := f.send(http.StatusBadRequest, c.method, "", 8, c.headers...); got.status != 400 {
			t.Errorf("%v: %d", c, got.status)
		}
	}
	f.wantCurrent("two", moment(2))
}

// A replica that has missed a version, and knows only that another one was removed, does not say that the name was deleted.
func TestTheRemovalOfAVersionIsNoTombstoneOfTheName(t *testing.T) {
	f := newVersionsFixture(t)
	f.send(404, "DELETE", "", 9, versionHeader, moment(1))
	for _, id := range []string{"", "null", moment(2)} {
		for _, method := range []string{"GET", "HEAD", "POST"} {
			headers := []string{"X-Timestamp", moment(12)}
			if id != "" {
				headers = append(headers, versionHeader, id)
			}
			got := f.do(method, objectPath, "", headers...)
			if got.status != 404 || got.header.Get(timestampHeader) != "" {
				t.Errorf("%s of %q: %d %v", method, id, got.status, got.header)
			}
		}
	}
	if got := f.do("HEAD", objectPath, "", versionHeader, moment(1)); got.header.Get(timestampHeader) != moment(9) {
		t.Errorf("of the removed one: %d %v", got.status, got.header)
	}
	f.send(404, "DELETE", "", 10)
	if got := f.do("HEAD", objectPath, ""); got.header.Get(timestampHeader) != moment(10) {
		t.Errorf("after a DELETE: %d %v", got.status, got.header)
	}
}
