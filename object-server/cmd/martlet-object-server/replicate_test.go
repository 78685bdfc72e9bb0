package main

import (
	"testing"

	"martlet/object-server/server/conf"
)

// The devices of this host are known by their address, also in its other forms, or by the name of the host.
func TestOwnAddresses(t *testing.T) {
	for _, c := range []struct {
		bound, host string
		want        bool
	}{
		{"127.0.0.1", "127.0.0.1", true},
		{"127.0.0.1", "::ffff:127.0.0.1", true},
		{"127.0.0.1", "localhost", true},
		{"127.0.0.1", "127.0.0.2", false},
		{"127.0.0.1", "name.invalid", false},
		{"127.0.0.1", "", false},
		{"0.0.0.0", "127.0.0.1", true},
		{"0.0.0.0", "localhost", true},
		{"0.0.0.0", "192.0.2.1", false},
		{"::1", "0:0:0:0:0:0:0:1", true},
	} {
		if got := ownAddresses(&conf.Config{BindIP: c.bound})(c.host); got != c.want {
			t.Errorf("bound to %s: %q is own: %v", c.bound, c.host, got)
		}
	}
}
