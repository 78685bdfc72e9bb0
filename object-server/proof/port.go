package proof

import (
	"fmt"
	"math/rand/v2"
	"net"
	"sync/atomic"
	"testing"
)

// lastPort counts on from a random port, so that no two servers get the same one.
var lastPort = func() *atomic.Int32 {
	var port atomic.Int32
	port.Store(rand.Int32N(20_000))
	return &port
}()

// FreePort finds a port that no outgoing connection gets while the server that has it is down.
func FreePort(t testing.TB) int {
	t.Helper()
	for range 1000 {
		port := 10_000 + int(lastPort.Add(1)%20_000)
		if listener, err := net.Listen("tcp4", fmt.Sprintf("127.0.0.1:%d", port)); err == nil {
			Check(t, listener.Close())
			return port
		}
	}
	t.Fatal("no port is free")
	return 0
}
