package server

import (
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"martlet/object-server/grid/certs"
	"martlet/object-server/proof"
	"martlet/object-server/proof/authority"
)

func TestTheBoundOfUnsentBytesReachesThroughTLS(t *testing.T) {
	a := authority.New(t)
	certificate, key := a.Issue(t, "server", "127.0.0.1", time.Time{})
	store, err := certs.Load(certs.Files{Certificate: certificate, Key: key, Authorities: a.Path})
	proof.Check(t, err)
	plain, err := net.Listen("tcp", "127.0.0.1:0")
	proof.Check(t, err)
	defer plain.Close()
	client, err := net.Dial("tcp", plain.Addr().String())
	proof.Check(t, err)
	defer client.Close()
	secure, err := store.Listen(plain).Accept()
	proof.Check(t, err)
	defer secure.Close()
	boundUnsent(secure)
	inside := secure.(interface{ NetConn() net.Conn }).NetConn().(interface{ NetConn() net.Conn }).NetConn()
	raw, err := inside.(*net.TCPConn).SyscallConn()
	proof.Check(t, err)
	var bound int
	if err := raw.Control(func(fd uintptr) {
		bound, err = unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_NOTSENT_LOWAT)
	}); err != nil || bound != unsentMax {
		t.Error(bound, err)
	}
}

func TestAFloodOfFailedHandshakesIsAFewLines(t *testing.T) {
	var lines proof.Log
	logger := slog.NewLogLogger(newHandshakeLog(slog.NewTextHandler(&lines, nil)), slog.LevelDebug)
	logger.Print("http: URL query contains semicolon") // of debug
	for range 1000 {
		logger.Print("http: TLS handshake error from 127.0.0.1:4711: EOF")
	}
	got := lines.String()
	if n := strings.Count(got, "\n"); n < 1 || n > 100 || !strings.HasPrefix(got, "time=") || strings.Contains(got, "semicolon") {
		t.Errorf("%d lines: %.500s", n, got)
	}
	if !strings.Contains(got, "level=WARN") {
		t.Errorf("%.500s", got)
	}
}
