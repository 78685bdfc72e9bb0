package message

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tinylib/msgp/msgp"
)

// golden has the payloads that both languages read; package server writes them.
const golden = "../../../test/golden/grid"

// payload encodes a request with these headers.
func payload(headers ...string) []byte {
	b := msgp.AppendString(msgp.AppendArrayHeader(nil, 5), "sda")
	b = msgp.AppendString(msgp.AppendUint32(b, 7), "/AUTH_a/c/o%20p?x=%zz")
	b = msgp.AppendMapHeader(b, uint32(len(headers)/2))
	for _, text := range headers {
		b = msgp.AppendString(b, text)
	}
	return msgp.AppendBytes(b, []byte("body"))
}

func TestAPayloadIsReadAsARequestOfHTTP(t *testing.T) {
	b := payload("X-Timestamp", "1", "X-Object-Meta-Colour", "bl\u00fce", "x-object-META-shape", "", "content-type", "a/b", "X-Empty", "")
	var r Request
	body, err := r.ReadPayload("PUT", b)
	if err != nil || string(body) != "body" {
		t.Fatal(err, body)
	}
	clear(b) // the memory is used again
	if r.Method != "PUT" || r.Device != "sda" || !r.IsPartition || r.Partition != 7 || r.Name != "/AUTH_a/c/o p" || r.Query != "x=%zz" ||
		r.Account != "AUTH_a" || r.Container != "c" || r.Object != "o p" || r.FullPath() != "/sda/7/AUTH_a/c/o p" {
		t.Errorf("read as %+v", r)
	}
	if r.Length != 4 || !r.HasLength || r.IsMalformed || r.HeadBytes < 100 {
		t.Errorf("read as %+v", r)
	}
	for name, want := range map[string]string{
		"X-Timestamp": "1", "X-Object-Meta-Colour": "bl\xfce", "X-Object-Meta-Shape": "", "Content-Type": "a/b", "X-Empty": "",
	} {
		if got, ok := r.Lookup(name); !ok || got != want {
			t.Errorf("%s is %q", name, got)
		}
	}
}

func TestPayloadsWithMoreElementsAreRead(t *testing.T) {
	b := payload()
	b[0]++
	b = msgp.AppendArrayHeader(b, 1) // another element
	b = msgp.AppendNil(b)
	var r Request
	if _, err := r.ReadPayload("GET", b); err != nil {
		t.Error(err)
	}
}

func TestPathsThatAreMalformed(t *testing.T) {
	for path, isMalformed := range map[string]bool{
		"/a/c/o": false, "/a/c": false, "/": false, "/a/c/%ff": false, "/a/c/+": false, "/a/c/o#?x": false,
		"/a/c/%": true, "/a/c/%2": true, "/a/c/%zz": true,
	} {
		var r Request
		if _, err := r.ReadPayload("GET", withPath(path)); err != nil || r.IsMalformed != isMalformed {
			t.Errorf("%q: malformed %v, %v", path, r.IsMalformed, err)
		}
	}
}

func withPath(path string) []byte {
	return bytes.Replace(payload(), []byte("\xb5/AUTH_a/c/o%20p?x=%zz"), msgp.AppendString(nil, path), 1)
}

func TestPathsThatAreNotQuotedAreRefused(t *testing.T) {
	for _, path := range []string{"", "a/c/o", "?", "/a/c/o o", "/a/c/o?\x00", "/a/c/o\n", "/a/c/\x7f", "/a/c/\u00e4", "/a/c/o?\u00e4"} {
		if _, err := new(Request).ReadPayload("GET", withPath(path)); err == nil {
			t.Errorf("%q is accepted", path)
		}
	}
}

func TestPayloadsThatAreRefused(t *testing.T) {
	many := []string{}
	for i := range 100 {
		many = append(many, "X-A"+strings.Repeat("a", i), "")
	}
	if _, err := new(Request).ReadPayload("PUT", payload(many...)); err != nil {
		t.Error("many headers:", err)
	}
	for what, b := range map[string][]byte{
		"nothing":                     {},
		"no array":                    {0x80},
		"too few elements":            append([]byte{0x94}, payload()[1:]...),
		"bytes behind the array":      append(payload(), 0xc0),
		"an extra element is missing": append([]byte{0x96}, payload()[1:]...),
		"a device that is bin":        bytes.Replace(payload(), []byte("\xa3sda"), []byte("\xc4\x03sda"), 1),
		"a device that is not UTF-8":  bytes.Replace(payload(), []byte("sda"), []byte("sd\xff"), 1),
		"a path that is not UTF-8":    bytes.Replace(payload(), []byte("AUTH_a"), []byte("AUTH_\xff"), 1),
		"a negative partition":        bytes.Replace(payload(), []byte("sda\x07"), []byte("sda\xff"), 1),
		"a large partition":           bytes.Replace(payload(), []byte("sda\x07"), []byte("sda\xcf\x00\x00\x00\x01\x00\x00\x00\x00"), 1),
		"a body that is a string":     bytes.Replace(payload(), []byte("\xc4\x04body"), []byte("\xa4body"), 1),
		"a body that is nil":          bytes.Replace(payload(), []byte("\xc4\x04body"), []byte("\xc0"), 1),
		"a value that is a number":    bytes.Replace(payload("A", "1"), []byte("\xa11"), []byte("\x01"), 1),
		"a name with _":               payload("X_A", "1"),
		"a name twice":                payload("X-A", "1", "X-A", "2"),
		"a name twice, another case":  payload("X-A", "1", "x-a", "2"),
		"a field twice":               payload("Etag", "1", "ETag", "2"),
		"a name twice among many":     payload(append(many, "X-Aa", "2")...),
		"a name that is empty":        payload("", "1"),
		"a name with a blank":         payload("X A", "1"),
		"a name beyond ASCII":         payload("X-\u00c4", "1"),
		"a value beyond bytes":        payload("A", "\u0100"),
		"a value that is not UTF-8":   payload("A", "\xff"),
		"the character of no UTF-8":   payload("A", "\ufffd"),
		"a value with a newline":      payload("A", "1\n2"),
		"a value with a NUL":          payload("A", "\x00"),
		"a value with DEL":            payload("A", "\x7f"),
		"a blank before a value":      payload("A", " 1"),
		"a tab behind a value":        payload("A", "1\t"),
		"Connection":                  payload("connection", "close"),
		"Content-Length":              payload("Content-Length", "4"),
		"Date":                        payload("Date", "1"),
		"Expect":                      payload("Expect", "100-continue"),
		"Host":                        payload("Host", "h"),
		"Transfer-Encoding":           payload("Transfer-Encoding", "chunked"),
	} {
		if _, err := new(Request).ReadPayload("PUT", b); err == nil {
			t.Errorf("%s is accepted", what)
		}
	}
	whole := payload("X-Timestamp", "1")
	for end := range whole {
		if _, err := new(Request).ReadPayload("PUT", whole[:end]); err == nil {
			t.Errorf("the first %d bytes are accepted", end)
		}
	}
}

