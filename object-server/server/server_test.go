package server

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"martlet/object-server/proof"
	"martlet/object-server/server/conf"
	"martlet/object-server/server/devices"
	"martlet/object-server/server/versionid"
	"martlet/object-server/updates"
	"martlet/object-server/vfs"
)

// fixture is a server on a socket, with a fake device called sda and a real one's directory for what is pending.
type fixture struct {
	t       *testing.T
	config  *conf.Config
	server  *Server
	store   *fakeStore
	open    openFunc // may be replaced by a test
	address string
	log     *proof.Log
}

// testConfig is a configuration with the defaults, and with lines of its own.
func testConfig(t testing.TB, lines ...string) *conf.Config {
	t.Helper()
	dir := t.TempDir()
	file := "[DEFAULT]\nswift_dir = " + dir + "\n" + strings.Join(lines, "\n") + "\n"
	for name, text := range map[string]string{
		"object-server.conf": file, "martlet.conf": "[grid]\ngrid_secret = none\n[swift-hash]\nswift_hash_path_suffix = suffix\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	config, err := conf.Read(filepath.Join(dir, "object-server.conf"))
	if err != nil {
		t.Fatal(err)
	}
	config.Devices, config.MountCheck, config.ReconCachePath = t.TempDir(), false, t.TempDir()
	config.Policies = map[int]bool{0: true, 1: true}
	config.ContainerUpdateTimeout = 200 * time.Millisecond
	return config
}

// newPatientServer is New, but requests wait for a device as long as a busy disk may take.
func newPatientServer(config *conf.Config) *Server {
	options := config.Device
	options.Logger, options.KeptID, options.HiddenID = slog.New(slog.DiscardHandler), versionid.OfNull, versionid.Hidden
	s := newServer(config, nil, options.Logger, "test")
	s.use(s.opener(options), time.Minute)
	return s
}

func newFixture(t *testing.T, adjust ...func(*conf.Config)) *fixture {
	t.Helper()
	f := &fixture{t: t, config: testConfig(t), store: newFakeStore(), log: &proof.Log{}}
	for _, change := range adjust {
		change(f.config)
	}
	if err := os.Mkdir(filepath.Join(f.config.Devices, "sda"), 0o755); err != nil {
		t.Fatal(err)
	}
	logger := slog.New(slog.NewTextHandler(f.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	f.server = newServer(f.config, nil, logger, "test")
	f.open = func(path string) (devices.Store, *updates.Pending, error) {
		pending, err := f.server.updater.Attach(vfs.OS{}, path)
		return f.store, pending, err
	}
	// The disk of a busy machine takes longer than a request may wait: hence the minute.
	f.server.use(func(path string) (devices.Store, *updates.Pending, error) { return f.open(path) }, time.Minute)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f.address = listener.Addr().String()
	served := make(chan error, 1)
	go func() { served <- f.server.Serve(listener) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := f.server.Shutdown(ctx); err != nil {
			t.Errorf("shutdown: %v", err)
		}
		if err := <-served; err != nil {
			t.Errorf("serve: %v", err)
		}
		if t.Failed() {
			t.Log(f.log.String())
		}
		if f.store.uploads != 0 {
			t.Errorf("%d uploads neither committed nor aborted", f.store.uploads)
		}
	})
	return f
}

// answer is a response with its body read.
type answer struct {
	status int
	header http.Header
	body   string
}

// patientTransport waits for 100 Continue as long as it takes. http.DefaultTransport sends the body
// after a second. The answer of a server that refuses the body may then be lost.
var patientTransport = func() *http.Transport {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.ExpectContinueTimeout = time.Minute
	return transport
}()

func (f *fixture) do(method, path, body string, headers ...string) answer {
	f.t.Helper()
	request, err := http.NewRequest(method, "http://"+f.address+path, strings.NewReader(body))
	if err != nil {
		f.t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	response, err := patientTransport.RoundTrip(request)
	if err != nil {
		f.t.Fatalf("%s %s: %v", method, path, err)
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	if err != nil {
		f.t.Fatalf("%s %s: %v", method, path, err)
	}
	return answer{response.StatusCode, response.Header, string(content)}
}

const objectPath = "/sda/7/AUTH_a/c/o"

func (f *fixture) put(path, body, timestamp string, headers ...string) answer {
	f.t.Helper()
	return f.do("PUT", path, body, append([]string{"X-Timestamp", timestamp, "Content-Type", "text/plain"}, headers...)...)
}

func (f *fixture) mustPut(path, body, timestamp string, headers ...string) {
	f.t.Helper()
	if got := f.put(path, body, timestamp, headers...); got.status != http.StatusCreated {
		f.t.Fatalf("PUT %s: %d %s", path, got.status, got.body)
	}
}

func (f *fixture) expect(got answer, status int, what string) {
	f.t.Helper()
	if got.status != status {
		f.t.Errorf("%s: got %d %q, want %d", what, got.status, got.body, status)
	}
}

// As with OpenStack Swift, and as the proxy compares it for large bodies.
func TestETagOfAPutInCapitals(t *testing.T) {
	f := newFixture(t)
	for _, etag := range []string{"5D41402ABC4B2A76B9719D911017C592", `"5D41402ABC4B2A76B9719D911017C592"`} {
		f.expect(f.put(objectPath+etag[2:9], "hello", "1700000000.12345", "Etag", etag), 201, etag)
	}
}

func TestPutThenGetGivesBackBodyAndHeaders(t *testing.T) {
	f := newFixture(t)
	got := f.put(objectPath, "hello", "1700000000.12345", "X-Object-Meta-Color", "blue", "X-Object-Sysmeta-S", "1",
		"Content-Encoding", "x", "X-Unknown", "dropped")
	f.expect(got, 201, "PUT")
	const etag = `"5d41402abc4b2a76b9719d911017c592"`
	if got.header.Get("Etag") != etag {
		t.Errorf("PUT Etag %q", got.header.Get("Etag"))
	}
	for _, method := range []string{"GET", "HEAD"} {
		got = f.do(method, objectPath, "")
		f.expect(got, 200, method)
		for name, want := range map[string]string{
			"Etag": etag, "Content-Type": "text/plain", "Content-Length": "5", "X-Object-Meta-Color": "blue",
			"X-Object-Sysmeta-S": "1", "Content-Encoding": "x", "X-Unknown": "", "X-Timestamp": "1700000000.12345",
			"X-Backend-Timestamp": "1700000000.12345", "X-Backend-Data-Timestamp": "1700000000.12345",
			"X-Backend-Durable-Timestamp": "1700000000.12345", "Last-Modified": "Tue, 14 Nov 2023 22:13:21 GMT",
		} {
			if got.header.Get(name) != want {
				t.Errorf("%s: %s is %q, want %q", method, name, got.header.Get(name), want)
			}
		}
		if want := map[string]string{"GET": "hello", "HEAD": ""}[method]; got.body != want {
			t.Errorf("%s body %q", method, got.body)
		}
	}
}

func TestNamesKeepEveryByte(t *testing.T) {
	f := newFixture(t)
	for _, name := range []string{"/AUTH_a/c/a//b/", "/AUTH_a/c/%E5%AF%B9%E8%B1%A1", "/AUTH_a/c/a%3Fb%23c%25", "/AUTH_a/c/.",
		"/AUTH_a/c/../x", "/.expiring_objects/1/2-a/b/c", "/AUTH_a/%00v%00c/%00v%00o", "/AUTH_a/c/a%2Fb"} {
		f.mustPut("/sda/7"+name, name, "1700000000.00000")
		if got := f.do("GET", "/sda/7"+name, ""); got.status != 200 || got.body != name {
			t.Errorf("%s: got %d %q", name, got.status, got.body)
		}
	}
	if got := f.do("GET", "/sda/7/AUTH_a/c/a/b", ""); got.body != "/AUTH_a/c/a%2Fb" {
		t.Errorf("a quoted slash is a slash: got %q", got.body)
	}
}

func TestMetadataMayBeAnyBytes(t *testing.T) {
	f := newFixture(t)
	f.expect(f.put(objectPath, "body", "1700000000.00000", "X-Object-Meta-A", "\xff\xc3"), 201, "metadata that is not UTF-8")
	if got := f.do("HEAD", objectPath, "").header.Get("X-Object-Meta-A"); got != "\xff\xc3" {
		t.Errorf("metadata came back as %q", got)
	}
}

func TestPutIsRefused(t *testing.T) {
	f := newFixture(t)
	long := strings.Repeat("n", 1025)
	for _, c := range []struct {
		what    string
		path    string
		status  int
		headers []string
	}{
		{"no timestamp", objectPath, 400, []string{"X-Timestamp", ""}},
		{"bad timestamp", objectPath, 400, []string{"X-Timestamp", "yesterday"}},
		{"negative timestamp", objectPath, 400, []string{"X-Timestamp", "-1"}},
		{"long name", "/sda/7/AUTH_a/c/" + long, 400, nil},
		{"long container", "/sda/7/AUTH_a/" + long + "/o", 400, nil},
		{"long account", "/sda/7/" + long + "/c/o", 400, nil},
		{"NUL in the name", "/sda/7/AUTH_a/c/a%00b", 400, nil},
		{"reserved object in a user's container", "/sda/7/AUTH_a/c/%00b", 400, nil},
		{"not UTF-8", "/sda/7/AUTH_a/c/%ff", 412, nil},
		{"no object", "/sda/7/AUTH_a/c", 400, nil},
		{"empty container", "/sda/7/AUTH_a//o", 400, nil},
		{"partition", "/sda/x/AUTH_a/c/o", 400, nil},
		{"partition too large", "/sda/4294967296/AUTH_a/c/o", 400, nil},
		{"device ..", "/../7/AUTH_a/c/o", 400, nil},
		{"missing device", "/sdz/7/AUTH_a/c/o", 507, nil},
		{"wrong ETag", objectPath, 422, []string{"Etag", "00000000000000000000000000000000"}},
		{"delete-at in the past", objectPath, 400, []string{"X-Delete-At", "1600000000"}},
		{"delete-at not a number", objectPath, 400, []string{"X-Delete-At", "soon"}},
		{"delete-after 0", objectPath, 400, []string{"X-Delete-After", "0"}},
		{"unknown policy", objectPath, 503, []string{"X-Backend-Storage-Policy-Index", "9"}},
		{"policy not a number", objectPath, 503, []string{"X-Backend-Storage-Policy-Index", "gold"}},
		{"erasure coding", objectPath, 501, []string{"X-Backend-Obj-Multiphase-Commit", "yes"}},
		{"size announced beyond the limit", objectPath, 413, []string{"X-Backend-Obj-Metadata-Footer", "yes",
			"X-Backend-Obj-Content-Length", "9000000000000000000"}},
		{"empty metadata name", objectPath, 400, []string{"X-Object-Meta-", "x"}},
		{"long metadata name", objectPath, 400, []string{"X-Object-Meta-" + long[:129], "x"}},
		{"long metadata value", objectPath, 400, []string{"X-Object-Meta-A", long[:257]}},
		{"long header value", objectPath, 400, []string{"X-Object-Sysmeta-A", strings.Repeat("v", 8193)}},
	} {
		got := f.put(c.path, "body", "1700000000.00000", c.headers...)
		f.expect(got, c.status, c.what)
		if got.status/100 != 2 && len(got.body) < 5 {
			t.Errorf("%s: no sentence in the answer: %q", c.what, got.body)
		}
	}
	var many, large []string
	for i := range 91 {
		many = append(many, "X-Object-Meta-"+strings.Repeat("a", i+1), "v")
	}
	for i := range 20 {
		large = append(large, "X-Object-Meta-A"+strings.Repeat("b", i), long[:250])
	}
	f.expect(f.put(objectPath, "body", "1700000000.00000", many...), 400, "91 metadata items")
	f.expect(f.put(objectPath, "body", "1700000000.00000", large...), 400, "5 KB of metadata")
	f.expect(f.do("PUT", objectPath, "body", "X-Timestamp", "1700000000.00000"), 400, "no content type")
	if len(f.store.objects) != 0 {
		t.Errorf("refused writes left %d objects", len(f.store.objects))
	}
	f.mustPut(objectPath, "body", "1700000000.00000")
}

func TestOlderAndEqualWritesConflict(t *testing.T) {
	f := newFixture(t)
	f.mustPut(objectPath, "new", "1700000001.00000")
	for _, timestamp := range []string{"1700000000.00000", "1700000001.00000"} {
		for _, headers := range [][]string{nil, {"Expect", "100-continue"}} {
			got := f.put(objectPath, "old", timestamp, headers...)
			f.expect(got, 409, "PUT at "+timestamp)
			if got.header.Get("X-Backend-Timestamp") != "1700000001.00000" {
				t.Errorf("409 has X-Backend-Timestamp %q", got.header.Get("X-Backend-Timestamp"))
			}
		}
		got := f.do("DELETE", objectPath, "", "X-Timestamp", timestamp)
		f.expect(got, 409, "DELETE at "+timestamp)
		f.expect(f.do("POST", objectPath, "", "X-Timestamp", timestamp), 409, "POST at "+timestamp)
	}
	f.mustPut(objectPath, "offset", "1700000001.00000_0000000000000001")
	if got := f.do("GET", objectPath, ""); got.body != "offset" ||
		got.header.Get("X-Backend-Timestamp") != "1700000001.00000_0000000000000001" ||
		got.header.Get("X-Timestamp") != "1700000001.00000" {
		t.Errorf("got %q, %v", got.body, got.header)
	}
}

func TestIfNoneMatchOnPut(t *testing.T) {
	f := newFixture(t)
	f.expect(f.put(objectPath, "a", "1700000000.00000", "If-None-Match", "*"), 201, "first")
	f.expect(f.put(objectPath, "b", "1700000001.00000", "If-None-Match", "*"), 412, "second")
	f.expect(f.do("DELETE", objectPath, "", "X-Timestamp", "1700000002.00000"), 204, "DELETE")
	f.expect(f.put(objectPath, "c", "1700000003.00000", "If-None-Match", "*", "X-Delete-At", "1700000010"), 201,
		"after DELETE")
	f.expect(f.put(objectPath, "d", "1700000011.00000", "If-None-Match", "*"), 201, "after expiry")
}

func TestDeleteLeavesATombstone(t *testing.T) {
	f := newFixture(t)
	got := f.do("DELETE", objectPath, "", "X-Timestamp", "1700000000.00000")
	f.expect(got, 404, "DELETE of nothing")
	f.expect(f.put(objectPath, "old", "1699999999.00000"), 409, "PUT older than the tombstone")
	f.mustPut(objectPath, "x", "1700000001.00000")
	got = f.do("DELETE", objectPath, "", "X-Timestamp", "1700000002.00000")
	f.expect(got, 204, "DELETE")
	if got.header.Get("X-Backend-Content-Type") != "text/plain" {
		t.Errorf("DELETE: %v", got.header)
	}
	for _, method := range []string{"GET", "HEAD"} {
		got = f.do(method, objectPath, "")
		f.expect(got, 404, method)
		if got.header.Get("X-Backend-Timestamp") != "1700000002.00000" {
			t.Errorf("%s: 404 has X-Backend-Timestamp %q", method, got.header.Get("X-Backend-Timestamp"))
		}
	}
	f.expect(f.do("GET", objectPath, "", "If-Match", "*"), 412, "GET of nothing with If-Match: *")
	got = f.do("DELETE", objectPath, "", "X-Timestamp", "1700000001.50000")
	f.expect(got, 404, "older DELETE")
	if got.header.Get("X-Backend-Timestamp") != "1700000002.00000" {
		t.Errorf("older DELETE: %v", got.header)
	}
}

func TestExpiry(t *testing.T) {
	f := newFixture(t)
	f.mustPut(objectPath, "x", "1700000000.00000", "X-Delete-At", "1700000100")
	got := f.do("GET", objectPath, "", "X-Timestamp", "1700000099.00000")
	f.expect(got, 200, "before")
	if got.header.Get("X-Delete-At") != "1700000100" {
		t.Errorf("X-Delete-At %q", got.header.Get("X-Delete-At"))
	}
	for _, method := range []string{"GET", "HEAD"} {
		got = f.do(method, objectPath, "", "X-Timestamp", "1700000100.00000")
		f.expect(got, 404, method+" after")
		if got.header.Get("X-Backend-Timestamp") != "1700000000.00000" {
			t.Errorf("%s after: %v", method, got.header)
		}
		f.expect(f.do(method, objectPath, "", "X-Backend-Replication", "true"), 200, method+" by a replicator")
	}
	f.expect(f.do("POST", objectPath, "", "X-Timestamp", "1700000101.00000"), 404, "POST after")
	f.expect(f.do("DELETE", objectPath, "", "X-Timestamp", "1700000101.00000", "X-If-Delete-At", "1700000000"), 412,
		"DELETE for another time")
	f.expect(f.do("DELETE", objectPath, "", "X-Timestamp", "1700000101.00000", "X-If-Delete-At", "never"), 400,
		"DELETE for nonsense")
	f.expect(f.do("DELETE", objectPath, "", "X-Timestamp", "1700000101.00000", "X-If-Delete-At", "1700000100"), 204,
		"DELETE for this time")
	f.expect(f.do("DELETE", "/sda/7/a/c/none", "", "X-Timestamp", "1700000101.00000", "X-If-Delete-At", "1700000100"), 404,
		"DELETE of nothing")
	f.mustPut(objectPath, "x", "1700000200.00000", "X-Delete-After", "10")
	if got := f.do("HEAD", objectPath, "", "X-Timestamp", "1700000201"); got.header.Get("X-Delete-At") != "1700000210" {
		t.Errorf("X-Delete-After: %v", got.header)
	}
}

func TestPostReplacesUserMetadataAlone(t *testing.T) {
	f := newFixture(t)
	f.mustPut(objectPath, "x", "1700000000.00000", "X-Object-Meta-A", "1", "X-Object-Sysmeta-S", "s",
		"X-Object-Transient-Sysmeta-T", "t", "X-Static-Large-Object", "True", "Cache-Control", "private",
		"X-Delete-At", "1800000000")
	got := f.do("POST", objectPath, "", "X-Timestamp", "1700000001.00000", "X-Object-Meta-B", "2", "X-Object-Sysmeta-S", "no")
	f.expect(got, 202, "POST")
	if got.header.Get("X-Object-Sysmeta-S") != "s" || got.header.Get("X-Backend-Content-Type") != "text/plain" {
		t.Errorf("POST: %v", got.header)
	}
	if written := got.header.Get("X-Backend-Data-Timestamp"); written != "1700000000.00000" {
		t.Errorf("the object that was posted to was written at %q", written)
	}
	got = f.do("HEAD", objectPath, "")
	for name, want := range map[string]string{
		"X-Object-Meta-A": "", "X-Object-Meta-B": "2", "X-Object-Sysmeta-S": "s", "X-Object-Transient-Sysmeta-T": "",
		"X-Static-Large-Object": "True", "Cache-Control": "", "X-Delete-At": "", "Content-Type": "text/plain",
		"X-Timestamp": "1700000001.00000", "X-Backend-Data-Timestamp": "1700000000.00000",
	} {
		if got.header.Get(name) != want {
			t.Errorf("%s is %q, want %q", name, got.header.Get(name), want)
		}
	}
	f.expect(f.do("POST", "/sda/7/a/c/none", "", "X-Timestamp", "1700000001.00000"), 404, "POST to nothing")
	f.expect(f.do("POST", objectPath, "", "X-Timestamp", "1700000003.00000", "X-Delete-At", "1600000000"), 400, "past")
	f.expect(f.do("POST", objectPath, "", "X-Timestamp", "1700000003.00000", "X-Delete-At", "0"), 202, "never")
}

// TestPostThatAPeerHasSentAlready sends a POST to a replica that has its result from another one.
func TestPostThatAPeerHasSentAlready(t *testing.T) {
	f := newFixture(t)
	f.mustPut(objectPath, "body", "1700000001.00000", "X-Object-Meta-A", "1")
	post := func(status int, headers ...string) {
		t.Helper()
		headers = append(headers, "X-Timestamp", "1700000002.00000")
		f.expect(f.do("POST", objectPath, "", headers...), status, "POST "+strings.Join(headers, " "))
	}
	post(202, "X-Object-Meta-A", "2")
	post(202, "X-Object-Meta-A", "2")
	post(409, "X-Object-Meta-A", "1") // another one of the same time, which wins or loses everywhere
	post(202, "X-Object-Meta-A", "2", "Content-Type", "a/b")
	post(202, "X-Object-Meta-A", "2", "Content-Type", "a/b")
	post(409, "X-Object-Meta-A", "2", "Content-Type", "a/a")
	post(409)
	if got := f.do("HEAD", objectPath, ""); got.header.Get("X-Object-Meta-A") != "2" || got.header.Get("Content-Type") != "a/b" {
		t.Errorf("%v", got.header)
	}
}

// TestPutThatAPeerHasSentAlready sends a PUT to a replica that has its object from another one.
func TestPutThatAPeerHasSentAlready(t *testing.T) {
	f := newFixture(t, patient)
	l := newListings(t)
	const at = "1700000001.00000"
	first := f.put(objectPath, "body", at, "X-Object-Meta-A", "1")
	f.expect(first, 201, "PUT")
	again := f.put(objectPath, "body", at, append(l.headers(), "X-Object-Meta-A", "1")...)
	f.expect(again, 201, "the same PUT again")
	if again.header.Get("Etag") != first.header.Get("Etag") || len(l.take(listingPath)) != 1 {
		t.Errorf("the same PUT again has %v, or did not tell the container", again.header)
	}
	f.expect(f.put(objectPath, "other", at, "X-Object-Meta-A", "1"), 409, "another body")
	f.expect(f.put(objectPath, "body", at, "X-Object-Meta-A", "2"), 409, "other metadata")
	f.expect(f.do("POST", objectPath, "", "X-Timestamp", "1700000002.00000", "X-Object-Meta-A", "3"), 202, "POST")
	f.expect(f.put(objectPath, "body", at, "X-Object-Meta-A", "1"), 201, "the same PUT after a POST")
	if got := f.do("HEAD", objectPath, ""); got.header.Get("X-Object-Meta-A") != "3" {
		t.Errorf("%v", got.header)
	}
	f.expect(f.do("DELETE", objectPath, "", "X-Timestamp", "1700000003.00000"), 204, "DELETE")
	f.expect(f.put(objectPath, "body", at, "X-Object-Meta-A", "1"), 409, "the same PUT after a DELETE")
}

func TestPostKeepsTheListedSize(t *testing.T) {
	for _, c := range []struct{ old, sent, want string }{
		{"a/b;swift_bytes=99", "c/d", "c/d;swift_bytes=99"},
		{"a/b; charset=x; swift_bytes=99", "c/d; charset=y", "c/d; charset=y; swift_bytes=99"},
		{"a/b;swift_bytes=99", "c/d;swift_bytes=1", "c/d;swift_bytes=99"},
		{"a/b", "c/d", "c/d"},
	} {
		f := newFixture(t)
		f.mustPut(objectPath, "x", "1700000000.00000", "Content-Type", c.old)
		f.expect(f.do("POST", objectPath, "", "X-Timestamp", "1700000001.00000", "Content-Type", c.sent), 202, c.sent)
		if got := f.do("HEAD", objectPath, "").header.Get("Content-Type"); got != c.want {
			t.Errorf("%s after %s is %q, want %q", c.sent, c.old, got, c.want)
		}
	}
}

func TestContentTypeHasATimestampOfItsOwn(t *testing.T) {
	f := newFixture(t)
	f.mustPut(objectPath, "x", "1700000000.00000")
	f.expect(f.do("POST", objectPath, "", "X-Timestamp", "1700000005.00000", "X-Object-Meta-A", "1", "Content-Type", "a/b",
		"Content-Type-Timestamp", "1700000002.00000"), 202, "newer type")
	f.expect(f.do("POST", objectPath, "", "X-Timestamp", "1700000004.00000", "Content-Type", "c/d",
		"Content-Type-Timestamp", "1700000003.00000"), 202, "type alone is newer")
	got := f.do("HEAD", objectPath, "")
	if got.header.Get("Content-Type") != "c/d" || got.header.Get("X-Object-Meta-A") != "1" ||
		got.header.Get("X-Timestamp") != "1700000005.00000" {
		t.Errorf("got %v", got.header)
	}
	f.expect(f.do("POST", objectPath, "", "X-Timestamp", "1700000004.00000", "Content-Type", "c/a",
		"Content-Type-Timestamp", "1700000003.00000"), 409, "nothing is newer, or greater at the same time")
	f.expect(f.do("POST", objectPath, "", "X-Timestamp", "1700000005.00000", "X-Object-Meta-A", "0"), 409, "a POST that loses a tie")
	f.expect(f.do("POST", objectPath, "", "X-Timestamp", "1700000005.00000", "X-Object-Meta-A", "2"), 202, "one that wins it")
	f.expect(f.do("POST", objectPath, "", "X-Timestamp", "1700000000.00000", "X-Object-Meta-A", "3"), 409, "one of the time of the data")
	f.expect(f.do("POST", objectPath, "", "X-Timestamp", "1700000006.00000", "Content-Type", "e/f",
		"Content-Type-Timestamp", "x"), 400, "bad type timestamp")
}

func TestPoliciesAreApart(t *testing.T) {
	f := newFixture(t)
	f.mustPut(objectPath, "one", "1700000000.00000", "X-Backend-Storage-Policy-Index", "1")
	f.expect(f.do("GET", objectPath, ""), 404, "policy 0")
	f.expect(f.do("GET", objectPath, "", "X-Backend-Storage-Policy-Index", "1"), 200, "policy 1")
}

func TestUnknownMethodsAndRecon(t *testing.T) {
	f := newFixture(t)
	for _, method := range []string{"REPLICATE", "SSYNC", "COPY", "get"} {
		f.expect(f.do(method, objectPath, ""), 405, method)
	}
	if got := f.do("OPTIONS", "/", ""); got.status != 200 || got.header.Get("Server") != "object-server/test" {
		t.Errorf("OPTIONS: %+v", got)
	}
	if got := f.do("GET", "/healthcheck", ""); got.status != 200 || got.body != "OK" {
		t.Errorf("healthcheck: %+v", got)
	}
	f.mustPut(objectPath, "x", "1700000000.00000")
	for path, part := range map[string]string{
		"/recon/version": `"version":"test"`, "/recon/mem": "MemTotal", "/recon/diskusage": `"device":"sda","mounted":true`,
		"/recon/bundles": `"device":"sda","async_pending":0,"swift_files":true`, "/recon/async": `"async_pending":0,"unsaved":0,"damaged":0,"oldest_age":0,"containers":[]`,
		"/recon/load": `"15m":`, "/recon/time": ".", "/recon/sockstat": `"tcp_in_use":`, "/recon/mounted": `"path":"/"`,
		"/recon/devices": `:["sda"]}`, "/recon/unmounted": "[]", "/recon/quarantined": `"policies":{}`,
		"/recon/replication": `"object_replication_last":null`, "/recon/updater/object": `"object_updater_sweep":null`,
		"/recon/auditor/object": `"object_auditor_stats_ALL":null`, "/recon/expirer/object": `"expired_last_pass":null`,
		"/recon/driveaudit/": `"drive_audit_errors":null`, "/recon/sharding": `"sharding_last":null`,
		"/recon/replication/container": `"replication_last":null`, "/recon/auditor/account": `"account_audits_since":null`,
		"/recon/updater/container": `"container_updater_sweep":null`, "/recon/reconstruction/object": `"object_reconstruction_last":null`,
	} {
		if got := f.do("GET", path, ""); got.status != 200 || !strings.Contains(got.body, part) {
			t.Errorf("%s: %d %s", path, got.status, got.body)
		}
	}
	f.expect(f.do("GET", "/recon/unknown", ""), 404, "unknown figures")
	f.expect(f.do("PUT", "/recon/mem", ""), 405, "PUT of figures")
}

func TestEachRequestIsLoggedOnce(t *testing.T) {
	f := newFixture(t)
	f.mustPut(objectPath, "hello", "1700000000.00000", "X-Trans-Id", "tx42")
	lines := strings.Count(f.log.String(), "msg=request ")
	if lines != 1 || !strings.Contains(f.log.String(), "method=PUT path=/sda/7/AUTH_a/c/o status=201 in=5 out=0") ||
		!strings.Contains(f.log.String(), "txn=tx42") {
		t.Errorf("log: %s", f.log.String())
	}
}
