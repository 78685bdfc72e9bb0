package server

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"martlet/object-server/device"
	"martlet/object-server/grid"
	"martlet/object-server/server/conf"
	"martlet/object-server/updates"
)

// step is a request that is sent over HTTP to one server and over the grid to another one with the same objects.
type step struct {
	method, path, body string
	headers            []string
}

// pair are two servers with real devices that get the same requests, one over HTTP and one over the grid.
type pair struct {
	t    *testing.T
	http *versionsFixture
	grid *versionsFixture
	peer *grid.Peer
}

func newPair(t *testing.T) *pair {
	p := &pair{t: t, http: newVersionsFixture(t), grid: newVersionsFixture(t)}
	p.peer = newPeer(t, p.grid.address, "none")
	return p
}

// send compares the answers to one request and returns that of HTTP.
func (p *pair) send(method, path, body string, headers ...string) answer {
	p.t.Helper()
	got := p.http.do(method, path, body, headers...)
	same(p.t, fmt.Sprintf("%s %s %.200q", method, path, headers), method, ask(p.t, p.peer, method, path, body, headers...), got)
	return got
}

func at(n int, headers ...string) []string {
	return append([]string{"X-Timestamp", moment(n)}, headers...)
}

const helloMD5 = "5d41402abc4b2a76b9719d911017c592"

var large = strings.Repeat("0123456789abcdef", 5000)

