package server

import (
	"bufio"
	"crypto/md5"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"martlet/object-server/bundle/format"
	"martlet/object-server/device"
	"martlet/object-server/server/conf"
	"martlet/object-server/server/devices"
	"martlet/object-server/updates"
)

// rawConnection sends bytes to the server without an HTTP client.
type rawConnection struct {
	t *testing.T
	net.Conn
	reader *bufio.Reader
}

func (f *fixture) dial() *rawConnection {
	f.t.Helper()
	connection, err := net.Dial("tcp", f.address)
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { connection.Close() })
	if err := connection.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		f.t.Fatal(err)
	}
	return &rawConnection{f.t, connection, bufio.NewReader(connection)}
}

// send writes all of text; the server may close the connection before the end.
func (c *rawConnection) send(text string) {
	c.t.Helper()
	if _, err := io.WriteString(c, text); err != nil {
		c.t.Logf("sending: %v", err)
	}
}

// status reads one answer.
func (c *rawConnection) status() int {
	c.t.Helper()
	status, err := c.answer()
	if err != nil {
		c.t.Fatalf("reading the answer: %v", err)
	}
	return status
}

// answer is status, with 0 and the error if there is none.
func (c *rawConnection) answer() (int, error) {
	response, err := http.ReadResponse(c.reader, nil)
	if err != nil {
		return 0, err
	}
	_, err = io.Copy(io.Discard, response.Body)
	return response.StatusCode, err
}

const rawPut = "PUT /sda/7/AUTH_a/c/o HTTP/1.1\r\nHost: h\r\nX-Timestamp: 1700000000.00000\r\nContent-Type: a/b\r\n"

func TestBadInputIsRefusedAndTheNextRequestServed(t *testing.T) {
	f := newFixture(t)
	many := strings.Builder{}
	for i := range 10_000 {
		fmt.Fprintf(&many, "X-Header-%d: v\r\n", i)
	}
	for _, c := range []struct {
		what, request string
		status        int
	}{
		{"body shorter than announced", rawPut + "Content-Length: 10\r\n\r\nshort", 499},
		{"chunks cut off", rawPut + "Transfer-Encoding: chunked\r\n\r\n5\r\nhel", 499},
		{"chunked garbage", rawPut + "Transfer-Encoding: chunked\r\n\r\nzz\r\nhello\r\n0\r\n\r\n", 400},
		{"chunk without end", rawPut + "Transfer-Encoding: chunked\r\n\r\n5\r\nhelloXX0\r\n\r\n", 400},
		{"unknown transfer encoding", rawPut + "Transfer-Encoding: gzip\r\n\r\nx", 501},
		{"no length", rawPut + "\r\n", 411},
		{"two lengths", rawPut + "Content-Length: 1\r\nContent-Length: 2\r\n\r\nxx", 400},
		{"negative length", rawPut + "Content-Length: -1\r\n\r\n", 400},
		{"length not a number", rawPut + "Content-Length: ten\r\n\r\n", 400},
		{"length behind a space", rawPut + "Content-Length : 1\r\n\r\nx", 400},
		{"length over the limit", rawPut + "Content-Length: 5368709123\r\n\r\n", 413},
		{"length over 64 bits", rawPut + "Content-Length: 99999999999999999999\r\n\r\n", 400},
		{"no Host", "GET /sda/7/AUTH_a/c/o HTTP/1.1\r\n\r\n", 400},
		{"NUL in the name", "GET /sda/7/AUTH_a/c/a\x00b HTTP/1.1\r\nHost: h\r\n\r\n", 400},
		{"bad escape", "GET /sda/7/AUTH_a/c/%zz HTTP/1.1\r\nHost: h\r\n\r\n", 400},
		{"not HTTP", "hello world\r\n\r\n", 400},
		{"10,000 headers", rawPut + many.String() + "Content-Length: 1\r\n\r\nx", 431},
		{"huge header", rawPut + "X-Big: " + strings.Repeat("v", 1<<20) + "\r\nContent-Length: 1\r\n\r\nx", 431},
		{"huge request line", "GET /sda/7/AUTH_a/c/" + strings.Repeat("o", 1<<20) + " HTTP/1.1\r\nHost: h\r\n\r\n", 431},
		{"NUL in a header", rawPut + "X-Object-Meta-A: a\x00b\r\nContent-Length: 1\r\n\r\nx", 400},
		{"control byte in a header", rawPut + "X-Object-Meta-A: a\x01b\r\nContent-Length: 1\r\n\r\nx", 400},
		{"header name with a space", rawPut + "X Bad: 1\r\nContent-Length: 1\r\n\r\nx", 400},
	} {
		connection := f.dial()
		done := make(chan struct{})
		go func() { // the server may answer and close before it has read everything
			defer close(done)
			connection.send(c.request)
			_ = connection.Conn.(*net.TCPConn).CloseWrite()
		}()
		if got := connection.status(); got != c.status {
			t.Errorf("%s: got %d, want %d", c.what, got, c.status)
		}
		connection.Close()
		<-done
		f.expect(f.do("GET", "/healthcheck", ""), 200, "after "+c.what)
	}
	if len(f.store.objects) != 0 {
		t.Errorf("bad requests left %d objects", len(f.store.objects))
	}
	f.mustPut(objectPath, "x", "1700000000.00000")
}