func TestAHeaderCostsNoAllocation(t *testing.T) {
	few := payload("X-Timestamp", "1", "Content-Type", "a/b")
	all := payload("X-Timestamp", "1", "Content-Type", "a/b", "X-Object-Meta-A", "1", "X-Object-Meta-B", "2", "Etag", "e", "X-Trans-Id", "t")
	r := Request{Others: make([]Header, 0, 8)}
	count := func(b []byte) float64 {
		return testing.AllocsPerRun(100, func() {
			if _, err := r.ReadPayload("PUT", b); err != nil {
				t.Fatal(err)
			}
		})
	}
	if one, other := count(few), count(all); one != other {
		t.Errorf("%v allocations, and %v with more headers", one, other)
	}
}

func TestTheHeadOfAnAnswer(t *testing.T) {
	a := Answer{Length: 300}
	for _, pair := range []Pair{
		{"Content-Type", "a/b"}, {"X-Object-Meta-Colour", "bl\xfce"}, {"X-Blank", " a\nb\x00\t"}, {"Not a token", "1"}, {"Connection", "close"},
		{"X-Object-Meta-Long", strings.Repeat("\xff", 200)}, {"Date", "1"},
	} {
		a.Set(pair.Name, pair.Value)
	}
	a.Set("X-Blank", "\ta\nb \x00")
	want := msgp.AppendMapHeader(msgp.AppendUint(msgp.AppendArrayHeader([]byte("before"), 3), 200), 5)
	for _, text := range []string{
		"content-type", "a/b", "x-object-meta-colour", "bl\u00fce", "x-blank", "a b", "x-object-meta-long", strings.Repeat("\u00ff", 200),
		"content-length", "300",
	} {
		want = msgp.AppendString(want, text)
	}
	if got := a.AppendHead([]byte("before"), 200, true); !bytes.Equal(got, want) {
		t.Errorf("the head is\n%q, want\n%q", got, want)
	}
	got := a.AppendHead(nil, 304, false) // without Content-Type and Content-Length
	if count, _, _ := msgp.ReadMapHeaderBytes(got[4:]); count != 3 {
		t.Errorf("a 304 has %d headers", count)
	}
	a.Reset()
	if got := a.AppendHead(nil, 204, true); !bytes.Equal(got, []byte{0x93, 0xcc, 204, 0x80}) {
		t.Errorf("without headers: %x", got)
	}
	for _, length := range []int{0, 255, 256, 65535, 65536} {
		body := make([]byte, length)
		if got := append(AppendBodyHead(nil, length), body...); !bytes.Equal(got, msgp.AppendBytes(nil, body)) {
			t.Errorf("the head of a body of %d bytes is %x", length, got[:5])
		}
	}
}

// FuzzReadPayload: what is read can be looked up, and has the bounds that the page says.
func FuzzReadPayload(f *testing.F) {
	names, err := filepath.Glob(filepath.Join(golden, "object_*_request.bin"))
	if err != nil || len(names) == 0 {
		f.Fatal("there are no golden payloads", err)
	}
	for _, name := range names {
		b, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Add(payload("X-A", "1", "X-Timestamp", "1"))
	f.Fuzz(func(t *testing.T, b []byte) {
		var r Request
		body, err := r.ReadPayload("PUT", b)
		if err != nil {
			return
		}
		if int64(len(body)) != r.Length || r.HeadBytes+len(body) > len(b) {
			t.Errorf("a body of %d bytes and a head of %d in %d bytes", len(body), r.HeadBytes, len(b))
		}
		if !r.IsMalformed && r.Name[0] != '/' {
			t.Errorf("the name %q", r.Name)
		}
		seen := map[string]bool{}
		for _, header := range r.Others {
			if _, ok := FieldOf(header.Name); ok || seen[header.Name] || !isToken(header.Name) || isOfConnection(header.Name) {
				t.Errorf("a header %q", header.Name)
			}
			seen[header.Name] = true
			if strings.ContainsAny(header.Value, "\r\n\x00") || strings.TrimSpace(header.Value) != header.Value && header.Value[0] < 0x80 && header.Value[len(header.Value)-1] < 0x80 {
				t.Errorf("the value %q", header.Value)
			}
		}
	})
}
