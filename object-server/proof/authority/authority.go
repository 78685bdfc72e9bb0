// Package authority makes certificates for tests.
package authority

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Authority signs certificates of servers.
type Authority struct {
	Path        string // its certificate
	folder      string
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// New makes an authority in a folder of its own.
func New(t testing.TB) *Authority {
	t.Helper()
	a := &Authority{folder: t.TempDir()}
	a.Path = filepath.Join(a.folder, "authority.pem")
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: "authority"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	a.key = a.sign(t, template, a.Path)
	return a
}

// sign makes a certificate, and its key. Without a certificate of its own the authority makes that.
func (a *Authority) sign(t testing.TB, template *x509.Certificate, path string) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check(t, err)
	template.SerialNumber, err = rand.Int(rand.Reader, big.NewInt(1<<62))
	check(t, err)
	if template.NotAfter.IsZero() {
		template.NotAfter = time.Now().Add(24 * time.Hour)
	}
	template.NotBefore = template.NotAfter.Add(-48 * time.Hour)
	parent, signer := a.certificate, a.key
	if parent == nil {
		parent, signer = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	check(t, err)
	if a.certificate == nil {
		a.certificate, err = x509.ParseCertificate(der)
		check(t, err)
	}
	check(t, os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))
	return key
}

// Issue makes a certificate for an address, and its key. It replaces the files of one of the same name. A time in the past
// makes it expired; the zero time, valid for a day.
func (a *Authority) Issue(t testing.TB, name, ip string, notAfter time.Time) (certificate, key string) {
	t.Helper()
	certificate, key = filepath.Join(a.folder, name+".crt"), filepath.Join(a.folder, name+".key")
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: name}, IPAddresses: []net.IP{net.ParseIP(ip)}, NotAfter: notAfter,
	}
	private, err := x509.MarshalPKCS8PrivateKey(a.sign(t, template, certificate))
	check(t, err)
	check(t, os.WriteFile(key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}), 0o600))
	return certificate, key
}