// steps are about everything but versions and expiry.
var steps = []step{
	{"GET", objectPath, "", nil},
	{"HEAD", objectPath, "", nil},
	{"GET", objectPath, "", []string{"If-Match", "*"}},
	{"PUT", objectPath, "hello", at(10, "Content-Type", "text/plain", "Etag", helloMD5, "X-Object-Meta-Color", "blue",
		"X-Object-Sysmeta-S", "1", "X-Object-Transient-Sysmeta-T", "2", "Content-Encoding", "x", "X-Unknown", "dropped",
		"X-Object-Meta-Bytes", "caf\xc3\xa9 \xff", "X-Object-Meta-Empty", "")},
	{"GET", objectPath, "", nil},
	{"HEAD", objectPath, "", nil},
	{"GET", objectPath, "", []string{"Range", "bytes=1-3"}},
	{"GET", objectPath, "", []string{"Range", "bytes=0-0,2-3"}},
	{"GET", objectPath, "", []string{"Range", "bytes=9-"}},
	{"HEAD", objectPath, "", []string{"Range", "bytes=9-"}},
	{"GET", objectPath, "", []string{"Range", "bytes=0-1", "X-Backend-Ignore-Range-If-Metadata-Present", "x-object-meta-color"}},
	{"GET", objectPath, "", []string{"If-None-Match", `"` + helloMD5 + `"`}},
	{"HEAD", objectPath, "", []string{"If-None-Match", "*"}},
	{"GET", objectPath, "", []string{"If-Match", "other"}},
	{"GET", objectPath, "", []string{"If-Match", "blue", "X-Backend-Etag-Is-At", "X-Object-Meta-Color"}},
	{"GET", objectPath, "", []string{"If-Modified-Since", "Wed, 15 Nov 2023 22:13:21 GMT"}},
	{"GET", objectPath, "", []string{"If-Unmodified-Since", "Mon, 13 Nov 2023 22:13:21 GMT"}},
	{"PUT", objectPath, "hello", at(9, "Content-Type", "text/plain")},
	{"PUT", objectPath, "hello", at(11, "Content-Type", "text/plain", "If-None-Match", "*")},
	{"PUT", objectPath, "hello", at(11, "Content-Type", "text/plain", "Etag", strings.Repeat("0", 32))},
	{"PUT", objectPath, "hello", []string{"Content-Type", "text/plain"}},
	{"PUT", objectPath, "hello", at(11)},
	{"PUT", objectPath, "hello", at(11, "Content-Type", "\xff")},
	{"PUT", objectPath, "hello", at(11, "Content-Type", "a/b", "X-Object-Meta-Long", strings.Repeat("v", 300))},
	{"PUT", objectPath, "hello", at(11, "Content-Type", "a/b", "X-Backend-No-Commit", "yes")},
	{"PUT", objectPath, "hello", at(11, "Content-Type", "a/b", "X-Backend-Storage-Policy-Index", "7")},
	{"PUT", "/sda/7/AUTH_a/c/" + strings.Repeat("n", 1100), "hello", at(11, "Content-Type", "a/b")},
	{"PUT", "/gone/7/AUTH_a/c/o", "hello", at(11, "Content-Type", "a/b")},
	{"GET", "/gone/7/AUTH_a/c/o", "", nil},
	{"GET", "/.hidden/7/AUTH_a/c/o", "", nil},
	{"GET", "/sda/7/AUTH_a/c", "", nil},
	{"GET", "/sda/7/AUTH_a/c/%ff", "", nil},
	{"GET", "/sda/7/AUTH_a/%00c/o", "", nil},
	{"PUT", "/sda/7/AUTH_a/c/a%2Fb%20%C3%A4/x?multipart-manifest=put", "quoted", at(12, "Content-Type", "a/b")},
	{"GET", "/sda/7/AUTH_a/c/a/b%20%c3%a4/x", "", nil},
	{"POST", objectPath, "", at(13, "X-Object-Meta-Shape", "round", "Content-Type", "image/png")},
	{"HEAD", objectPath, "", nil},
	{"POST", objectPath, "", at(12, "X-Object-Meta-Shape", "flat")},
	{"POST", objectPath, "", at(14, "X-Delete-At", "now")},
	{"POST", objectPath, "", at(14, "X-Delete-At", "100")},
	{"POST", "/sda/7/AUTH_a/c/none", "", at(14)},
	{"PUT", objectPath, large, at(20, "Content-Type", "text/plain")}, // over HTTP, below
	{"GET", objectPath, "", nil},
	{"HEAD", objectPath, "", nil},
	{"GET", objectPath, "", []string{"Range", "bytes=0-65535"}},
	{"GET", objectPath, "", []string{"Range", "bytes=0-65536"}},
	{"GET", objectPath, "", []string{"Range", "bytes=0-40000,40002-79999"}},
	{"PUT", "/sda/7/AUTH_a/c/copy", "", at(21, "X-Backend-Copy-From", "/7/AUTH_a/c/none", "Etag", helloMD5)},
	{"PUT", "/sda/7/AUTH_a/c/small", "hello", at(21, "Content-Type", "a/b", "X-Object-Meta-A", "b")},
	{"PUT", "/sda/7/AUTH_a/c/copy", "", at(22, "X-Backend-Copy-From", "/7/AUTH_a/c/small", "Etag", helloMD5)},
	{"GET", "/sda/7/AUTH_a/c/copy", "", nil},
	{"DELETE", objectPath, "", at(15)},
	{"DELETE", objectPath, "", at(30)},
	{"DELETE", objectPath, "", at(31)},
	{"DELETE", objectPath, "", at(29)},
	{"GET", objectPath, "", nil},
	{"PUT", objectPath, "x", at(28, "Content-Type", "a/b")},
	{"DELETE", objectPath, "", at(40, "X-If-Delete-At", "1700000000")},
	{"DELETE", objectPath, "", nil},
}

func TestTheGridAnswersAsHTTP(t *testing.T) {
	p := newPair(t)
	statuses := map[int]bool{}
	for _, s := range steps {
		if len(s.body) > 64<<10 {
			for _, f := range []*versionsFixture{p.http, p.grid} {
				f.expect(f.do(s.method, s.path, s.body, s.headers...), 201, "a large PUT")
			}
			continue
		}
		statuses[p.send(s.method, s.path, s.body, s.headers...).status] = true
	}
	for _, status := range []int{200, 201, 202, 204, 206, 304, 400, 404, 409, 412, 416, 422, 501, 503, 507} {
		if !statuses[status] {
			t.Errorf("no answer was %d", status)
		}
	}
}

