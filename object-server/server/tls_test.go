package server

import (
	"net"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"martlet/object-server/grid/certs"
	"martlet/object-server/proof/authority"
)

func TestTheBoundOfUnsentBytesReachesThroughTLS(t *testing.T) {
	a := authority.New(t)
	certificate, key := a.Issue(t, "server", "127.0.0.1", time.Time{})
	store, err := certs.Load(certs.Files{Certificate: certificate, Key: key, Authorities: a.Path})
	if err != nil {
		t.Fatal(err)
	}
	plain, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Close()
	client, err := net.Dial("tcp", plain.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	secure, err := store.Listen(plain).Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer secure.Close()
	boundUnsent(secure)
	inside := secure.(interface{ NetConn() net.Conn }).NetConn().(interface{ NetConn() net.Conn }).NetConn()
	raw, err := inside.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var bound int
	if err := raw.Control(func(fd uintptr) {
		bound, err = unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_NOTSENT_LOWAT)
	}); err != nil || bound != unsentMax {
		t.Error(bound, err)
	}
}
