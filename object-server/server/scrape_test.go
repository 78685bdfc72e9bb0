package server

import (
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"martlet/object-server/server/conf"
)

func metricsFrom(texts ...string) func(*conf.Config) {
	return func(c *conf.Config) {
		c.MetricsFrom = nil
		for _, text := range texts {
			c.MetricsFrom = append(c.MetricsFrom, netip.MustParsePrefix(text))
		}
	}
}

func TestMetricsCountRequestsByMethodPolicyAndStatus(t *testing.T) {
	f := newFixture(t, metricsFrom("127.0.0.0/8"))
	f.mustPut(objectPath, "hello", "1700000000.00000")
	for range 3 {
		f.do("GET", objectPath, "")
	}
	f.do("GET", "/healthcheck", "")
	f.do("INVENTED", objectPath, "")
	text := f.do("GET", "/metrics", "").body
	for _, line := range []string{
		`martlet_requests_total{method="PUT",policy="0",status="201"} 1`,
		`martlet_requests_total{method="GET",policy="0",status="200"} 3`,
		`martlet_requests_total{method="GET",policy="",status="200"} 1`,
		`martlet_requests_total{method="other",policy="0",status="405"} 1`,
		`martlet_request_duration_seconds_count{method="GET",policy="0"} 3`,
		`martlet_request_duration_seconds_bucket{method="GET",policy="0",le="+Inf"} 3`,
		`martlet_bundle_flushes_total{device="sda"} 3`,
		`martlet_bundle_live_bytes{device="sda"} 4`,
		`martlet_bundle_garbage_bytes{device="sda"} 6`,
		`martlet_device_usable{device="sda"} 1`,
		`martlet_async_pending{device="sda"} 0`,
		`go_goroutines`,
	} {
		if !strings.Contains(text, line) {
			t.Errorf("no line %s", line)
		}
	}
	if t.Failed() {
		t.Log(text)
	}
}

func TestMetricsAreForListedAddresses(t *testing.T) {
	f := newFixture(t, metricsFrom("10.0.0.0/8"), withSecret(t, secretOne))
	f.expect(f.do("GET", "/metrics", ""), 403, "an address that is not listed")
	f = newFixture(t, metricsFrom("10.0.0.0/8", "127.0.0.1/32"), withSecret(t, secretOne))
	f.expect(f.do("GET", "/metrics", ""), 200, "a listed address, without a proof")
	f.expect(f.do("POST", "/metrics", ""), 405, "a POST")
	f.expect(f.do("GET", "/metricsx", ""), 403, "another path")
}

func TestCheckNamesWhatIsWrong(t *testing.T) {
	folder := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(folder, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	write("martlet.conf", "[swift-hash]\nswift_hash_path_suffix = x\n[grid]\ngrid_secret = none\n")
	text := "[DEFAULT]\nswift_dir = " + folder + "\ndevices = " + folder + "\n"
	if err := Check(write("object-server.conf", text)); err != nil {
		t.Errorf("a good file: %v", err)
	}
	err := Check(write("object-server.conf", text+"metrics_from = nonsense\n"))
	if err == nil || !strings.Contains(err.Error(), "metrics_from") {
		t.Errorf("a wrong option: %v", err)
	}
	err = Check(write("object-server.conf", strings.Replace(text, "devices = ", "devices = /nowhere", 1)))
	if err == nil || !strings.Contains(err.Error(), "devices directory") {
		t.Errorf("no devices: %v", err)
	}
}
