package server

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"testing"
	"time"
)

// net/http would wait five seconds for connections that were never used, each time; a busy machine is late only sometimes.
func TestShutdownWithUnusedConnection(t *testing.T) {
	for range 5 {
		if shutdownWithUnusedConnection(t) < 4*time.Second {
			return
		}
	}
	t.Error("Shutdown waits for a connection that was never used")
}

func shutdownWithUnusedConnection(t *testing.T) time.Duration {
	t.Helper()
	f := newFixture(t)
	connection, err := net.Dial("tcp", f.address)
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close()
	f.expect(f.do("GET", "/healthcheck", ""), 200, "one on a later connection, so that the first has been accepted")
	start := time.Now()
	if err := f.server.Shutdown(context.Background()); err != nil {
		t.Error(err)
	}
	took := time.Since(start)
	if _, err := bufio.NewReader(connection).ReadByte(); !errors.Is(err, io.EOF) {
		t.Error(err)
	}
	return took
}