func TestTheGridAnswersAsHTTPAboutVersionsAndExpiry(t *testing.T) {
	p := newPair(t)
	version := func(n int) []string { return []string{versionHeader, moment(n)} }
	for i, s := range []step{
		{"PUT", objectPath, "null", at(1, "Content-Type", "a/b")},
		{"PUT", objectPath, "two", at(2, append(version(2), "Content-Type", "a/b")...)},
		{"PUT", objectPath, "no", at(3, append(version(2), "Content-Type", "a/b")...)},
		{"GET", objectPath, "", nil},
		{"GET", objectPath, "", version(1)},
		{"HEAD", objectPath, "", version(2)},
		{"GET", objectPath, "", version(9)},
		{"GET", objectPath, "", []string{versionHeader, "nonsense"}},
		{"DELETE", objectPath, "", at(4, append(version(4), markerHeader, "true")...)},
		{"GET", objectPath, "", nil},
		{"GET", objectPath, "", version(4)},
		{"PUT", objectPath, "", at(5, restoreHeader, moment(2))},
		{"PUT", objectPath, "", at(6, restoreHeader, moment(7))},
		{"GET", objectPath, "", nil},
		{"POST", objectPath, "", at(7, append(version(2), "X-Object-Meta-A", "b")...)},
		{"DELETE", objectPath, "", at(8, append(version(2), hideHeader, "true")...)},
		{"GET", objectPath, "", nil},
		{"PUT", "/sda/7/AUTH_a/c/e", "expires", at(9, "Content-Type", "a/b", "X-Delete-After", "100")},
		{"GET", "/sda/7/AUTH_a/c/e", "", at(10)},
		{"GET", "/sda/7/AUTH_a/c/e", "", nil},
		{"GET", "/sda/7/AUTH_a/c/e", "", []string{"X-Backend-Open-Expired", "true"}},
		{"POST", "/sda/7/AUTH_a/c/e", "", []string{"X-Timestamp", "1700000200.00000", "X-Object-Meta-A", "b"}},
		{"DELETE", "/sda/7/AUTH_a/c/e", "", []string{"X-Timestamp", "1700000200.00000", "X-If-Delete-At", "1700000001"}},
		{"DELETE", "/sda/7/AUTH_a/c/e", "", []string{"X-Timestamp", "1700000200.00000", "X-If-Delete-At", "1700000100"}},
	} {
		headers := append(p.http.rows.headers(), s.headers...)
		over := append(p.grid.rows.headers(), s.headers...)
		got := p.http.do(s.method, s.path, s.body, headers...)
		same(t, fmt.Sprintf("step %d: %s %q", i, s.method, s.headers), s.method,
			ask(t, p.peer, s.method, s.path, s.body, over...), got)
		const listing = "/sdb/5/AUTH_a/c"
		if one, other := rowTexts(t, p.http.rows.take(listing)), rowTexts(t, p.grid.rows.take(listing)); one != other {
			t.Errorf("step %d: rows %s over HTTP, %s over the grid", i, one, other)
		}
	}
}

