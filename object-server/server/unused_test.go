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

// net/http waits five seconds for connections that were never used.
func TestShutdownWithUnusedConnection(t *testing.T) {
	f := newFixture(t)
	connection, err := net.Dial("tcp", f.address)
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close()
	f.expect(f.do("GET", "/healthcheck", ""), 200, "one on a later connection, so that the first has been accepted")
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	if err := f.server.Shutdown(ctx); err != nil {
		t.Error(err)
	}
	if _, err := bufio.NewReader(connection).ReadByte(); !errors.Is(err, io.EOF) {
		t.Error(err)
	}
}
