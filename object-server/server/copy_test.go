package server

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"martlet/object-server/bundle/format"
	"martlet/object-server/device"
	"martlet/object-server/server/devices"
	"martlet/object-server/updates"
	"martlet/object-server/vfs"
)

const (
	helloETag = "5d41402abc4b2a76b9719d911017c592"
	copyPath  = "/sda/9/AUTH_b/d/p"
	copyFrom  = "/7/AUTH_a/c/o"
)

// copy sends a copy of "hello" at copyFrom to copyPath.
func (f *fixture) copy(timestamp string, headers ...string) answer {
	f.t.Helper()
	return f.do("PUT", copyPath, "", append([]string{
		"X-Timestamp", timestamp, "Content-Length", "0", copyFromHeader, copyFrom, "Etag", helloETag}, headers...)...)
}

// onDevice makes the fixture's device a real one.
func onDevice(f *fixture) {
	f.open = func(path string) (devices.Store, *updates.Pending, error) {
		opened, err := device.Open(vfs.OS{}, path, device.Options{SpillBytes: 4096})
		if err != nil {
			return nil, nil, err
		}
		pending, err := f.server.updater.Attach(vfs.OS{}, path)
		return devices.NewStore(opened, io.NopCloser(nil)), pending, err
	}
}

func TestCopyTakesBytesAndMetadata(t *testing.T) {
	f := newFixture(t)
	onDevice(f)
	for i, body := range []string{"hello", strings.Repeat("large ", 30_000)} {
		got := f.put(objectPath, body, []string{"1700000000.00000", "1700000010.00000"}[i], "Cache-Control", "no-cache",
			"X-Object-Meta-Color", "blue", "X-Object-Meta-Size", "5", "X-Object-Sysmeta-S", "1", "X-Delete-At", "1900000000")
		f.expect(got, 201, "PUT of the source")
		etag := unquote(got.header.Get("Etag"))
		got = f.copy([]string{"1700000001.00000", "1700000011.00000"}[i], "Etag", etag, "X-Object-Meta-Color", "red",
			copyIfHeader, []string{"1700000000.00000", "1700000010.00000"}[i])
		f.expect(got, 201, "copy")
		if got.header.Get("Etag") != `"`+etag+`"` {
			t.Errorf("Etag %s", got.header.Get("Etag"))
		}
		got = f.do("GET", copyPath, "")
		if got.body != body {
			t.Errorf("%d bytes", len(got.body))
		}
		for name, want := range map[string]string{
			"Content-Type": "text/plain", "X-Object-Meta-Color": "red", "X-Object-Meta-Size": "5", "X-Object-Sysmeta-S": "1",
			"Cache-Control": "no-cache", "X-Delete-At": "1900000000", "Etag": `"` + etag + `"`,
			"X-Backend-Timestamp": []string{"1700000001.00000", "1700000011.00000"}[i],
		} {
			if got.header.Get(name) != want {
				t.Errorf("%s is %q, want %q", name, got.header.Get(name), want)
			}
		}
	}
}

func TestCopyWithMetadataOfItsOwn(t *testing.T) {
	f := newFixture(t)
	f.mustPut(objectPath, "hello", "1700000000.00000", "X-Object-Meta-Color", "blue", "X-Object-Sysmeta-S", "1",
		"X-Delete-At", "1900000000")
	f.expect(f.copy("1700000001.00000", copyMetadataHeader, "replace", "Content-Type", "image/png",
		"X-Object-Meta-Legs", "2"), 201, "copy")
	got := f.do("HEAD", copyPath, "")
	for name, want := range map[string]string{
		"Content-Type": "image/png", "X-Object-Meta-Legs": "2", "X-Object-Meta-Color": "", "X-Object-Sysmeta-S": "",
		"X-Delete-At": "", "Content-Length": "5",
	} {
		if got.header.Get(name) != want {
			t.Errorf("%s is %q, want %q", name, got.header.Get(name), want)
		}
	}
}

