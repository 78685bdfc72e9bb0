package server

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"martlet/object-server/bundle/format"
	"martlet/object-server/device"
	"martlet/object-server/server/conf"
	"martlet/object-server/server/devices"
)

// partOf is a PUT of an object called name, as a part of a batch.
func partOf(name, body string, headers ...string) string {
	text := "PUT /sda/7/AUTH_a/c/" + name + " HTTP/1.1\r\nHost: h\r\nX-Timestamp: 1700000000.00000\r\nContent-Type: a/b\r\n"
	for i := 0; i < len(headers); i += 2 {
		text += headers[i] + ": " + headers[i+1] + "\r\n"
	}
	return text + "Content-Length: " + strconv.Itoa(len(body)) + "\r\n\r\n" + body
}

func (f *fixture) batch(message string) answer {
	f.t.Helper()
	return f.do(batchMethod, "/", message, "Content-Type", batchType)
}

// partAnswers reads the answers in the body of an answer, by the numbers of their requests.
func partAnswers(t *testing.T, body string) map[int]answer {
	t.Helper()
	answers := map[int]answer{}
	for reader := bufio.NewReader(strings.NewReader(body)); ; {
		if _, err := reader.Peek(1); err == io.EOF {
			return answers
		}
		response, err := http.ReadResponse(reader, nil)
		if err != nil {
			t.Fatalf("an answer in %q: %v", body, err)
		}
		content, err := io.ReadAll(response.Body)
		if err != nil {
			t.Fatal(err)
		}
		number, err := strconv.Atoi(response.Header.Get(partHeader))
		if err != nil {
			t.Fatal(err)
		}
		answers[number] = answer{response.StatusCode, response.Header, string(content)}
	}
}

func TestBatchAnswersEachRequestAsIfItWereAlone(t *testing.T) {
	f := newFixture(t)
	f.mustPut("/sda/7/AUTH_a/c/newer", "x", "1800000000.00000")
	f.mustPut("/sda/7/AUTH_a/c/gone", "x", "1600000000.00000")
	message := partOf("o", "hello", "X-Object-Meta-Color", "blue") + partOf("newer", "y") +
		partOf("wrong", "y", "Etag", "0123") + partOf("there", "y", "If-None-Match", "*") +
		"DELETE /sda/7/AUTH_a/c/gone HTTP/1.1\r\nHost: h\r\nX-Timestamp: 1700000000.00000\r\n\r\n" +
		"PUT /sdb/7/AUTH_a/c/o HTTP/1.1\r\nX-Timestamp: 1700000000.00000\r\nContent-Type: a/b\r\nContent-Length: 0\r\n\r\n" +
		partOf("empty", "")
	got := f.batch(message)
	f.expect(got, 200, "the batch")
	if kind := got.header.Get("Content-Type"); kind != batchType {
		t.Errorf("the answer is of type %q", kind)
	}
	answers := partAnswers(t, got.body)
	for number, status := range []int{201, 409, 422, 201, 204, 507, 201} {
		f.expect(answers[number], status, fmt.Sprintf("request %d", number))
	}
	if etag := answers[0].header.Get("Etag"); etag != `"5d41402abc4b2a76b9719d911017c592"` {
		t.Errorf("ETag %q", etag)
	}
	if at := answers[1].header.Get("X-Backend-Timestamp"); at != "1800000000.00000" {
		t.Errorf("what is newer is of %q", at)
	}
	stored := f.do("GET", "/sda/7/AUTH_a/c/o", "")
	if stored.body != "hello" || stored.header.Get("X-Object-Meta-Color") != "blue" {
		t.Errorf("stored: %q %v", stored.body, stored.header)
	}
	f.expect(f.do("GET", "/sda/7/AUTH_a/c/gone", ""), 404, "GET of what a part deleted")
	if lines := strings.Count(f.log.String(), "path=/sda/7/AUTH_a/c/wrong"); lines != 1 {
		t.Errorf("%d lines about one request in the log", lines)
	}
}

