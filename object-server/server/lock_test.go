package server

import (
	"fmt"
	"net/http"
	"testing"
	"time"
)

// in is the time so many seconds from now.
func in(seconds int64) string { return fmt.Sprintf("%d.00000", time.Now().Unix()+seconds) }

// wantLock checks what HEAD of a version shows.
func (f *versionsFixture) wantLock(id, mode, until, hold string) {
	f.t.Helper()
	got := f.do("HEAD", objectPath, "", versionHeader, id).header
	shown := [3]string{got.Get("X-Backend-Lock-Mode"), got.Get("X-Backend-Lock-Until"), got.Get("X-Backend-Lock-Hold")}
	if want := [3]string{mode, until, hold}; shown != want {
		f.t.Fatalf("lock of %s: %q, want %q", id, shown, want)
	}
}

func TestLockedVersionIsRefused(t *testing.T) {
	f := newVersionsFixture(t)
	until, later := in(1000), in(2000)
	f.send(201, "PUT", "null", 1, "X-Backend-Lock-Hold", "on")
	f.send(201, "PUT", "two", 2, versionHeader, moment(2), "X-Backend-Lock-Mode", "COMPLIANCE", "X-Backend-Lock-Until", until)
	f.send(201, "PUT", "three", 3, versionHeader, moment(3), "X-Backend-Lock-Mode", "GOVERNANCE", "X-Backend-Lock-Until", until)
	f.wantLock(moment(1), "", "", "on")
	f.wantLock(moment(2), "COMPLIANCE", until, "")
	f.wantLock(moment(3), "GOVERNANCE", until, "")
	f.rows.take("/sdb/5/AUTH_a/c")
	for _, headers := range [][]string{
		{versionHeader, moment(1)}, {versionHeader, moment(2)}, {versionHeader, moment(3), "X-Backend-Version-Hide", "true"}, {},
		{versionHeader, moment(2), "X-Backend-Lock-Bypass", "true"},
	} {
		if got := f.send(403, "DELETE", "", 10, headers...); got.header.Get(lockedHeader) != "true" {
			t.Errorf("%q: %v", headers, got.header)
		}
	}
	f.send(403, "PUT", "other", 11)
	f.wantRows()
	f.wantCurrent("three", moment(3)) // nothing was hidden
	f.wantVersion(moment(2), "two")
	f.wantVersion(moment(1), "null")

	// It gets longer, and nothing makes it shorter.
	for _, headers := range [][]string{
		{"X-Backend-Lock-Mode", "COMPLIANCE", "X-Backend-Lock-Until", in(10)},
		{"X-Backend-Lock-Mode", "GOVERNANCE", "X-Backend-Lock-Until", later},
		{"X-Backend-Lock-Mode", "NONE"},
	} {
		f.send(403, "POST", "", 12, append(headers, versionHeader, moment(2))...)
		f.send(403, "POST", "", 12, append(headers, versionHeader, moment(2), "X-Backend-Lock-Bypass", "true")...)
	}
	f.send(202, "POST", "", 13, versionHeader, moment(2), "X-Backend-Lock-Mode", "COMPLIANCE", "X-Backend-Lock-Until", later)
	f.wantLock(moment(2), "COMPLIANCE", later, "")
	f.send(409, "POST", "", 12, versionHeader, moment(2), "X-Backend-Lock-Mode", "COMPLIANCE", "X-Backend-Lock-Until", later)

	// Governance is bypassed, a hold is independent of it.
	f.send(403, "POST", "", 14, versionHeader, moment(3), "X-Backend-Lock-Mode", "GOVERNANCE", "X-Backend-Lock-Until", in(10))
	f.send(202, "POST", "", 14, versionHeader, moment(3), "X-Backend-Lock-Hold", "on")
	f.send(202, "POST", "", 15, versionHeader, moment(3), "X-Backend-Lock-Mode", "NONE", "X-Backend-Lock-Bypass", "true")
	f.wantLock(moment(3), "", "", "on")
	f.send(403, "DELETE", "", 16, versionHeader, moment(3), "X-Backend-Lock-Bypass", "true")
	f.send(202, "POST", "", 17, versionHeader, moment(3), "X-Backend-Lock-Hold", "off")
	f.send(204, "DELETE", "", 18, versionHeader, moment(3), "X-Backend-Version-Hide", "true")
	f.wantVersion(moment(3), "")
	f.send(202, "POST", "", 19, versionHeader, moment(1), "X-Backend-Lock-Hold", "off") // by the id that clients know
	f.send(204, "DELETE", "", 20, versionHeader, moment(1))
	f.wantVersion(moment(1), "")
}

