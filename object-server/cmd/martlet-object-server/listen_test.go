package main

import (
	"net"
	"testing"

	"martlet/object-server/server/conf"
)

// 0.0.0.0 includes no address of IPv6, as with the account and container server: a filter of one family does not
// protect the other.
func TestListensOnTheFamilyThatIsNamed(t *testing.T) {
	for _, ip := range []string{"0.0.0.0", "127.0.0.1"} {
		listener, err := listen(&conf.Config{BindIP: ip})
		if err != nil {
			t.Fatal(err)
		}
		if address := listener.Addr().(*net.TCPAddr); address.IP.String() != ip {
			t.Errorf("%s: listens on %s", ip, address)
		}
		listener.Close()
	}
}
