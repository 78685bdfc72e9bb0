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

	"martlet/object-server/proof"
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

// secureServer runs with a certificate of an authority.
type secureServer struct {
	*process
	home      *home
	authority *authority.Authority
	address   string
}

func startSecure(t *testing.T) *secureServer {
	t.Helper()
	s := &secureServer{home: newHome(t, proof.FreePort(t)), authority: authority.New(t)}
	s.issue(t, "server")
	s.process = s.home.start()
	s.address = strings.TrimPrefix(s.base, "http://")
	return s
}

// issue makes a certificate in files of that name, and lets martlet.conf name them.
func (s *secureServer) issue(t *testing.T, name string) (key string) {
	t.Helper()
	certificate, key := s.authority.Issue(t, name, "127.0.0.1", time.Time{})
	setSecrets(t, s.home.dir, "grid_secret = "+strings.Repeat("1", 32),
		"grid_tls_cert = "+certificate, "grid_tls_key = "+key, "grid_tls_ca = "+s.authority.Path)
	return key
}

func (s *secureServer) awaitAnotherSerial(t *testing.T, before *big.Int) {
	t.Helper()
	for serialOf(t, s.address, s.authority.Path).Cmp(before) == 0 {
		time.Sleep(time.Millisecond)
	}
}

func TestAServerWithACertificateSpeaksTLSAlone(t *testing.T) {
	s := startSecure(t)
	if status, said := s.do("GET", "/healthcheck", ""); status != http.StatusServiceUnavailable {
		t.Error("without TLS:", status, said)
	}
	s.awaitLog("the client speaks no TLS")

	config, err := conf.Read(s.home.conf)
	if err != nil {
		t.Fatal(err)
	}
	put := func() error {
		running, err := newRunningServer(config, "")
		if err != nil {
			t.Fatal(err)
		}
		request, err := http.NewRequest("PUT", s.base+"/sda/1/a/c/o", strings.NewReader(strings.Repeat("x", 1<<20)))
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
	if status := run([]string{"relinker", "relink", s.home.conf}, &said, &said); status != 2 || !strings.Contains(said.String(), "No policy found") {
		t.Errorf("the relinker: %d %s", status, said.String())
	}
	config.Grid.TLS.Certificate, config.Grid.TLS.Key = authority.New(t).Issue(t, "client", "127.0.0.1", time.Time{})
	config.Grid.TLS.Authorities = authority.New(t).Path
	if err := put(); err == nil || !strings.Contains(err.Error(), "certificate signed by unknown authority") {
		t.Error("another authority:", err)
	}
}

func TestAReloadReadsTheFilesOfTLS(t *testing.T) {
	s := startSecure(t)
	before := serialOf(t, s.address, s.authority.Path)
	s.issue(t, "server")
	s.signal(syscall.SIGHUP)
	s.awaitAnotherSerial(t, before)
	before = serialOf(t, s.address, s.authority.Path)
	key := s.issue(t, "other-files")
	s.signal(syscall.SIGHUP)
	s.awaitAnotherSerial(t, before)

	write(t, key, "nix")
	s.signal(syscall.SIGHUP)
	s.awaitLog("TLS stays as it was")
	setSecrets(t, s.home.dir, "grid_secret = "+strings.Repeat("1", 32))
	s.signal(syscall.SIGHUP)
	s.awaitLog("TLS begins and ends with a restart")
	serialOf(t, s.address, s.authority.Path)
}