func TestCopyIsRefused(t *testing.T) {
	f := newFixture(t)
	f.mustPut(objectPath, "hello", "1700000000.00000", "X-Object-Meta-A", strings.Repeat("a", 200), "X-Delete-At", "1800000000")
	f.mustPut(copyPath, "there", "1700000005.00000")
	f.mustPut("/sda/7/AUTH_a/c/gone", "hello", "1700000000.00000")
	f.expect(f.do("DELETE", "/sda/7/AUTH_a/c/gone", "", "X-Timestamp", "1700000001.00000"), 204, "DELETE")
	many := []string{}
	for i := range 20 {
		many = append(many, "X-Object-Meta-"+strings.Repeat("n", i+1), strings.Repeat("v", 200))
	}
	for _, c := range []struct {
		what    string
		status  int
		headers []string
	}{
		{"older", 409, []string{"X-Timestamp", "1700000004.00000"}},
		{"not newer", 409, []string{"X-Timestamp", "1700000005.00000"}},
		{"there already", 412, []string{"If-None-Match", "*"}},
		{"source of another time", 412, []string{copyIfHeader, "1700000000.00001"}},
		{"other bytes", 422, []string{"Etag", strings.Repeat("0", 32)}},
		{"no Etag", 400, []string{"Etag", ""}},
		{"no source", 404, []string{copyFromHeader, "/7/AUTH_a/c/none"}},
		{"source deleted", 404, []string{copyFromHeader, "/7/AUTH_a/c/gone"}},
		{"source in another partition", 404, []string{copyFromHeader, "/8/AUTH_a/c/o"}},
		{"source in another policy", 404, []string{"X-Backend-Storage-Policy-Index", "1"}},
		{"source expired", 404, []string{"X-Timestamp", "1800000000.00000"}},
		{"malformed source", 400, []string{copyFromHeader, "AUTH_a/c/o"}},
		{"no partition", 400, []string{copyFromHeader, "/x/AUTH_a/c/o"}},
		{"no object", 400, []string{copyFromHeader, "/7/AUTH_a/c"}},
		{"empty container", 400, []string{copyFromHeader, "/7/AUTH_a//o"}},
		{"bad quoting", 400, []string{copyFromHeader, "/7/AUTH_a/c/%zz"}},
		{"not UTF-8", 400, []string{copyFromHeader, "/7/AUTH_a/c/%ff"}},
		{"reserved", 400, []string{copyFromHeader, "/7/AUTH_a/c/%00o"}},
		{"unknown treatment of metadata", 400, []string{copyMetadataHeader, "some"}},
		{"no type", 400, []string{copyMetadataHeader, "replace"}},
		{"bad time of the source", 400, []string{copyIfHeader, "then"}},
		{"too many metadata together", 400, many},
		{"no timestamp", 400, []string{"X-Timestamp", ""}},
	} {
		got := f.copy("1700000009.00000", c.headers...)
		f.expect(got, c.status, c.what)
		if c.status == 404 && got.header.Get(timestampHeader) != "" {
			t.Errorf("%s: a time of the source", c.what)
		}
	}
	f.expect(f.do("PUT", copyPath, "body", "X-Timestamp", "1700000009.00000", copyFromHeader, copyFrom, "Etag", helloETag),
		400, "with a body")
	if got := f.do("GET", copyPath, ""); got.body != "there" {
		t.Errorf("the object became %q", got.body)
	}
	f.expect(f.copy("1700000009.00000", copyFromHeader, "/7/AUTH_a/c/%6f"), 201, "a quoted name")
}

func TestCopyOfDamagedSource(t *testing.T) {
	f := newFixture(t)
	copies := &failingCopy{f.store}
	f.open = func(path string) (devices.Store, *updates.Pending, error) {
		pending, err := f.server.updater.Attach(vfs.OS{}, path)
		return copies, pending, err
	}
	f.expect(f.copy("1700000009.00000"), 404, "copy")
	if !strings.Contains(f.log.String(), "quarantine") {
		t.Error("the log does not say why")
	}
}

type failingCopy struct{ *fakeStore }

func (failingCopy) Copy(device.Location, device.Location, func(*format.Metadata) error) (
	*format.Metadata, device.State, error,
) {
	return nil, device.State{}, device.ErrQuarantined
}

// The container gets the row of the copy, with the overridden ETag and size.
func TestCopyUpdatesItsContainer(t *testing.T) {
	f := newFixture(t, patient)
	l := newListings(t)
	f.mustPut(objectPath, "hello", "1700000000.00000",
		http.CanonicalHeaderKey("X-Object-Sysmeta-Container-Update-Override-Etag"), "shown")
	f.expect(f.copy("1700000001.00000", l.headers()...), 201, "copy")
	f.expectRow(l, "/sdb/5/AUTH_b/d", updates.Row{
		Name: "p", CreatedAt: "1700000001.00000", Size: 5, ContentType: "text/plain", ETag: "shown",
	})
	if rows := l.take("/sdb/5/AUTH_a/c"); len(rows) != 0 {
		t.Errorf("the source's container is told %v", rows)
	}
}