func rowTexts(t *testing.T, rows []updates.Row) string {
	t.Helper()
	text, err := json.Marshal(rows)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestTheGridAnswersAsHTTPIfTheDeviceFails(t *testing.T) {
	f := newFixture(t)
	peer := newPeer(t, f.address, "none")
	f.mustPut(objectPath, "hello", "1700000000.00000")
	fail := func(change func(*fakeStore), want int, method string, headers ...string) {
		t.Helper()
		f.store.change(change)
		defer f.store.change(func(s *fakeStore) { s.openErr, s.commitErr, s.readErr, s.doubtful = nil, nil, nil, false })
		got := f.do(method, objectPath, "x", headers...)
		f.expect(got, want, method)
		same(t, fmt.Sprintf("%s %d", method, want), method, ask(t, peer, method, objectPath, "x", headers...), got)
	}
	put := []string{"X-Timestamp", "1700000009.00000", "Content-Type", "a/b"}
	for _, method := range []string{"GET", "HEAD"} {
		fail(func(s *fakeStore) { s.doubtful = true }, 200, method)
		fail(func(s *fakeStore) { s.openErr = device.ErrQuarantined }, 503, method)
		fail(func(s *fakeStore) { s.openErr = &device.DoubtError{Cause: errors.New("lost")} }, 503, method)
		fail(func(s *fakeStore) { s.openErr = device.ErrBusy }, 529, method)
		fail(func(s *fakeStore) { s.openErr = device.ErrStuck }, 507, method)
		fail(func(s *fakeStore) { s.openErr = errors.New("odd") }, 500, method)
	}
	fail(func(s *fakeStore) { s.readErr = device.ErrQuarantined }, 503, "GET")
	fail(func(s *fakeStore) { s.commitErr = device.ErrNoSpace }, 507, "PUT", put...)
	fail(func(s *fakeStore) { s.commitErr = device.ErrTooLarge }, 413, "PUT", put...)

	// HTTP can only close the connection once the body has begun.
	f.store.change(func(s *fakeStore) { s.readErr, s.readGood = device.ErrQuarantined, 3 })
	got := ask(t, peer, "GET", objectPath, "")
	if got.status != 503 || got.header.Get(doubtHeader) != doubtUnknown || got.header["Etag"] != nil {
		t.Errorf("damage behind the first bytes: %d %v", got.status, got.header)
	}
	if got.body != "The stored data are damaged or lost.\n" {
		t.Errorf("its body is %q", got.body)
	}
}

func TestAPanicIsA500(t *testing.T) {
	f := newFixture(t)
	peer := newPeer(t, f.address, "none")
	f.store.change(func(s *fakeStore) { s.objects = nil }) // a PUT writes to a nil map
	put := []string{"X-Timestamp", "1700000009.00000", "Content-Type", "a/b", "X-Trans-Id", "tx7"}
	got := f.do("PUT", objectPath, "x", put...)
	if got.status != 500 || got.body != "Internal error.\n" {
		t.Errorf("a panic is answered with %d %q", got.status, got.body)
	}
	same(t, "a panic", "PUT", ask(t, peer, "PUT", objectPath, "x", put...), got)
	panics := 0
	for line := range strings.Lines(f.log.String()) {
		if strings.Contains(line, "level=ERROR msg=panic") && strings.Contains(line, "txn=tx7") {
			panics++
		}
	}
	if panics != 2 {
		t.Errorf("%d of 2 panics are in the log", panics)
	}
}

func TestARequestThatHangsHoldsUpNoOther(t *testing.T) {
	f := newFixture(t)
	peer := newPeer(t, f.address, "none")
	end := f.store.stall()
	defer end()
	hangs := make(chan gridAnswer, 1)
	go func() { hangs <- ask(t, peer, "HEAD", objectPath, "") }()
	<-f.store.waiting
	put := []string{"X-Timestamp", "1700000000.00000", "Content-Type", "a/b"}
	if got := ask(t, peer, "PUT", objectPath, "x", put...); got.status != 201 {
		t.Errorf("on the same connection: %d", got.status)
	}
	end()
	if got := <-hangs; got.status != 200 {
		t.Errorf("afterwards: %d", got.status)
	}
}

func TestRequestsOfTheGridAreLogged(t *testing.T) {
	f := newFixture(t)
	peer := newPeer(t, f.address, "none")
	headers := []string{"X-Timestamp", "1700000000.00000", "Content-Type", "a/b", "X-Trans-Id", "tx1"}
	ask(t, peer, "PUT", "/sda/7/AUTH_a/c/o%20p", "hello", headers...)
	ask(t, peer, "GET", "/sda/7/AUTH_a/c/o%20p", "", "X-Trans-Id", "tx2")
	ask(t, peer, "GET", "/sda/7/AUTH_a/c/absent", "", "X-Trans-Id", "tx3")
	ask(t, peer, "PUT", "/sda/7/AUTH_a/c/o%20p", "hello", "X-Trans-Id", "tx4") // no timestamp
	ask(t, peer, "GET", "/sda/7/AUTH_a/c/o%20p", "")
	for _, want := range []string{
		`msg=request method=PUT path=/sda/7 status=201 in=5 us=\d+ (update_us=\d+ )?txn=tx1\n`,
		`msg=request method=GET path=/sda/7 status=200 out=5 us=\d+ txn=tx2\n`,
		`msg=request method=GET path=/sda/7 status=404 out=33 us=\d+ txn=tx3\n`,
		`msg=request remote=127.0.0.1:\d+ method=PUT path="/sda/7/AUTH_a/c/o p" status=400 in=\d out=\d+ us=\d+ update_us=0 txn=tx4 policy=0\n`,
		`msg=request remote=127.0.0.1:\d+ method=GET path="/sda/7/AUTH_a/c/o p" status=200 in=0 out=5 us=\d+ update_us=0 txn="" policy=0\n`,
	} {
		if !regexp.MustCompile(want).MatchString(f.log.String()) {
			t.Errorf("the log has no %q:\n%s", want, f.log.String())
		}
	}
}

func TestTheLimitsHoldOverTheGrid(t *testing.T) {
	f := newFixture(t, limits(t, "get_requests_per_device_per_second = 0.001"), func(c *conf.Config) { c.MaxClients = 1 })
	peer := newPeer(t, f.address, "none")
	if got := ask(t, peer, "GET", objectPath, ""); got.status != 404 {
		t.Errorf("the first GET: %d", got.status)
	}
	if got := ask(t, peer, "GET", objectPath, ""); got.status != 529 {
		t.Errorf("the second GET: %d", got.status)
	}
	end := f.store.stall()
	defer end()
	hangs := make(chan struct{})
	go func() {
		defer close(hangs)
		f.do("HEAD", objectPath, "")
	}()
	<-f.store.waiting
	got := ask(t, peer, "DELETE", objectPath, "", "X-Timestamp", "1700000000.00000")
	if got.status != 529 || got.body != "The server is busy with 1 other requests.\n" {
		t.Errorf("beside as many requests as max_clients: %d %q", got.status, got.body)
	}
	end()
	<-hangs
	long := strings.Repeat("v", f.config.Limits.HeaderBytesMax())
	if got := ask(t, peer, "HEAD", objectPath, "", "X-Long", long); got.status != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("headers that are too large: %d", got.status)
	}
}

