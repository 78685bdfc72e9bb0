package certs

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"sync/atomic"
)

// Files are the names of files in PEM.
type Files struct {
	Certificate string // the chain, the server's own certificate first
	Key         string // its private key, not encrypted
	Authorities string // the certificates of those that sign the servers' certificates
}

// Store has the contents of the files. Safe for concurrent use.
type Store struct {
	current atomic.Pointer[contents]
}

type contents struct {
	certificate tls.Certificate
	authorities *x509.CertPool
}

// Load reads the files. Without their names there is no TLS, and no Store: nil.
func Load(files Files) (*Store, error) {
	if files == (Files{}) {
		return nil, nil
	}
	s := &Store{}
	if err := s.Reload(files); err != nil {
		return nil, err
	}
	return s, nil
}

// ErrRestart says that a server cannot begin or end to speak TLS while it runs.
var ErrRestart = errors.New("TLS begins and ends with a restart")

// Reload reads the files for connections that begin from now on. After an error the Store stays as it was. A nil Store stays
// without TLS.
func (s *Store) Reload(files Files) error {
	if (s == nil) != (files == Files{}) {
		return ErrRestart
	}
	if s == nil {
		return nil
	}
	var next contents
	for _, name := range []string{files.Certificate, files.Key} { // LoadX509KeyPair's error names none
		if _, err := os.ReadFile(name); err != nil {
			return err
		}
	}
	var err error
	if next.certificate, err = tls.LoadX509KeyPair(files.Certificate, files.Key); err != nil {
		return fmt.Errorf("the certificate %s and the key %s: %w", files.Certificate, files.Key, err)
	}
	authorities, err := os.ReadFile(files.Authorities)
	if err != nil {
		return err
	}
	next.authorities = x509.NewCertPool()
	if !next.authorities.AppendCertsFromPEM(authorities) {
		return errors.New(files.Authorities + " has no certificate in PEM")
	}
	s.current.Store(&next)
	return nil
}

// common is what both sides have in common. Without dynamic sizes a small message is one record, written at once. Nothing
// but HTTP/1.1 is spoken, so bytes that are meant for another protocol are refused.
func common() *tls.Config {
	return &tls.Config{
		MinVersion:                  tls.VersionTLS13,
		NextProtos:                  []string{"http/1.1"},
		DynamicRecordSizingDisabled: true,
		SessionTicketsDisabled:      true,
	}
}

// Listen lets all connections of a listener speak TLS. It leaves the handshake to the first read or write of each.
func (s *Store) Listen(plain net.Listener) net.Listener {
	config := common()
	config.GetCertificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
		return &s.current.Load().certificate, nil
	}
	return tls.NewListener(listener{plain}, config)
}

// Client begins TLS on a connection to the address, host:port; it returns after the handshake. The host must be in the
// certificate of the server. After an error the connection is closed.
func (s *Store) Client(ctx context.Context, conn net.Conn, address string) (net.Conn, error) {
	config := common()
	config.RootCAs = s.current.Load().authorities
	var err error
	if config.ServerName, _, err = net.SplitHostPort(address); err == nil {
		secure := tls.Client(conn, config)
		if err = secure.HandshakeContext(ctx); err == nil {
			return secure, nil
		}
	}
	_ = conn.Close() // at the end of ctx it is closed already
	return nil, fmt.Errorf("no TLS with %s: %w", address, err)
}
