package server

import (
	"context"
	"fmt"
	"net/http"
	"net/textproto"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tinylib/msgp/msgp"

	"martlet/object-server/grid"
	"martlet/object-server/grid/auth"
	"martlet/object-server/server/message"
)

// newPeer returns the way over the grid to a server.
func newPeer(t testing.TB, address string, secrets ...string) *grid.Peer {
	t.Helper()
	known, err := auth.NewSecrets(secrets...)
	if err != nil {
		t.Fatal(err)
	}
	g, err := grid.New(grid.Config{Secrets: known})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.Close)
	return g.Peer(address)
}

// gridPayload is the payload of a request: path is /device/partition/account/container/object, quoted.
func gridPayload(path, body string, headers ...string) []byte {
	parts := strings.SplitN(path, "/", 4)
	partition, err := strconv.ParseUint(parts[2], 10, 32)
	if err != nil {
		panic(err)
	}
	b := msgp.AppendArrayHeader(nil, 5)
	b = msgp.AppendString(b, parts[1])
	b = msgp.AppendUint64(b, partition)
	b = msgp.AppendString(b, "/"+parts[3])
	b = msgp.AppendMapHeader(b, uint32(len(headers)/2))
	for i := 0; i < len(headers); i += 2 {
		b = msgp.AppendString(b, headers[i])
		b = msgp.AppendString(b, latin1(headers[i+1]))
	}
	return msgp.AppendBytes(b, []byte(body))
}

// latin1 makes a character of each byte.
func latin1(value string) string {
	var text strings.Builder
	for i := range len(value) {
		text.WriteRune(rune(value[i]))
	}
	return text.String()
}

// gridAnswer is an answer over the grid; isLeftOut says that the body is nil.
type gridAnswer struct {
	answer
	isLeftOut bool
}

func readAnswer(t testing.TB, payload []byte) gridAnswer {
	t.Helper()
	got := gridAnswer{answer: answer{header: http.Header{}}}
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("the answer %x: %v", payload, err)
		}
	}
	count, rest, err := msgp.ReadArrayHeaderBytes(payload)
	check(err)
	if count != 3 {
		t.Fatalf("an answer of %d elements", count)
	}
	got.status, rest, err = msgp.ReadIntBytes(rest)
	check(err)
	pairs, rest, err := msgp.ReadMapHeaderBytes(rest)
	check(err)
	for range pairs {
		var name, value string
		name, rest, err = msgp.ReadStringBytes(rest)
		check(err)
		value, rest, err = msgp.ReadStringBytes(rest)
		check(err)
		if name != strings.ToLower(name) || got.header[textproto.CanonicalMIMEHeaderKey(name)] != nil {
			t.Fatalf("the name %q is not in lower case, or comes twice", name)
		}
		var bytes []byte
		for _, c := range value {
			if c > 0xff {
				t.Fatalf("%s: %q has a character that is no byte", name, value)
			}
			bytes = append(bytes, byte(c))
		}
		got.header.Set(name, string(bytes))
	}
	if got.isLeftOut = msgp.IsNil(rest); got.isLeftOut {
		rest, err = msgp.ReadNilBytes(rest)
	} else {
		var body []byte
		body, rest, err = msgp.ReadBytesBytes(rest, nil)
		got.body = string(body)
	}
	check(err)
	if len(rest) > 0 {
		t.Fatalf("%d bytes follow the answer", len(rest))
	}
	return got
}

// ask sends a request over the grid.
func ask(t testing.TB, peer grid.Requester, method, path, body string, headers ...string) gridAnswer {
	t.Helper()
	payload, err := peer.Do(context.Background(), grid.Request{
		Name: "object." + strings.ToLower(method), Payload: gridPayload(path, body, headers...), Timeout: time.Minute,
	}, nil)
	if err != nil {
		t.Fatalf("%s %s %q: %v", method, path, headers, err)
	}
	return readAnswer(t, payload)
}

// ofHTTP are headers that the grid leaves out.
var ofHTTP = []string{"Date", "Connection", "Content-Length"}

// comparable is an answer as one text. A boundary is random.
func (a answer) comparable(isHead bool) string {
	var lines []string
	body := a.body
	for name, values := range a.header {
		value := strings.Join(values, "|")
		if slices.Contains(ofHTTP, name) && !(isHead && name == "Content-Length") {
			continue
		}
		if kind, boundary, ok := strings.Cut(value, ";boundary="); ok {
			value, body = kind, strings.ReplaceAll(body, boundary, "BOUNDARY")
		}
		lines = append(lines, name+": "+value)
	}
	slices.Sort(lines)
	return fmt.Sprintf("%d\n%s\n\n%q", a.status, strings.Join(lines, "\n"), body)
}

// same checks that an answer over the grid is that of HTTP.
func same(t testing.TB, what, method string, over gridAnswer, http answer) {
	t.Helper()
	isHead := method == "HEAD"
	if len(http.body) > message.BodyMax {
		if !over.isLeftOut || over.header.Get("Content-Length") != strconv.Itoa(len(http.body)) {
			t.Errorf("%s: a body of %d bytes is not left out: %v", what, len(http.body), over.header)
		}
		http.body = ""
	} else if over.isLeftOut || !isHead && over.header["Content-Length"] != nil {
		t.Errorf("%s: a body is left out, or its length is told: %v", what, over.header)
	}
	if got, want := over.comparable(isHead), http.comparable(isHead); got != want {
		t.Errorf("%s: over the grid\n%s\n\nover HTTP\n%s", what, got, want)
	}
}
