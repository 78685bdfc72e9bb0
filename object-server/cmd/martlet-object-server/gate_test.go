package main

import (
	"bytes"
	"net/http"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"martlet/object-server/proof"
	"martlet/object-server/server/conf"
)

// setSecrets writes martlet.conf of a host anew.
func setSecrets(t *testing.T, directory string, lines ...string) {
	t.Helper()
	write(t, filepath.Join(directory, "martlet.conf"),
		"[swift-hash]\nswift_hash_path_suffix = s\n[grid]\n"+strings.Join(lines, "\n")+"\n")
}

// The commands that ask a running server know its secret from the same martlet.conf.
func TestCommandsProveThemselvesToTheServer(t *testing.T) {
	one, two := strings.Repeat("1", 32), strings.Repeat("2", 32)
	h := newHome(t, proof.FreePort(t))
	setSecrets(t, h.dir, "grid_secret = "+one)
	p := h.start()
	if status, _ := p.do("PUT", "/sda/1/a/c/o", "x"); status != http.StatusForbidden {
		t.Errorf("without a proof: %d", status)
	}
	relinker := func() (int, string) {
		var stdout, stderr bytes.Buffer
		status := run([]string{"relinker", "relink", h.conf}, &stdout, &stderr)
		return status, stdout.String() + stderr.String()
	}
	repair := func() (int, string) {
		var stdout, stderr bytes.Buffer
		device := filepath.Join(h.dir, "devices", "sda")
		status := run([]string{"bundle", "repair", "--apply", "--conf", h.conf, device}, &stdout, &stderr)
		return status, stdout.String() + stderr.String()
	}
	if status, said := relinker(); status != 2 || !strings.Contains(said, "No policy found") {
		t.Errorf("the relinker: %d %s", status, said)
	}
	config, err := conf.Read(h.conf)
	if err != nil {
		t.Fatal(err)
	}
	request, err := http.NewRequest("PUT", p.base+"/sda/1/a/c/o", strings.NewReader("x"))
	if err != nil {
		t.Fatal(err)
	}
	request.Header = http.Header{"X-Timestamp": {"1700000000.00000"}, "Content-Type": {"a/b"}}
	running, err := newRunningServer(config, "")
	if err != nil {
		t.Fatal(err)
	}
	response, err := running.client.Do(request)
	if err != nil || response.StatusCode != http.StatusCreated {
		t.Fatal("with a proof:", response, err)
	}
	response.Body.Close()
	if status, said := repair(); status != 0 || !strings.Contains(said, "nothing is damaged") {
		t.Errorf("repair: %d %s", status, said)
	}
	setSecrets(t, h.dir, "grid_secret = "+two)
	for name, command := range map[string]func() (int, string){"relinker": relinker, "repair": repair} {
		if status, said := command(); status == 0 || !strings.Contains(said, "accepts none of our secrets") {
			t.Errorf("%s with another secret: %d %s", name, status, said)
		}
	}
	p.signal(syscall.SIGHUP) // the server reads the new secret
	p.awaitLog("reload: log_level, [grid]")
	if status, said := relinker(); status != 2 {
		t.Errorf("after a reload: %d %s", status, said)
	}
	setSecrets(t, h.dir, "grid_secret = "+two, "grid_plain_http = 127.0.0.1")
	p.signal(syscall.SIGHUP)
	for status := http.StatusForbidden; status == http.StatusForbidden; { // until that is read
		status, _ = p.do("GET", "/sda/1/a/c/o", "")
	}
	p.expectBody("/sda/1/a/c/o", "x")
}
