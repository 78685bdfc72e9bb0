package conf

import (
	"fmt"
	"net/netip"
	"strings"

	"gopkg.in/ini.v1"

	"martlet/object-server/grid/auth"
	"martlet/object-server/grid/certs"
	"martlet/object-server/server/option"
)

// Grid is section [grid] of martlet.conf: how the servers of the cluster recognize each other.
type Grid struct {
	Secrets   *auth.Secrets
	PlainHTTP []netip.Prefix // addresses of servers that speak HTTP without a proof
	Checksum  bool           // messages of the grid have checksums
	TLS       certs.Files    // no names: connections have no TLS
}

const gridSection = "grid"

func (g *Grid) read(section *ini.Section) error {
	secret, previous := "", ""
	options := []option.Option{
		option.New(gridSection, "grid_plain_http", "", networks(&g.PlainHTTP)),
		option.New(gridSection, "grid_checksum", "no", option.Boolean(&g.Checksum)),
		option.New(gridSection, "grid_tls_cert", "", fileName(&g.TLS.Certificate)),
		option.New(gridSection, "grid_tls_key", "", fileName(&g.TLS.Key)),
		option.New(gridSection, "grid_tls_ca", "", fileName(&g.TLS.Authorities)),
	}
	if err := option.SetDefaults(options); err != nil {
		return err
	}
	for _, key := range section.Keys() {
		var err error
		switch option.Name(key) { // errors of options show values
		case "grid_secret":
			secret, err = readSecret(key)
		case "grid_secret_previous":
			previous, err = readSecret(key)
		default:
			err = option.Set(options, gridSection, key)
		}
		if err != nil {
			return fmt.Errorf("martlet.conf: %w", err)
		}
	}
	if secret == "" {
		return fmt.Errorf("martlet.conf: [%s] grid_secret must be set: at least %d characters, the same on all servers, "+
			"for example from \"openssl rand -hex 32\"; or %q", gridSection, auth.SecretCharactersMin, auth.None)
	}
	texts := []string{secret}
	if previous != "" {
		texts = append(texts, previous)
	}
	var err error
	if g.Secrets, err = auth.NewSecrets(texts...); err != nil {
		return fmt.Errorf("martlet.conf: [%s] grid_secret, grid_secret_previous: %w", gridSection, err)
	}
	if hasAll := g.TLS.Certificate != "" && g.TLS.Key != "" && g.TLS.Authorities != ""; !hasAll && g.TLS != (certs.Files{}) {
		return fmt.Errorf("martlet.conf: [%s] a storage server needs all of grid_tls_cert, grid_tls_key and grid_tls_ca, or none", gridSection)
	}
	return nil
}

// fileName stores the name of a file; it may be empty.
func fileName(into *string) func(string) error {
	return func(value string) error {
		*into = value
		return nil
	}
}

// secretOthers are what a secret may have besides letters and digits: every reader of ini files takes these as they stand.
const secretOthers = "+-./:=@_"

func readSecret(key *ini.Key) (string, error) {
	secret := strings.TrimSpace(key.Value())
	for i := range len(secret) {
		c := secret[i]
		isPlain := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
		if !isPlain && strings.IndexByte(secretOthers, c) < 0 {
			return "", fmt.Errorf("[%s] %s may have ASCII letters, digits and %s alone", gridSection, option.Name(key), secretOthers)
		}
	}
	return secret, nil
}

// networks stores addresses and networks, separated by commas.
func networks(into *[]netip.Prefix) func(string) error {
	return func(value string) error {
		*into = nil
		for part := range strings.SplitSeq(value, ",") {
			part = strings.TrimSpace(part)
			if part == "" {
				continue
			}
			network, err := netip.ParsePrefix(part)
			if address, other := netip.ParseAddr(part); other == nil {
				address = address.Unmap()
				network, err = netip.PrefixFrom(address, address.BitLen()), nil
			}
			if err != nil || network != network.Masked() {
				return fmt.Errorf("%q is neither an address nor a network such as 10.0.0.0/24", part)
			}
			*into = append(*into, network)
		}
		return nil
	}
}