func TestBodyLongerThanAnnouncedIsNotStored(t *testing.T) {
	f := newFixture(t)
	connection := f.dial()
	connection.send(rawPut + "Content-Length: 5\r\n\r\nhelloGARBAGE\r\n\r\n")
	if got := connection.status(); got != 201 {
		t.Errorf("got %d", got)
	}
	if got := connection.status(); got != 400 {
		t.Errorf("the rest is taken for a request: got %d", got)
	}
	if got := f.do("GET", objectPath, ""); got.body != "hello" {
		t.Errorf("stored %q", got.body)
	}
}

func TestDisconnectStoresNothing(t *testing.T) {
	f := newFixture(t)
	connection := f.dial()
	connection.send(rawPut + "Content-Length: 1000000\r\n\r\n" + strings.Repeat("x", 100_000))
	connection.Close()
	f.await("the log of a 499", func() bool { return strings.Contains(f.log.String(), "status=499") })
	f.expect(f.do("GET", objectPath, ""), 404, "after the disconnect")
}

// await polls until a condition holds.
func (f *fixture) await(what string, holds func() bool) {
	f.t.Helper()
	deadline := time.Now().Add(time.Minute)
	for !holds() {
		if time.Now().After(deadline) {
			f.t.Fatalf("waited in vain for %s", what)
		}
		time.Sleep(time.Millisecond)
	}
}

func TestContinueComesWithTheFirstRead(t *testing.T) {
	f := newFixture(t)
	connection := f.dial()
	connection.send(rawPut + "Content-Length: 5\r\nExpect: 100-continue\r\n\r\n")
	if got := connection.status(); got != 100 {
		t.Fatalf("got %d, want 100", got)
	}
	connection.send("hello")
	if got := connection.status(); got != 201 {
		t.Errorf("got %d, want 201", got)
	}
	connection.send("GET /healthcheck HTTP/1.1\r\nHost: h\r\n\r\n")
	if got := connection.status(); got != 200 {
		t.Errorf("the connection cannot be used again: %d", got)
	}
	for what, request := range map[string]string{
		"409": strings.Replace(rawPut, "1700000000.00000", "1699999999.00000", 1) +
			"Content-Length: 5\r\nExpect: 100-continue\r\n\r\n",
		"412": strings.Replace(rawPut, "00.00000", "01.00000", 1) +
			"Content-Length: 5\r\nIf-None-Match: *\r\nExpect: 100-continue\r\n\r\n",
		"507": strings.Replace(rawPut, "/sda/", "/sdz/", 1) + "Content-Length: 5\r\nExpect: 100-continue\r\n\r\n",
	} {
		connection := f.dial()
		connection.send(request)
		if got := fmt.Sprint(connection.status()); got != what {
			t.Errorf("before the body: got %s, want %s", got, what)
		}
	}
}

func TestConnectionIsUsedAgainAfterAnErrorWithASmallBody(t *testing.T) {
	f := newFixture(t)
	connection := f.dial()
	bodies := []string{"hello", "other", "other"}
	for i, want := range []int{201, 409, 409} {
		connection.send(rawPut + "Content-Length: 5\r\n\r\n" + bodies[i])
		if got := connection.status(); got != want {
			t.Errorf("got %d, want %d", got, want)
		}
	}
	connection.send(strings.Replace(rawPut, "/sda/", "/sdz/", 1) + "Content-Length: 5\r\n\r\nhello")
	if got := connection.status(); got != 507 {
		t.Errorf("got %d, want 507", got)
	}
	connection.send("GET /sda/7/AUTH_a/c/o HTTP/1.1\r\nHost: h\r\n\r\n")
	if got := connection.status(); got != 200 {
		t.Errorf("got %d, want 200", got)
	}
}

