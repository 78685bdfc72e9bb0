package server

import (
	"context"
	"errors"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"martlet/object-server/grid"
	"martlet/object-server/grid/auth"
	"martlet/object-server/grid/login"
	"martlet/object-server/server/conf"
)

var (
	secretOne = strings.Repeat("0123456789abcdef", 2)
	secretTwo = strings.Repeat("fedcba9876543210", 2)
)

func withSecret(t *testing.T, texts ...string) func(*conf.Config) {
	t.Helper()
	return func(c *conf.Config) {
		var err error
		if c.Grid.Secrets, err = auth.NewSecrets(texts...); err != nil {
			t.Fatal(err)
		}
	}
}

func TestWithASecretRequestsNeedAProof(t *testing.T) {
	f := newFixture(t, withSecret(t, secretOne))
	for request, want := range map[string]int{
		"PUT " + objectPath: 403, "GET " + objectPath: 403, "HEAD " + objectPath: 403, "POST " + objectPath: 403,
		"DELETE " + objectPath: 403, "POST /recon/repair": 403, "POST /recon/relinker?step=relink": 403,
		"GET /healthcheckx": 403, "GET /": 403, "REPLICATE /sda/7": 403,
		"GET /healthcheck": 200, "HEAD /healthcheck": 200, "GET /recon/grid": 200, "HEAD /recon/grid": 405,
		"GET /recon/nothing": 404, "OPTIONS " + objectPath: 200, "GET /grid": 400, "GET /grid/login": 200,
	} {
		method, path, _ := strings.Cut(request, " ")
		got := f.do(method, path, "")
		f.expect(got, want, request)
		if want == 403 && method != "HEAD" && got.body != "This connection has no proof of the cluster's secret; see grid_secret in martlet.conf.\n" {
			t.Errorf("%s is refused with %q", request, got.body)
		}
	}
	if got := f.do("GET", "/recon/grid", "").body; !strings.Contains(got, `"refused_http":10`) {
		t.Errorf("the figures are %s", got)
	}
	if count := strings.Count(f.log.String(), `msg="request refused"`); count == 0 || count == 10 {
		t.Errorf("%d of 10 refusals are in the log", count)
	}
}

func TestWhoHasTheSecretIsServed(t *testing.T) {
	f := newFixture(t, withSecret(t, secretOne))
	known, err := auth.NewSecrets(secretOne)
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{DialContext: (&login.Dialer{Secrets: known}).DialContext}
	defer transport.CloseIdleConnections()
	put := func(timestamp string) int {
		t.Helper()
		request, err := http.NewRequest("PUT", "http://"+f.address+objectPath, strings.NewReader("hello"))
		if err != nil {
			t.Fatal(err)
		}
		request.Header = http.Header{"X-Timestamp": {timestamp}, "Content-Type": {"a/b"}}
		response, err := transport.RoundTrip(request)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		return response.StatusCode
	}
	if status := put("1700000000.00000"); status != 201 {
		t.Errorf("over HTTP with a proof: %d", status)
	}
	if got := ask(t, newPeer(t, f.address, secretOne), "GET", objectPath, ""); got.body != "hello" {
		t.Errorf("over the grid: %d %q", got.status, got.body)
	}
	request := grid.Request{Name: "object.get", Payload: gridPayload(objectPath, "")}
	for _, other := range []string{secretTwo, auth.None} {
		if _, err := newPeer(t, f.address, other).Do(context.Background(), request, nil); !errors.Is(err, grid.ErrRefused) {
			t.Errorf("over the grid with another secret: %v", err)
		}
	}

	// New secrets and addresses are applied while the server runs.
	change := &conf.Config{}
	withSecret(t, secretTwo)(change)
	f.server.ReloadGrid(change)
	if got := ask(t, newPeer(t, f.address, secretTwo), "GET", objectPath, ""); got.body != "hello" {
		t.Errorf("with the new secret: %d %q", got.status, got.body)
	}
	if status := put("1700000001.00000"); status != 201 {
		t.Errorf("over a connection that was proved before: %d", status)
	}
	change.Grid.PlainHTTP = []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}
	f.server.ReloadGrid(change)
	f.expect(f.do("GET", objectPath, ""), 200, "from an address of grid_plain_http")
	change.Grid.PlainHTTP = nil
	f.server.ReloadGrid(change)
	f.expect(f.do("GET", objectPath, ""), 403, "from that address later")
}
