package grid

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"martlet/object-server/grid/auth"
	"martlet/object-server/grid/certs"
	"martlet/object-server/proof"
)

var (
	secretOne = strings.Repeat("0123456789abcdef", 2)
	secretTwo = strings.Repeat("fedcba9876543210", 2)
)

// longest is how long a test waits for what must come.
const longest = time.Minute

var check = proof.Check

func newSecrets(t testing.TB, texts ...string) *auth.Secrets {
	t.Helper()
	s, err := auth.NewSecrets(texts...)
	check(t, err)
	return s
}

// node is a server with a grid.
type node struct {
	*Grid
	address string
	log     *proof.Log
	server  *http.Server
	rawID   uint64
}

// echo answers with the payload.
func echo(_ context.Context, payload, answer []byte) ([]byte, error) {
	return append(answer, payload...), nil
}

func testMux() *Mux {
	m := &Mux{}
	m.HandleRaw("echo", echo)
	return m
}

// nodesSpeak lets new nodes speak TLS; nil: they do not. Tests that set it are not parallel.
var nodesSpeak *certs.Store

// newNode starts a server on 127.0.0.1; it stops with the test.
func newNode(t testing.TB, config Config) *node {
	t.Helper()
	n := &node{log: &proof.Log{}}
	if config.Secrets == nil {
		config.Secrets = newSecrets(t, secretOne)
	}
	if config.Mux == nil {
		config.Mux = testMux()
	}
	if nodesSpeak != nil && config.Dial == nil {
		store := nodesSpeak
		config.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
			if err != nil {
				return nil, err
			}
			return store.Client(ctx, conn, address)
		}
	}
	config.Log = slog.New(slog.NewTextHandler(n.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	var err error
	n.Grid, err = New(config)
	check(t, err)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	n.address = listener.Addr().String()
	if nodesSpeak != nil {
		listener = nodesSpeak.Listen(listener)
	}
	mux := http.NewServeMux()
	mux.Handle("GET /grid", n.Grid)
	n.server = &http.Server{Handler: mux}
	go n.server.Serve(listener)
	t.Cleanup(func() {
		n.server.Close()
		n.Close()
	})
	return n
}

// eventually waits until the condition holds; the state that it reads changes by itself.
func eventually(t testing.TB, what string, condition func() bool) {
	t.Helper()
	for end := time.Now().Add(longest); !condition(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("never: ", what)
		}
	}
}

func background(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), longest)
	t.Cleanup(cancel)
	return ctx
}

// onlyConnection waits until the node uses a connection: a connector may be ready before it.
func (n *node) onlyConnection(t testing.TB) (c *Conn) {
	t.Helper()
	eventually(t, "a connection", func() bool {
		all := n.Connections()
		if len(all) == 1 {
			c = all[0]
		}
		return len(all) == 1
	})
	return c
}
