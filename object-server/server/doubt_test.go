package server

import (
	"errors"
	"fmt"
	"testing"

	"martlet/object-server/bundle/format"
	"martlet/object-server/device"
)

// A good record that may not be the newest is served and marked, in each kind of answer.
func TestStaleAnswers(t *testing.T) {
	f := newFixture(t)
	f.mustPut(objectPath, "hello", "1700000000.00000")
	f.store.change(func(s *fakeStore) { s.doubtful = true })
	for _, c := range []struct {
		method string
		header []string
		status int
	}{
		{"GET", nil, 200},
		{"HEAD", nil, 200},
		{"GET", []string{"Range", "bytes=1-2"}, 206},
		{"GET", []string{"Range", "bytes=99-"}, 416},
		{"GET", []string{"If-None-Match", "*"}, 304},
		{"HEAD", []string{"If-Match", "other"}, 412},
	} {
		got := f.do(c.method, objectPath, "", c.header...)
		f.expect(got, c.status, fmt.Sprint(c.method, c.header))
		if doubt := got.header.Get(doubtHeader); doubt != "stale" {
			t.Errorf("%s %v: doubt %q", c.method, c.header, doubt)
		}
	}
	f.store.change(func(s *fakeStore) { s.doubtful = false })
	got := f.do("GET", objectPath, "")
	f.expect(got, 200, "GET without doubt")
	if doubt := got.header.Get(doubtHeader); doubt != "" {
		t.Errorf("doubt %q", doubt)
	}
}

// If the server cannot know what is stored, the answer is not 404; it has the newest known timestamp.
func TestUnknownAnswers(t *testing.T) {
	last := format.Timestamp{Ticks: 170000000000000}
	f := newFixture(t)
	f.mustPut(objectPath, "hello", "1700000000.00000")
	for _, c := range []struct {
		err       error
		timestamp string
	}{
		{fmt.Errorf("wrapped: %w", device.ErrQuarantined), ""},
		{&device.DoubtError{Cause: errors.New("lost")}, ""},
		{&device.DoubtError{Timestamp: last, Cause: errors.New("lost")}, last.String()},
	} {
		f.store.change(func(s *fakeStore) { s.openErr = c.err })
		for _, method := range []string{"GET", "HEAD", "POST"} {
			got := f.do(method, objectPath, "", "X-Timestamp", "1700000001.00000", "If-Match", "*")
			f.expect(got, 503, method)
			if got.header.Get(doubtHeader) != "unknown" || got.header.Get(timestampHeader) != c.timestamp {
				t.Errorf("%s: %v: %v", method, c.err, got.header)
			}
		}
	}
}

// If a later write may be lost, the server cannot know that an object has expired.
func TestExpiredAndDoubtful(t *testing.T) {
	f := newFixture(t)
	f.mustPut(objectPath, "hello", "1700000000.00000", "X-Delete-At", "1700000100", isReplicationHeader, "true")
	f.store.change(func(s *fakeStore) { s.doubtful = true })
	for _, method := range []string{"GET", "HEAD"} {
		got := f.do(method, objectPath, "")
		f.expect(got, 503, method)
		if got.header.Get(doubtHeader) != "unknown" {
			t.Errorf("%s: %v", method, got.header)
		}
	}
	got := f.do("DELETE", objectPath, "", "X-Timestamp", "1700000100.00000", ifDeleteAt, "1700000100")
	f.expect(got, 503, "DELETE by the expirer")
}