func TestPostedMetadataKeepTheLock(t *testing.T) {
	f := newVersionsFixture(t)
	until := in(1000)
	f.send(201, "PUT", "two", 2, versionHeader, moment(2), "X-Backend-Lock-Mode", "COMPLIANCE", "X-Backend-Lock-Until", until)
	f.send(202, "POST", "", 3, versionHeader, moment(2), "X-Object-Meta-Color", "red")
	f.wantLock(moment(2), "COMPLIANCE", until, "")
	f.send(202, "POST", "", 4, versionHeader, moment(2), "X-Backend-Lock-Hold", "on")
	if got := f.do("HEAD", objectPath, "").header.Get("X-Object-Meta-Color"); got != "red" {
		t.Errorf("a change of the lock leaves the metadata %q", got)
	}
	f.wantLock(moment(2), "COMPLIANCE", until, "on")
	f.send(404, "POST", "", 5, versionHeader, moment(9), "X-Backend-Lock-Hold", "on")
}

func TestLockedObjectDoesNotExpire(t *testing.T) {
	f := newVersionsFixture(t)
	at := fmt.Sprint(1700000000 + 100)
	f.send(201, "PUT", "body", 1, "X-Delete-At", at, "X-Backend-Lock-Mode", "COMPLIANCE", "X-Backend-Lock-Until", in(1000))
	f.wantCurrent("body", "")
	got := f.do("DELETE", objectPath, "", "X-Timestamp", in(0), "X-If-Delete-At", at)
	if got.status != 403 {
		t.Fatalf("%d %s", got.status, got.body)
	}
	f.wantCurrent("body", "")
}

func TestBadLocksAreRefused(t *testing.T) {
	f := newVersionsFixture(t)
	for _, headers := range [][]string{
		{"X-Backend-Lock-Mode", "STRICT", "X-Backend-Lock-Until", in(1000)},
		{"X-Backend-Lock-Mode", "COMPLIANCE"},
		{"X-Backend-Lock-Mode", "COMPLIANCE", "X-Backend-Lock-Until", "soon"},
		{"X-Backend-Lock-Mode", "COMPLIANCE", "X-Backend-Lock-Until", "99999999999"},
		{"X-Backend-Lock-Hold", "maybe"},
	} {
		f.send(http.StatusBadRequest, "PUT", "body", 1, headers...)
		f.send(http.StatusBadRequest, "POST", "", 2, headers...)
	}
	f.wantCurrent("", "")
}

// A copy does not take the lock of its source, and may have one of its own.
func TestCopyHasNoLock(t *testing.T) {
	f := newVersionsFixture(t)
	source := f.send(201, "PUT", "body", 1, "X-Backend-Lock-Hold", "on")
	from := []string{"X-Backend-Copy-From", "/7/AUTH_a/c/o", "Etag", source.header.Get("Etag")}
	f.send(201, "PUT", "", 2, append(from, versionHeader, moment(2))...)
	f.wantLock(moment(2), "", "", "")
	f.send(201, "PUT", "", 3, append(from, versionHeader, moment(3), "X-Backend-Lock-Hold", "on")...)
	f.wantLock(moment(3), "", "", "on")
}