func TestRequestsOfTheGridThatAreRefused(t *testing.T) {
	f := newFixture(t)
	peer := newPeer(t, f.address, "none")
	send := func(payload []byte) error {
		_, err := peer.Do(context.Background(), grid.Request{Name: "object.put", Payload: payload}, nil)
		return err
	}
	var got *grid.Error
	if err := send(gridPayload(objectPath, strings.Repeat("b", 64<<10+1), "X-Timestamp", "1")); !errors.As(err, &got) || got.Code != grid.CodeTooLarge {
		t.Errorf("a body of more than 64 KiB: %v", err)
	}
	if err := send(gridPayload(objectPath, "", "Content-Length", "0")); !errors.As(err, &got) || got.Code != grid.CodeBadPayload {
		t.Errorf("a header of a connection: %v", err)
	}
	if got := ask(t, peer, "GET", "/sda/7/AUTH_a/c/%zz", ""); got.status != 400 || got.body != "The path is malformed.\n" {
		t.Errorf("a path that cannot be unquoted: %d %q", got.status, got.body)
	}
	for _, path := range []string{"/sda/7/AUTH_a/c/a b", "/sda/7/AUTH_a/c/\x7f", "/sda/7/AUTH_a/c/\u00e4"} {
		if err := send(gridPayload(path, "")); !errors.As(err, &got) || got.Code != grid.CodeBadPayload {
			t.Errorf("a path that is not quoted, %q: %v", path, err)
		}
	}
	payload := bytes.Replace(gridPayload(objectPath, ""), []byte("\xa3sda"), []byte("\xa9sda/../sd"), 1)
	answered, err := peer.Do(context.Background(), grid.Request{Name: "object.get", Payload: payload}, nil)
	if err != nil || readAnswer(t, answered).status != 400 {
		t.Errorf("a device that leads elsewhere: %v %q", err, answered)
	}
	footers := []string{"X-Timestamp", "1700000009.00000", "Content-Type", "a/b", "X-Backend-Obj-Metadata-Footer", "yes"}
	if got := ask(t, peer, "PUT", objectPath, "x", footers...); got.status != 400 || !f.store.isEmpty() {
		t.Errorf("footers: %d", got.status)
	}
}