func TestBatchWithOneBadRequestDoesNothing(t *testing.T) {
	f := newFixture(t)
	good := partOf("good", "x")
	for name, bad := range map[string]string{
		"garbage":         "garbage\r\n\r\n",
		"a GET":           "GET /sda/7/AUTH_a/c/o HTTP/1.1\r\nHost: h\r\n\r\n",
		"a batch":         "BATCH / HTTP/1.1\r\nHost: h\r\nContent-Type: application/http\r\nContent-Length: 0\r\n\r\n",
		"chunks":          rawPut + "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"an expectation":  rawPut + "Content-Length: 0\r\nExpect: 100-continue\r\n\r\n",
		"half a body":     rawPut + "Content-Length: 10\r\n\r\nhalf",
		"half a head":     rawPut,
		"a large body":    partOf("large", strings.Repeat("x", batchPartBytesMax+1)),
		"a large head":    partOf("o", "", "X-Object-Meta-A", strings.Repeat("x", 1<<17)),
		"bare line ends":  strings.ReplaceAll(rawPut, "\r\n", "\n") + "\n" + rawPut + "\r\n",
		"control bytes":   partOf("o", "", "X-Object-Meta-A", "a\x01b"),
		"a hidden length": rawPut + "Content-Length : 200\r\n\r\n" + partOf("inner", "x"),
		"a spaced name":   rawPut + "X-Object-Meta-A b: v\r\nContent-Length: 0\r\n\r\n",
		"an old protocol": "PUT /sda/7/AUTH_a/c/o HTTP/1.0\r\nX-Timestamp: 1\r\nContent-Length: 0\r\n\r\n",
		"more after it":   partOf("o", "") + "\r\n",
		"too many":        strings.Repeat(partOf("o", ""), batchPartsMax),
	} {
		f.expect(f.batch(good+bad), 400, name)
	}
	f.expect(f.batch(""), 400, "nothing")
	f.expect(f.do(batchMethod, "/", good), 400, "no type")
	f.expect(f.batch(strings.Repeat("x", batchBytesMax+1)), 413, "too long")
	f.expect(f.do("GET", "/sda/7/AUTH_a/c/good", ""), 404, "GET of what was in bad batches")
}

func TestBatchThatBreaksOffDoesNothing(t *testing.T) {
	patiently(t, func(timeout time.Duration) error {
		f := newFixture(t, func(c *conf.Config) { c.ClientTimeout = timeout })
		head := "BATCH / HTTP/1.1\r\nHost: h\r\nContent-Type: application/http\r\nContent-Length: 1000\r\n\r\n"
		slow := f.dial()
		slow.send(head + partOf("good", "x"))
		if status, err := slow.answer(); status != http.StatusRequestTimeout {
			return fmt.Errorf("a batch that does not come: %d, %v", status, err)
		}
		if !f.store.isEmpty() {
			t.Error("a batch that broke off stored something")
		}
		return nil
	})
	f := newFixture(t)
	unknown := f.dial()
	unknown.send("BATCH / HTTP/1.1\r\nHost: h\r\nContent-Type: application/http\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n")
	if status := unknown.status(); status != http.StatusLengthRequired {
		t.Errorf("a batch of unknown length: %d", status)
	}
}

// slowStore delays the uploads of one object.
type slowStore struct {
	*fakeStore
	slow    device.Location
	release chan struct{}
}

func (s *slowStore) NewUpload(at device.Location, size int64) (devices.Upload, error) {
	if at == s.slow {
		<-s.release
	}
	return s.fakeStore.NewUpload(at, size)
}

func TestBatchAnswersDoNotWaitForOneAnother(t *testing.T) {
	f := newFixture(t)
	f.mustPut(objectPath, "x", "1600000000.00000") // opens the device
	mount, err := f.server.devices.Acquire("sda")
	if err != nil {
		t.Fatal(err)
	}
	slow := &slowStore{fakeStore: f.store, release: make(chan struct{})}
	slow.slow = device.Location{Partition: 7, Hash: format.Hash(f.server.hasher.Object("AUTH_a", "c", "slow"))}
	mount.Store = slow
	mount.Release()
	message := partOf("slow", "x") + partOf("fast", "y")
	connection := f.dial()
	connection.send(fmt.Sprintf("BATCH / HTTP/1.1\r\nHost: h\r\nContent-Type: application/http\r\nContent-Length: %d\r\n\r\n%s",
		len(message), message))
	outer, err := http.ReadResponse(connection.reader, nil)
	if err != nil {
		t.Fatal(err)
	}
	answers := bufio.NewReader(outer.Body)
	for _, want := range []string{"1", "0"} {
		response, err := http.ReadResponse(answers, nil)
		if err != nil {
			t.Fatal(err)
		}
		if number := response.Header.Get(partHeader); number != want || response.StatusCode != 201 {
			t.Errorf("answer %d to request %s, expected one to %s", response.StatusCode, number, want)
		}
		if want == "1" {
			close(slow.release)
		}
	}
}

