package server

import (
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"strings"
	"testing"
)

func TestRanges(t *testing.T) {
	f := newFixture(t)
	f.mustPut(objectPath, "0123456789", "1700000000.00000", "X-Object-Meta-Manifest", "1",
		"X-Object-Sysmeta-Crypto-Etag", "plain", "X-Delete-At", "9999999999", "Content-Encoding", "gzip")
	for _, c := range []struct {
		header, body, contentRange string
		status                     int
	}{
		{"bytes=2-4", "234", "bytes 2-4/10", 206},
		{"bytes=-2", "89", "bytes 8-9/10", 206},
		{"bytes=4-", "456789", "bytes 4-9/10", 206},
		{"bytes=nonsense", "0123456789", "", 200},
		{"bytes=4-2", "0123456789", "", 200},
	} {
		got := f.do("GET", objectPath, "", "Range", c.header)
		if got.status != c.status || got.body != c.body || got.header.Get("Content-Range") != c.contentRange ||
			got.header.Get("Content-Length") != fmt.Sprint(len(c.body)) {
			t.Errorf("%s: got %d %q %v", c.header, got.status, got.body, got.header)
		}
	}
	got := f.do("GET", objectPath, "", "Range", "bytes=10-")
	f.expect(got, 416, "behind the end")
	for name, value := range map[string]string{
		"Content-Range": "bytes */10", "X-Object-Sysmeta-Crypto-Etag": "plain", "X-Object-Meta-Manifest": "1",
		"X-Delete-At": "9999999999", "Last-Modified": "Tue, 14 Nov 2023 22:13:20 GMT",
		"Content-Type": "text/plain; charset=utf-8", "Content-Encoding": "", "Content-Length": fmt.Sprint(len(got.body)),
	} {
		if got.header.Get(name) != value {
			t.Errorf("416 with %s %q, want %q", name, got.header.Get(name), value)
		}
	}
	got = f.do("GET", objectPath, "", "Range", "bytes=2-4", "X-Backend-Ignore-Range-If-Metadata-Present",
		"x-none, x-object-meta-manifest")
	if got.status != 200 || got.body != "0123456789" {
		t.Errorf("ignored range: got %d %q", got.status, got.body)
	}
	f.mustPut(objectPath, "", "1700000001.00000")
	f.expect(f.do("GET", objectPath, "", "Range", "bytes=-5"), 200, "suffix of an empty object")
	f.expect(f.do("GET", objectPath, "", "Range", "bytes=0-5"), 416, "range of an empty object")
}

func TestSeveralRangesAreMultipart(t *testing.T) {
	f := newFixture(t)
	f.mustPut(objectPath, "0123456789", "1700000000.00000")
	got := f.do("GET", objectPath, "", "Range", "bytes=0-1,-3")
	f.expect(got, 206, "two ranges")
	kind, parameters, err := mime.ParseMediaType(got.header.Get("Content-Type"))
	if err != nil || kind != "multipart/byteranges" {
		t.Fatalf("content type %q: %v", got.header.Get("Content-Type"), err)
	}
	if got.header.Get("Content-Length") != fmt.Sprint(len(got.body)) {
		t.Errorf("length %s of %d", got.header.Get("Content-Length"), len(got.body))
	}
	parts := multipart.NewReader(strings.NewReader(got.body), parameters["boundary"])
	for _, want := range []struct{ body, contentRange string }{{"01", "bytes 0-1/10"}, {"789", "bytes 7-9/10"}} {
		part, err := parts.NextRawPart()
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(part)
		if err != nil || string(body) != want.body || part.Header.Get("Content-Range") != want.contentRange ||
			part.Header.Get("Content-Type") != "text/plain" {
			t.Errorf("part %q %v: %v", body, part.Header, err)
		}
	}
	if _, err := parts.NextRawPart(); err != io.EOF {
		t.Errorf("after the last part: %v", err)
	}
}

func TestConditions(t *testing.T) {
	f := newFixture(t)
	f.mustPut(objectPath, "hello", "1700000000.50000", "X-Object-Sysmeta-Crypto-Etag", "plain", "X-Object-Sysmeta-Empty", "")
	const etag, after, before = "5d41402abc4b2a76b9719d911017c592", "Tue, 14 Nov 2023 22:13:21 GMT",
		"Tue, 14 Nov 2023 22:13:20 GMT"
	for _, c := range []struct {
		status  int
		headers []string
	}{
		{200, []string{"If-Match", etag}},
		{200, []string{"If-Match", `"x", "` + etag + `"`}},
		{200, []string{"If-Match", "*"}},
		{412, []string{"If-Match", "x"}},
		{304, []string{"If-None-Match", `"` + etag + `"`}},
		{304, []string{"If-None-Match", "*"}},
		{200, []string{"If-None-Match", "x"}},
		{304, []string{"If-Modified-Since", after}},
		{200, []string{"If-Modified-Since", before}},
		{200, []string{"If-Modified-Since", "nonsense"}},
		{412, []string{"If-Unmodified-Since", before}},
		{200, []string{"If-Unmodified-Since", after}},
		{200, []string{"If-Match", "plain", "X-Backend-Etag-Is-At", "X-None, X-Object-Sysmeta-Crypto-Etag"}},
		{412, []string{"If-Match", etag, "X-Backend-Etag-Is-At", "X-Object-Sysmeta-Crypto-Etag"}},
		{200, []string{"If-Match", etag, "X-Backend-Etag-Is-At", "X-None"}},
		{200, []string{"If-Match", etag, "X-Backend-Etag-Is-At", "X-Object-Sysmeta-Empty"}},
	} {
		for _, method := range []string{"GET", "HEAD"} {
			got := f.do(method, objectPath, "", c.headers...)
			f.expect(got, c.status, fmt.Sprint(method, c.headers))
			if got.header.Get("Etag") != `"`+etag+`"` {
				t.Errorf("%v: %d without Etag", c.headers, got.status)
			}
			named := "Content-Type"
			if c.status == 304 {
				named = "X-Backend-Content-Type"
			}
			if got.header.Get(named) != "text/plain" {
				t.Errorf("%v: %d without %s", c.headers, got.status, named)
			}
		}
	}
}