// TestETagOfTheSenderOfAWholeBody sends the sums as headers, over either way.
func TestETagOfTheSenderOfAWholeBody(t *testing.T) {
	for i, c := range []struct {
		what, body, etag, checksum string
		status                     int
	}{
		{"other bytes than the sender's", "hallo", helloMD5, "crc32c=9a71bb4c", 503},
		{"a checksum that is no number", "hello", helloMD5, "crc32c=", 400},
		{"no ETag", "hello", "", "crc32c=9a71bb4c", 400},
		{"an ETag in capitals", "hello", strings.ToUpper(helloMD5), "crc32c=9a71bb4c", 400},
		{"another kind, which the server does not know", "hallo", helloMD5, "crc64=9a71bb4c", 422},
		{"both", "hello", helloMD5, "crc32c=9a71bb4c", 201},
	} {
		p := newPair(t)
		headers := at(i+1, "Content-Type", "a/b", "X-Backend-Body-Checksum", c.checksum)
		if c.etag != "" {
			headers = append(headers, "Etag", c.etag)
		}
		if got := p.send("PUT", objectPath, c.body, headers...); got.status != c.status {
			t.Errorf("%s: got %d, want %d", c.what, got.status, c.status)
		}
		stored := p.send("GET", objectPath, "")
		if isStored := stored.status == 200; isStored != (c.status == 201) {
			t.Errorf("%s: a GET answers %d", c.what, stored.status)
		}
		if c.status == 201 && (stored.body != "hello" || stored.header.Get("Etag") != `"`+helloMD5+`"`) {
			t.Errorf("stored %q, ETag %s", stored.body, stored.header.Get("Etag"))
		}
	}
}

func TestShutdownWaitsForRequestsOfTheGrid(t *testing.T) {
	f := newFixture(t)
	f.mustPut(objectPath, "hello", "1700000000.00000")
	peer := newPeer(t, f.address, "none")
	ask(t, peer, "HEAD", objectPath, "")
	end := f.store.stall()
	defer end()
	answered := make(chan gridAnswer)
	go func() { answered <- ask(t, peer, "HEAD", objectPath, "") }()
	<-f.store.waiting
	drained := make(chan error)
	go func() { drained <- f.server.Shutdown(context.Background()) }()
	request := grid.Request{Name: "object.head", Payload: gridPayload(objectPath, "")}
	for isRefused := false; !isRefused; { // until the peer was told, and there is no new connection
		ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
		_, err := peer.Do(ctx, request, nil) // one of before that hangs, as the first one does
		cancel()
		isRefused = errors.Is(err, grid.ErrUnreachable)
	}
	end()
	if got := <-answered; got.status != 200 {
		t.Errorf("the request that was in flight: %d", got.status)
	}
	if err := <-drained; err != nil {
		t.Error(err)
	}
}

func TestFiguresOfTheGrid(t *testing.T) {
	f := newFixture(t)
	ask(t, newPeer(t, f.address, "none"), "GET", objectPath, "")
	var figures struct {
		Connections int            `json:"connections"`
		Served      int            `json:"served"`
		Refused     map[string]int `json:"refused"`
	}
	got := f.do("GET", "/recon/grid", "")
	if err := json.Unmarshal([]byte(got.body), &figures); err != nil {
		t.Fatal(err)
	}
	if figures.Connections != 1 || figures.Served != 1 || len(figures.Refused) == 0 {
		t.Errorf("the figures are %s", got.body)
	}
}

func TestFiguresOfConnectionsToOtherServers(t *testing.T) {
	f, other := newFixture(t), newFixture(t)
	closed := newFixture(t, withSecret(t, secretOne))
	request := grid.Request{Name: "object.head", Payload: gridPayload(objectPath, "")}
	outgoing := f.server.door.outgoing
	if _, err := outgoing.Peer(other.address).Do(context.Background(), request, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := outgoing.Peer(closed.address).Do(context.Background(), request, nil); !errors.Is(err, grid.ErrRefused) {
		t.Fatal(err)
	}
	var figures grid.Stats
	if err := json.Unmarshal([]byte(f.do("GET", "/recon/grid", "").body), &figures); err != nil {
		t.Fatal(err)
	}
	if figures.Connections != 1 || figures.Handshakes != 1 || figures.Sent != 1 || figures.Refused[grid.RefusedNoKey] != 1 {
		t.Errorf("the figures are %+v", figures)
	}
	// The metric is of those without the secret that come to this server.
	if own := f.server.ownFigures(); own.GridConnections != 1 || own.GridRefused != 0 {
		t.Errorf("%d connections, %d refused", own.GridConnections, own.GridRefused)
	}
}