// patiently tries longer and longer timeouts: a busy machine misses a short one, a defect fails with each.
func patiently(t *testing.T, try func(timeout time.Duration) error) {
	t.Helper()
	for timeout := 200 * time.Millisecond; ; timeout *= 5 {
		err := try(timeout)
		if err == nil {
			return
		}
		if timeout >= 5*time.Second {
			t.Fatal(err)
		}
		t.Logf("with a time-out of %v: %v", timeout, err)
	}
}

func TestSlowClientsAreCutOff(t *testing.T) {
	f := newFixture(t, func(c *conf.Config) { c.ClientTimeout = 300 * time.Millisecond })
	slow := f.dial()
	slow.send("GET /sda/7/AUTH_a/c/o HTT")
	if _, err := slow.reader.ReadByte(); err == nil {
		t.Log("the server answered before it closed") // a 408 is fine too
	}
	patiently(t, func(timeout time.Duration) error {
		f := newFixture(t, func(c *conf.Config) { c.ClientTimeout = timeout })
		connection := f.dial()
		connection.send(rawPut + "Content-Length: 5\r\n\r\nhe")
		if got, err := connection.answer(); got != 408 {
			return fmt.Errorf("slow body: got %d, want 408: %v", got, err)
		}
		if !f.store.isEmpty() {
			t.Error("a slow body was stored")
		}
		return nil
	})
	long := newFixture(t, func(c *conf.Config) { c.MaxUploadTime = time.Millisecond })
	connection := long.dial()
	connection.send(rawPut + "Transfer-Encoding: chunked\r\nExpect: 100-continue\r\n\r\n")
	got := connection.status()
	if got == 100 { // a slow machine may not get so far in time
		time.Sleep(2 * time.Millisecond)
		connection.send("1\r\nx\r\n")
		got = connection.status()
	}
	if got != 408 {
		t.Errorf("long upload: got %d, want 408", got)
	}
}

// A client that takes little at a time, but never stops, gets all of a long answer.
func TestSlowReadersGetAll(t *testing.T) {
	const size = 6 << 20
	patiently(t, func(timeout time.Duration) error {
		f := newFixture(t, func(c *conf.Config) { c.ClientTimeout = timeout })
		f.store.change(func(s *fakeStore) { // put by hand: the machine may be too slow for this timeout
			name := "/AUTH_a/c/o"
			hash := format.Hash(f.server.hasher.Object("AUTH_a", "c", "o"))
			m := &format.Metadata{Name: name, Size: size, Timestamp: format.Timestamp{Ticks: 1}}
			s.objects[device.Location{Partition: 7, Hash: hash}] = &fakeObject{metadata: m, data: make([]byte, size)}
		})
		connection := f.dial()
		if err := connection.Conn.(*net.TCPConn).SetReadBuffer(64 << 10); err != nil {
			t.Fatal(err)
		}
		connection.send("GET /sda/7/AUTH_a/c/o HTTP/1.1\r\nHost: h\r\n\r\n")
		response, err := http.ReadResponse(connection.reader, nil)
		if err != nil {
			return err
		}
		start, got := time.Now(), int64(0)
		for got < size && err == nil {
			var n int64
			n, err = io.CopyN(io.Discard, response.Body, 128<<10)
			got += n
			time.Sleep(timeout / 12) // the speed of the client is the subject of the test
		}
		if err != nil || time.Since(start) < 3*timeout {
			return fmt.Errorf("got %d bytes in %v, %v", got, time.Since(start), err)
		}
		return nil
	})
}

// footerRequest is a PUT with metadata after the body, as a proxy with encryption sends it.
func footerRequest(document string, headers ...string) string {
	return rawPut + strings.Join(headers, "") + "Transfer-Encoding: chunked\r\nX-Backend-Obj-Metadata-Footer: yes\r\nExpect: 100-continue\r\n" +
		"X-Backend-Obj-Multipart-Mime-Boundary: bound\r\n\r\n" +
		fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(document), document)
}

func footerDocument(body, footer string) string {
	return fmt.Sprintf("--bound\r\nX-Document: object body\r\n\r\n%s\r\n--bound\r\nX-Document: object metadata\r\n"+
		"Content-MD5: %x\r\n\r\n%s\r\n--bound--\r\n", body, md5.Sum([]byte(footer)), footer)
}

func TestMetadataAfterTheBody(t *testing.T) {
	long := strings.Repeat("hello\r\n--boun\r\n", 20000)
	for _, body := range []string{"", "hello", long} {
		for _, announced := range []string{"", fmt.Sprintf("X-Backend-Obj-Content-Length: %d\r\n", len(body))} {
			testMetadataAfter(t, body, announced)
		}
	}
}

