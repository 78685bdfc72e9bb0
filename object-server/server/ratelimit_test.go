package server

import (
	"errors"
	"net/http/httptest"
	"strings"
	"testing"

	"martlet/object-server/server/conf"
)

// limits gives a server the lines of a [filter:backend_ratelimit] section.
func limits(t *testing.T, lines string) func(*conf.Config) {
	t.Helper()
	read := testConfig(t, "[filter:backend_ratelimit]", lines).Ratelimit
	return func(c *conf.Config) { c.Ratelimit = read }
}

func TestWhatIsAboutNoDeviceIsNotLimited(t *testing.T) {
	f := newFixture(t, limits(t, "requests_per_device_per_second = 0.001"))
	expect := func(request string, want int) {
		t.Helper()
		method, path, _ := strings.Cut(request, " ")
		got := 200
		var refused *failure
		if errors.As(f.server.admit(newExchange(httptest.NewRecorder(), httptest.NewRequest(method, path, nil))), &refused) {
			got = refused.status
		}
		if got != want {
			t.Errorf("%s is answered %d, want %d", request, got, want)
		}
	}
	for _, request := range []string{
		"GET /", "GET /sda", "GET /sda/", "GET /sda/x/a/c/o", "GET //7/a/c/o", "GET /../7/a/c/o", "COPY " + objectPath,
	} {
		expect(request, 200)
		expect(request, 200)
	}
	expect("GET /sda/7", 200)
	expect("GET /sda/7", 529)
}

func TestARequestBeyondTheLimitDoesNothing(t *testing.T) {
	f := newFixture(t, limits(t, "put_requests_per_device_per_second = 0.001"))
	f.mustPut(objectPath, "first", "1700000000.00000")
	got := f.put(objectPath, "second", "1700000001.00000")
	f.expect(got, 529, "PUT beyond the limit")
	f.expect(f.put(objectPath, strings.Repeat("x", 1<<20), "1700000001.00000", "Expect", "100-continue"), 529, "a large one")
	if got := f.do("GET", objectPath, ""); got.status != 200 || got.body != "first" {
		t.Errorf("GET: %+v", got)
	}
	if got := f.do("GET", "/recon/backend_ratelimit", ""); got.body != `{"refused":{"sda":{"PUT":2}}}` {
		t.Errorf("recon: %+v", got)
	}
}
