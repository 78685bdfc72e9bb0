package certs

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"martlet/object-server/proof"
	"martlet/object-server/proof/authority"
)

var check = proof.Check

func newStore(t *testing.T, a *authority.Authority, ip string, notAfter time.Time) *Store {
	t.Helper()
	certificate, key := a.Issue(t, "server", ip, notAfter)
	s, err := Load(Files{certificate, key, a.Path})
	check(t, err)
	return s
}

// echoing serves connections until the test ends; each gets back what it sends.
func echoing(t *testing.T, s *Store) string {
	t.Helper()
	plain, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	listener := s.Listen(plain)
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				_, _ = io.Copy(c, c)
			}()
		}
	}()
	return listener.Addr().String()
}

func dial(t *testing.T, s *Store, address string) (*tls.Conn, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	plain, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	check(t, err)
	c, err := s.Client(ctx, plain, address)
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() { c.Close() })
	return c.(*tls.Conn), nil
}

func echo(t *testing.T, c net.Conn) {
	t.Helper()
	_, err := c.Write([]byte("hello"))
	check(t, err)
	b := make([]byte, 5)
	_, err = io.ReadFull(c, b)
	check(t, err)
	if string(b) != "hello" {
		t.Fatalf("%q came back", b)
	}
}

func TestConnections(t *testing.T) {
	s := newStore(t, authority.New(t), "127.0.0.1", time.Time{})
	c, err := dial(t, s, echoing(t, s))
	check(t, err)
	echo(t, c)
	if state := c.ConnectionState(); state.Version != tls.VersionTLS13 || state.NegotiatedProtocol != "http/1.1" {
		t.Error(state)
	}
}

func TestServersThatAreNotAccepted(t *testing.T) {
	ours := authority.New(t)
	client := newStore(t, ours, "127.0.0.1", time.Time{})
	for _, one := range []struct {
		server *Store
		reason string
	}{
		{newStore(t, authority.New(t), "127.0.0.1", time.Time{}), "certificate signed by unknown authority"},
		{newStore(t, ours, "127.0.0.2", time.Time{}), "certificate is valid for 127.0.0.2, not 127.0.0.1"},
		{newStore(t, ours, "127.0.0.1", time.Now().Add(-time.Hour)), "certificate has expired"},
	} {
		if _, err := dial(t, client, echoing(t, one.server)); err == nil || !strings.Contains(err.Error(), one.reason) {
			t.Errorf("not %q: %v", one.reason, err)
		}
	}
}

func TestOldVersionsAreRefused(t *testing.T) {
	s := newStore(t, authority.New(t), "127.0.0.1", time.Time{})
	address := echoing(t, s)
	for version, isAccepted := range map[uint16]bool{tls.VersionTLS12: false, tls.VersionTLS13: true} {
		c, err := tls.Dial("tcp", address, &tls.Config{RootCAs: s.current.Load().authorities, MaxVersion: version})
		if (err == nil) != isAccepted {
			t.Error(tls.VersionName(version), err)
		}
		if err == nil {
			c.Close()
		}
	}
}

func TestReload(t *testing.T) {
	first, second := authority.New(t), authority.New(t)
	var files Files
	files.Certificate, files.Key = first.Issue(t, "server", "127.0.0.1", time.Time{})
	files.Authorities = first.Path
	s, err := Load(files)
	check(t, err)
	address := echoing(t, s)
	old, err := dial(t, s, address)
	check(t, err)
	serial := old.ConnectionState().PeerCertificates[0].SerialNumber

	files.Certificate, files.Key = first.Issue(t, "renewed", "127.0.0.1", time.Time{})
	check(t, s.Reload(files))
	renewed, err := dial(t, s, address)
	check(t, err)
	if renewed.ConnectionState().PeerCertificates[0].SerialNumber.Cmp(serial) == 0 {
		t.Error("the old certificate")
	}
	echo(t, old)
	echo(t, renewed)

	files.Authorities = second.Path
	check(t, s.Reload(files))
	if _, err := dial(t, s, address); err == nil {
		t.Error("a server of the authority from before was accepted")
	}
}

func TestFilesThatCannotBeUsed(t *testing.T) {
	a := authority.New(t)
	certificate, key := a.Issue(t, "one", "127.0.0.1", time.Time{})
	_, other := a.Issue(t, "two", "127.0.0.1", time.Time{})
	empty, missing := filepath.Join(t.TempDir(), "empty"), filepath.Join(t.TempDir(), "missing")
	check(t, os.WriteFile(empty, nil, 0o600))
	for _, one := range []struct {
		files  Files
		reason string
	}{
		{Files{certificate, other, a.Path}, "private key does not match public key"},
		{Files{missing, key, a.Path}, missing + ": no such file"},
		{Files{certificate, missing, a.Path}, missing + ": no such file"},
		{Files{certificate, key, missing}, missing + ": no such file"},
		{Files{empty, key, a.Path}, empty + " and the key"},
		{Files{certificate, empty, a.Path}, "the key " + empty},
		{Files{certificate, key, empty}, empty + " has no certificate in PEM"},
	} {
		if _, err := Load(one.files); err == nil || !strings.Contains(err.Error(), one.reason) {
			t.Errorf("not %q: %v", one.reason, err)
		}
	}
}

func TestAReloadThatFailsChangesNothing(t *testing.T) {
	a := authority.New(t)
	certificate, key := a.Issue(t, "server", "127.0.0.1", time.Time{})
	s, err := Load(Files{certificate, key, a.Path})
	check(t, err)
	address := echoing(t, s)
	check(t, os.WriteFile(key, nil, 0o600))
	for _, files := range []Files{{certificate, key, a.Path}, {}} {
		if s.Reload(files) == nil {
			t.Errorf("%v was read", files)
		}
	}
	c, err := dial(t, s, address)
	check(t, err)
	echo(t, c)
}

func TestAServerThatBeganWithoutTLSGoesOnSo(t *testing.T) {
	s, err := Load(Files{})
	check(t, err)
	check(t, s.Reload(Files{}))
	a := authority.New(t)
	certificate, key := a.Issue(t, "server", "127.0.0.1", time.Time{})
	if err := s.Reload(Files{certificate, key, a.Path}); !errors.Is(err, ErrRestart) {
		t.Error(err)
	}
}

func TestAClientWithoutTLSLearnsIt(t *testing.T) {
	address := echoing(t, newStore(t, authority.New(t), "127.0.0.1", time.Time{}))
	c, err := net.Dial("tcp", address)
	check(t, err)
	defer c.Close()
	_, err = io.WriteString(c, "DELETE /d/0/a HTTP/1.1\r\nHost: h\r\n\r\n")
	check(t, err)
	answer, err := http.ReadResponse(bufio.NewReader(c), nil)
	check(t, err)
	text, err := io.ReadAll(answer.Body)
	if answer.StatusCode != http.StatusServiceUnavailable || string(text) != "This server speaks TLS (https).\n" || err != nil {
		t.Errorf("%d %q %v", answer.StatusCode, text, err)
	}
}
