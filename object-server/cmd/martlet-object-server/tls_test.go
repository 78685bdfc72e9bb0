package main

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"math/big"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"martlet/object-server/proof/authority"
	"martlet/object-server/server/conf"
)

// serialOf is the number of the certificate that a new connection gets.
func serialOf(t *testing.T, address, authorities string) *big.Int {
	t.Helper()
	pem, err := os.ReadFile(authorities)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(pem)
	c, err := tls.Dial("tcp", address, &tls.Config{RootCAs: pool})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	return c.ConnectionState().PeerCertificates[0].SerialNumber
}

func TestAServerWithACertificateSpeaksTLSAlone(t *testing.T) {
	ours := authority.New(t)
	certificate, key := ours.Issue(t, "server", "127.0.0.1", time.Time{})
	h := newHome(t, freePort(t))
	setSecrets(t, h.dir, "grid_secret = "+strings.Repeat("1", 32),
		"grid_tls_cert = "+certificate, "grid_tls_key = "+key, "grid_tls_ca = "+ours.Path)
	p := h.start()
	address := strings.TrimPrefix(p.base, "http://")
	if status, said := p.do("GET", "/healthcheck", ""); status != http.StatusBadRequest {
		t.Error("without TLS:", status, said)
	}
	p.awaitLog("client sent an HTTP request to an HTTPS server")

	config, err := conf.Read(h.conf)
	if err != nil {
		t.Fatal(err)
	}
	put := func() error {
		running, err := newRunningServer(config, "")
		if err != nil {
			t.Fatal(err)
		}
		request, err := http.NewRequest("PUT", p.base+"/sda/1/a/c/o", strings.NewReader(strings.Repeat("x", 1<<20)))
		if err != nil {
			t.Fatal(err)
		}
		request.Header = http.Header{"X-Timestamp": {"1700000000.00000"}, "Content-Type": {"a/b"}}
		response, err := running.client.Do(request)
		if err != nil {
			return err
		}
		if response.StatusCode != http.StatusCreated {
			t.Error(response.Status)
		}
		return response.Body.Close()
	}
	if err := put(); err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	if status := run([]string{"relinker", "relink", h.conf}, &said, &said); status != 2 || !strings.Contains(said.String(), "No policy found") {
		t.Errorf("the relinker: %d %s", status, said.String())
	}

	before := serialOf(t, address, ours.Path)
	ours.Issue(t, "server", "127.0.0.1", time.Time{})
	p.signal(syscall.SIGHUP)
	for serialOf(t, address, ours.Path).Cmp(before) == 0 { // until it is read
		time.Sleep(time.Millisecond)
	}
	write(t, key, "nix")
	p.signal(syscall.SIGHUP)
	p.awaitLog("the certificates from before stay in use")
	serialOf(t, address, ours.Path)

	config.Grid.TLS.Certificate, config.Grid.TLS.Key = authority.New(t).Issue(t, "client", "127.0.0.1", time.Time{})
	config.Grid.TLS.Authorities = authority.New(t).Path
	if err := put(); err == nil || !strings.Contains(err.Error(), "certificate signed by unknown authority") {
		t.Error("another authority:", err)
	}
}
