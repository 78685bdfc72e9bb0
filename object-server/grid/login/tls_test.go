package login

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"martlet/object-server/grid/certs"
	"martlet/object-server/proof/authority"
)

// Servers of OpenStack Swift speak no TLS; all others must.
func TestOnlyPlainAddressesAreAskedWithoutTLS(t *testing.T) {
	a := authority.New(t)
	certificate, key := a.Issue(t, "server", "127.0.0.1", time.Time{})
	store, err := certs.Load(certs.Files{Certificate: certificate, Key: key, Authorities: a.Path})
	if err != nil {
		t.Fatal(err)
	}
	dial := func(l net.Listener, plain ...netip.Prefix) (net.Conn, error) {
		t.Helper()
		t.Cleanup(func() { l.Close() })
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				go func() {
					defer c.Close()
					_, _ = c.Read(make([]byte, 1)) // the handshake, if it speaks TLS
					_, _ = c.Write([]byte("HTTP/1.0 400 Bad Request\r\n\r\n"))
				}()
			}
		}()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		c, err := (&Dialer{TLS: store, Plain: plain}).DialContext(ctx, "tcp", l.Addr().String())
		if err == nil {
			t.Cleanup(func() { c.Close() })
		}
		return c, err
	}
	listen := func() net.Listener {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	c, err := dial(store.Listen(listen()))
	if _, isSecure := c.(*tls.Conn); err != nil || !isSecure {
		t.Error("to a server with TLS:", c, err)
	}
	if _, err := dial(listen()); err == nil || !strings.Contains(err.Error(), "first record does not look like a TLS handshake") {
		t.Error("to a server without TLS:", err)
	}
	c, err = dial(listen(), netip.MustParsePrefix("127.0.0.0/8"))
	if _, isPlain := c.(*net.TCPConn); err != nil || !isPlain {
		t.Error("to a server of OpenStack Swift:", c, err)
	}
}

// net/http dials on after the end of the request.
func TestAServerThatHangsIsLeftAfterSomeTime(t *testing.T) {
	a := authority.New(t)
	certificate, key := a.Issue(t, "server", "127.0.0.1", time.Time{})
	store, err := certs.Load(certs.Files{Certificate: certificate, Key: key, Authorities: a.Path})
	check(t, err)
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	defer silent.Close()
	for name, dialer := range map[string]*Dialer{"TLS": {TLS: store}, "login": {Secrets: secrets(t, secretOne)}} {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		dialer.within = 100 * time.Millisecond
		_, err := dialer.DialContext(ctx, "tcp", silent.Addr().String())
		if !errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil {
			t.Error(name, err, ctx.Err())
		}
		cancel()
		server, err := silent.Accept()
		check(t, err)
		if _, err := io.Copy(io.Discard, server); err != nil { // until the client has closed the connection
			t.Error(name, err)
		}
	}
}