// panickyStore has a bug.
type panickyStore struct{ *fakeStore }

func (p *panickyStore) NewUpload(device.Location, int64) (devices.Upload, error) { panic("a bug") }

func TestBatchSurvivesAPanicOfOneRequest(t *testing.T) {
	f := newFixture(t)
	f.mustPut(objectPath, "x", "1600000000.00000")
	mount, err := f.server.devices.Acquire("sda")
	if err != nil {
		t.Fatal(err)
	}
	mount.Store = &panickyStore{f.store}
	mount.Release()
	answers := partAnswers(t, f.batch(partOf("o", "x")+partOf("p", "y")).body)
	f.expect(answers[0], 500, "request 0")
	f.expect(answers[1], 500, "request 1")
	if !strings.Contains(f.log.String(), "a bug") {
		t.Error("the panic was not logged")
	}
}

func TestManyBatchesAtOnce(t *testing.T) {
	f := newFixture(t)
	var work sync.WaitGroup
	for b := range 8 {
		work.Add(1)
		go func() {
			defer work.Done()
			var message string
			for i := range 50 {
				message += partOf(fmt.Sprintf("o-%d-%d", b, i), strings.Repeat("x", i))
			}
			for number, got := range partAnswers(t, f.batch(message).body) {
				if got.status != 201 {
					t.Errorf("batch %d request %d: %d", b, number, got.status)
				}
			}
		}()
	}
	work.Wait()
	for b := range 8 {
		for i := range 50 {
			name := fmt.Sprintf("/sda/7/AUTH_a/c/o-%d-%d", b, i)
			if got := f.do("GET", name, ""); got.body != strings.Repeat("x", i) {
				t.Fatalf("%s: %d %q", name, got.status, got.body)
			}
		}
	}
}

func TestSplitBatchGivesBackWhatWasJoined(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		bodies := rapid.SliceOfN(rapid.SliceOfN(rapid.Byte(), 0, 300), 1, 20).Draw(t, "bodies")
		var message bytes.Buffer
		for i, body := range bodies {
			message.WriteString(partOf(strconv.Itoa(i), string(body)))
		}
		parts, err := splitBatch(message.Bytes(), 1<<16)
		if err != nil || len(parts) != len(bodies) {
			t.Fatalf("%d parts, %v", len(parts), err)
		}
		for i, part := range parts {
			content, err := io.ReadAll(part.Body)
			if err != nil || !slices.Equal(content, bodies[i]) || part.URL.Path != "/sda/7/AUTH_a/c/"+strconv.Itoa(i) {
				t.Fatalf("part %d: %q %q, %v", i, part.URL.Path, content, err)
			}
		}
	})
}

func FuzzSplitBatch(f *testing.F) {
	f.Add([]byte(partOf("o", "hello") + partOf("p", "")))
	f.Add([]byte("DELETE /d/1/a/c/o HTTP/1.1\r\n\r\n"))
	f.Add([]byte(rawPut + "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n"))
	f.Fuzz(func(t *testing.T, message []byte) {
		parts, err := splitBatch(message, 1<<12)
		if (err == nil) != (len(parts) > 0) {
			t.Fatalf("%d parts, %v", len(parts), err)
		}
		var bodies int64
		for _, part := range parts {
			content, err := io.ReadAll(part.Body)
			if err != nil || int64(len(content)) != part.ContentLength || !mayBePart(part) {
				t.Fatalf("%s %s: %d of %d bytes, %v", part.Method, part.URL, len(content), part.ContentLength, err)
			}
			bodies += part.ContentLength
		}
		if bodies > int64(len(message)) {
			t.Fatalf("%d bytes of bodies in %d", bodies, len(message))
		}
	})
}
