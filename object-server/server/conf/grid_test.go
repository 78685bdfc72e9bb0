package conf

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"martlet/object-server/grid/certs"
)

const (
	salted    = "[swift-hash]\nswift_hash_path_suffix = s\n"
	secretOne = "0123456789abcdef0123456789ABC-+/"
	secretTwo = "ffffffffffffffffffffffffffffffff"
)

func TestReadGrid(t *testing.T) {
	config, err := Read(writeConfig(t, "[DEFAULT]\nswift_dir = DIR\n", salted+"[grid]\ngrid_secret = "+secretOne+
		"\ngrid_secret_previous = "+secretTwo+"\ngrid_plain_http = 10.0.0.7, 10.1.0.0/16,, ::ffff:10.2.0.1, fd00::/8\ngrid_checksum = yes\n"))
	if err != nil {
		t.Fatal(err)
	}
	if got := config.Grid.Secrets.All(); len(got) != 2 || !config.Grid.Checksum {
		t.Errorf("read as %+v", config.Grid)
	}
	want := []netip.Prefix{
		netip.MustParsePrefix("10.0.0.7/32"), netip.MustParsePrefix("10.1.0.0/16"), netip.MustParsePrefix("10.2.0.1/32"),
		netip.MustParsePrefix("fd00::/8"),
	}
	if !slices.Equal(config.Grid.PlainHTTP, want) {
		t.Errorf("plain HTTP from %v", config.Grid.PlainHTTP)
	}
	config, err = Read(writeConfig(t, "[DEFAULT]\nswift_dir = DIR\n", salted+"[grid]\ngrid_secret = none\n"))
	if err != nil || len(config.Grid.Secrets.All()) != 0 || config.Grid.PlainHTTP != nil || config.Grid.Checksum {
		t.Errorf("none: %+v, %v", config, err)
	}
}

func TestTheFilesOfTLS(t *testing.T) {
	config, err := Read(writeConfig(t, "[DEFAULT]\nswift_dir = DIR\n", salted+
		"[grid]\ngrid_secret = none\ngrid_tls_cert = /a b\ngrid_tls_key = /key\ngrid_tls_ca = /ca\n"))
	if err != nil || config.Grid.TLS != (certs.Files{Certificate: "/a b", Key: "/key", Authorities: "/ca"}) {
		t.Errorf("%+v, %v", config, err)
	}
}

func TestGridOptionsAreChecked(t *testing.T) {
	for _, lines := range []string{
		"grid_checksum = no", "grid_secret =", "grid_secret = short", "grid_secret = " + secretOne + "\ngrid_secret_previous = " + secretOne,
		"grid_secret = none\ngrid_secret_previous = " + secretOne, "grid_secret = " + secretOne + "%%", "grid_secret = \"" + secretOne + " " + secretOne,
		"grid_plain_http = example.com", "grid_plain_http = 10.0.0.1/24", "grid_checksum = perhaps",
		"grid_tls_ca = /ca", "grid_tls_cert = /cert\ngrid_tls_key = /key", "grid_tls_cert = /cert\ngrid_tls_ca = /ca", "grid_secrets = " + secretOne,
	} {
		_, err := Read(writeConfig(t, "[DEFAULT]\nswift_dir = DIR\n", salted+"[grid]\n"+lines+"\n"))
		if err == nil {
			t.Errorf("%q is accepted", lines)
		} else if strings.Contains(err.Error(), secretOne) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: the error shows the secret, or has several lines: %v", lines, err)
		}
	}
}