func testMetadataAfter(t *testing.T, body, announced string) {
	f := newFixture(t)
	connection := f.dial()
	good := fmt.Sprintf(`{"Etag": "%x", "X-Object-Sysmeta-Late": "yes", "X-Other": "no"}`, md5.Sum([]byte(body)))
	go connection.send(footerRequest(footerDocument(body, good), announced))
	response, err := http.ReadResponse(connection.reader, nil)
	if err != nil || response.StatusCode != 100 || response.Header.Get("X-Obj-Metadata-Footer") != "yes" {
		t.Fatalf("got %+v, %v", response, err)
	}
	if got := connection.status(); got != 201 {
		t.Fatalf("got %d, want 201", got)
	}
	connection.send("GET /healthcheck HTTP/1.1\r\nHost: h\r\n\r\n")
	if got := connection.status(); got != 200 {
		t.Errorf("the connection cannot be used again: %d", got)
	}
	got := f.do("GET", objectPath, "")
	if got.body != body || got.header.Get("X-Object-Sysmeta-Late") != "yes" || got.header.Get("X-Other") != "" ||
		got.header.Get("X-Obj-Metadata-Footer") != "" {
		t.Errorf("got %q %v", got.body, got.header)
	}
}

func TestBadFooters(t *testing.T) {
	f := newFixture(t)
	whole := footerDocument("hello", "{}")
	const sized = "X-Backend-Obj-Content-Length: 5\r\n"
	for _, c := range []struct {
		what, document string
		status         int
		announced      string // empty: both with the size and without
	}{
		{"wrong ETag", footerDocument("hello", `{"Etag": "x"}`), 422, ""},
		{"not JSON", footerDocument("hello", `{`), 400, ""},
		{"not text", footerDocument("hello", `{"a": 1}`), 400, ""},
		{"wrong MD5", strings.Replace(whole, "{}", "{ }", 1), 422, ""},
		{"no MD5", strings.Replace(whole, "Content-MD5", "Content-MD4", 1), 400, ""},
		{"no footer", "--bound\r\n\r\nhello\r\n--bound--\r\n", 400, ""},
		{"no boundary", "hello", 400, ""},
		{"another boundary", strings.Replace(whole, "--bound\r", "--bond\r", 1), 400, sized},
		{"a long line", strings.Replace(whole, "body", strings.Repeat("x", 9000), 1), 400, sized},
		{"many lines", strings.Replace(whole, "body", "body"+strings.Repeat("\r\na: b", 99), 1), 400, sized},
		{"only a head", whole[:20], 400, sized},
		{"cut off", whole[:40], 499, ""},
		{"cut off in the boundary", whole[:52], 400, sized},
		{"too long", footerDocument("hello", `{"a": "`+strings.Repeat("x", 200<<10)+`"}`), 413, ""},
		{"more than announced", footerDocument("hello!", "{}"), 499, sized},
		{"less than announced", footerDocument("hell", "{}"), 499, sized},
		{"nothing, announced", footerDocument("", "{}"), 499, sized},
	} {
		ways := []string{c.announced}
		if c.announced == "" {
			ways = []string{"", sized}
		}
		for _, announced := range ways {
			connection := f.dial()
			go connection.send(footerRequest(c.document, announced))
			if got := connection.status(); got != 100 {
				t.Errorf("%s: got %d, want 100", c.what, got)
			}
			if got := connection.status(); got != c.status {
				t.Errorf("%s %q: got %d, want %d", c.what, announced, got, c.status)
			}
			connection.Close()
		}
	}
	f.expect(f.put(objectPath, "x", "1700000000.00000", "X-Backend-Obj-Metadata-Footer", "yes"), 400, "no boundary header")
	f.expect(f.do("GET", objectPath, ""), 404, "after bad footers")
}

