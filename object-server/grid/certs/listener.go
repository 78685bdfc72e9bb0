package certs

import (
	"errors"
	"io"
	"net"
)

// toPlain answers a client that speaks no TLS with an error of the server. net/http would say 400, and a proxy would take
// that for the answer to its request.
const toPlain = "HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/plain\r\nConnection: close\r\n" +
	"Content-Length: 32\r\n\r\nThis server speaks TLS (https).\n"

// errPlain ends the handshake with a client that speaks no TLS.
var errPlain = errors.New("the client speaks no TLS")

// handshakeRecord is the first byte that a client sends (RFC 8446, 5.1).
const handshakeRecord = 22

type listener struct{ net.Listener }

// Accept implements net.Listener.
func (l listener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &guarded{Conn: conn}, nil
}

// guarded is a connection that must begin with TLS.
type guarded struct {
	net.Conn
	isOpen bool // a byte of TLS has come
}

// Read implements net.Conn.
func (c *guarded) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n > 0 && !c.isOpen {
		if p[0] != handshakeRecord {
			_, _ = io.WriteString(c.Conn, toPlain) // the client may be gone
			return 0, errPlain
		}
		c.isOpen = true
	}
	return n, err
}

// NetConn is the connection inside, as that of tls.Conn.
func (c *guarded) NetConn() net.Conn { return c.Conn }