// A proxy that tells the checksum and the ETag of a body spares each replica an MD5.
func TestETagOfTheSender(t *testing.T) {
	f := newFixture(t)
	const announced = "X-Backend-Obj-Content-Length: 5\r\nX-Backend-Body-Checksum: crc32c\r\n"
	const etag = `"Etag": "5d41402abc4b2a76b9719d911017c592"`
	for _, c := range []struct {
		what, body, footers string
		status              int
	}{
		{"other bytes than the sender's", "hallo", `{` + etag + `, "X-Backend-Body-Checksum": "9a71bb4c"}`, 503},
		{"no checksum", "hello", `{` + etag + `}`, 400},
		{"no ETag", "hello", `{"X-Backend-Body-Checksum": "9a71bb4c"}`, 400},
		{"an ETag that is no MD5", "hello", `{"Etag": "5d41", "X-Backend-Body-Checksum": "9a71bb4c"}`, 400},
		{"an ETag in capitals", "hello", `{"Etag": ` + strings.ToUpper(etag[8:]) + `, "X-Backend-Body-Checksum": "9a71bb4c"}`, 400},
		{"both", "hello", `{` + etag + `, "X-Backend-Body-Checksum": "9a71bb4c"}`, 201},
	} {
		connection := f.dial()
		go connection.send(footerRequest(footerDocument(c.body, c.footers), announced))
		if got := connection.status(); got != 100 {
			t.Errorf("%s: got %d, want 100", c.what, got)
		}
		if got := connection.status(); got != c.status {
			t.Errorf("%s: got %d, want %d", c.what, got, c.status)
		}
		connection.Close()
		stored := f.do("GET", objectPath, "")
		if isStored := stored.status == 200; isStored != (c.status == 201) {
			t.Errorf("%s: a GET answers %d", c.what, stored.status)
		}
		if c.status == 201 && (stored.body != "hello" || stored.header.Get("Etag") != etag[8:]) {
			t.Errorf("stored %q, ETag %s", stored.body, stored.header.Get("Etag"))
		}
	}
}

func TestFailuresOfTheDevice(t *testing.T) {
	f := newFixture(t)
	f.mustPut(objectPath, "hello", "1700000000.00000")
	f.store.change(func(s *fakeStore) { s.commitErr = fmt.Errorf("wrapped: %w", device.ErrNoSpace) })
	f.expect(f.put(objectPath, "new", "1700000001.00000"), 507, "full device")
	f.store.change(func(s *fakeStore) { s.commitErr = device.ErrTooLarge })
	f.expect(f.put(objectPath, "new", "1700000001.00000"), 413, "more than the format holds")
	f.store.change(func(s *fakeStore) { s.commitErr = errors.New("surprise") })
	f.expect(f.put(objectPath, "new", "1700000001.00000"), 500, "unknown error")
	f.store.change(func(s *fakeStore) { s.commitErr = fmt.Errorf("wrapped: %w", device.ErrUnknown) })
	refused := f.put(objectPath, "new", "1700000001.00000")
	f.expect(refused, 503, "what is stored may be newer")
	if doubt := refused.header.Get("X-Backend-Doubt"); doubt != "unknown" {
		t.Errorf("X-Backend-Doubt %q", doubt)
	}
	f.store.change(func(s *fakeStore) { s.commitErr = nil })
	f.store.change(func(s *fakeStore) { s.openErr = device.ErrQuarantined })
	f.expect(f.do("GET", objectPath, ""), 503, "GET of a damaged object")
	f.expect(f.do("HEAD", objectPath, ""), 503, "HEAD of a damaged object")
	f.expect(f.put(objectPath, "mended", "1700000002.00000", "Expect", "100-continue"), 201, "PUT over a damaged object")
	f.store.change(func(s *fakeStore) { s.openErr = nil })
	f.store.change(func(s *fakeStore) { s.readErr = device.ErrQuarantined })
	f.expect(f.do("GET", objectPath, ""), 503, "damage found before the first byte")
	f.store.change(func(s *fakeStore) { s.openErr, s.readErr = nil, nil })
	long := strings.Repeat("x", 100_000)
	f.mustPut(objectPath, long, "1700000003.00000")
	f.store.change(func(s *fakeStore) { s.readErr, s.readGood = device.ErrQuarantined, 50_000 })
	connection := f.dial()
	connection.send("GET /sda/7/AUTH_a/c/o HTTP/1.1\r\nHost: h\r\n\r\n")
	response, err := http.ReadResponse(connection.reader, nil)
	if err != nil {
		t.Fatal(err)
	}
	if body, err := io.ReadAll(response.Body); !errors.Is(err, io.ErrUnexpectedEOF) || len(body) > 50_000 {
		t.Errorf("damage found midway: got %d bytes, %v", len(body), err)
	}
	f.store.change(func(s *fakeStore) { s.readErr, s.out = nil, device.ErrOut })
	f.open = func(string) (devices.Store, *updates.Pending, error) { return nil, nil, device.ErrOut }
	for _, method := range []string{"GET", "HEAD", "PUT", "POST", "DELETE"} {
		got := f.do(method, objectPath, "x", "X-Timestamp", "1700000009.00000", "Content-Type", "a/b")
		f.expect(got, 507, method+" on a device that was taken out")
	}
	if n := strings.Count(f.log.String(), "device taken out"); n != 1 {
		t.Errorf("the failure was logged %d times", n)
	}
}
