package login

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"martlet/object-server/grid/auth"
	"martlet/object-server/proof"
)

var (
	secretOne = strings.Repeat("0123456789abcdef", 2)
	secretTwo = strings.Repeat("fedcba9876543210", 2)
)

var check = proof.Check

func secrets(t testing.TB, texts ...string) *auth.Secrets {
	t.Helper()
	s, err := auth.NewSecrets(texts...)
	check(t, err)
	return s
}

// host is a server behind a gate; it answers "served".
type host struct {
	*Gate
	address string
	log     *proof.Log
}

func newHost(t *testing.T, texts ...string) *host {
	t.Helper()
	h := &host{log: &proof.Log{}}
	h.Gate = &Gate{Secrets: secrets(t, texts...), Log: slog.New(slog.NewTextHandler(h.log, nil))}
	mux := http.NewServeMux()
	mux.Handle(Path, h.Gate)
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		if h.Admit(w, r) {
			_, _ = io.WriteString(w, "served")
		}
	})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	h.address = listener.Addr().String()
	server := &http.Server{Handler: mux, ConnContext: func(ctx context.Context, _ net.Conn) context.Context { return h.ConnContext(ctx) }}
	go server.Serve(listener)
	t.Cleanup(func() { server.Close() })
	return h
}

// client sends requests over connections that it has proved.
func client(t *testing.T, texts ...string) *http.Client {
	dialer := &Dialer{Secrets: secrets(t, texts...)}
	transport := &http.Transport{DialContext: dialer.DialContext}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

func get(client *http.Client, address string) (int, string, error) {
	response, err := client.Get("http://" + address + "/x")
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	return response.StatusCode, string(text), err
}

// raw is a connection without a client.
type raw struct {
	t *testing.T
	net.Conn
	reader *bufio.Reader
}

func dial(t *testing.T, address string) *raw {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	check(t, err)
	t.Cleanup(func() { conn.Close() })
	check(t, conn.SetDeadline(time.Now().Add(time.Minute)))
	return &raw{t, conn, bufio.NewReader(conn)}
}

func (r *raw) send(request string, headers ...string) *http.Response {
	r.t.Helper()
	text := request + " HTTP/1.1\r\nHost: h\r\n"
	for i := 0; i < len(headers); i += 2 {
		text += headers[i] + ": " + headers[i+1] + "\r\n"
	}
	_, err := io.WriteString(r, text+"\r\n")
	check(r.t, err)
	method, _, _ := strings.Cut(request, " ")
	response, err := http.ReadResponse(r.reader, &http.Request{Method: method})
	check(r.t, err)
	body, err := io.ReadAll(response.Body)
	check(r.t, err)
	response.Body = io.NopCloser(bytes.NewReader(body))
	return response
}

func (r *raw) expect(want int, request string, headers ...string) *http.Response {
	r.t.Helper()
	got := r.send(request, headers...)
	if got.StatusCode != want {
		body, _ := io.ReadAll(got.Body)
		r.t.Fatalf("%s %q: %d %q, want %d", request, headers, got.StatusCode, body, want)
	}
	return got
}

// proofHeaders returns the headers that prove a secret.
func proofHeaders(t *testing.T, text, nonce string) []string {
	t.Helper()
	theirs, err := readNonce(nonce)
	check(t, err)
	secret, mine := secrets(t, text).All()[0], auth.NewNonce()
	return []string{
		nonceHeader, base64.StdEncoding.EncodeToString(mine[:]), keyHeader, secret.String(),
		proofHeader, base64.StdEncoding.EncodeToString(secret.ClientProof(theirs, mine)),
	}
}

func (r *raw) nonce() string {
	r.t.Helper()
	return r.expect(200, "GET "+Path).Header.Get(nonceHeader)
}

// expectEnd waits for the server to close the connection.
func (r *raw) expectEnd() {
	r.t.Helper()
	if _, err := r.reader.ReadByte(); !errors.Is(err, io.EOF) {
		r.t.Errorf("the connection does not end: %v", err)
	}
}

func TestAConnectionIsProvedOnce(t *testing.T) {
	h := newHost(t, secretOne)
	c := client(t, secretOne)
	for range 3 {
		if status, text, err := get(c, h.address); status != 200 || text != "served" || err != nil {
			t.Fatal(status, text, err)
		}
	}
	if h.Refused() != 0 || h.log.String() != "" {
		t.Error("something was refused")
	}
}

func TestWithoutProof(t *testing.T) {
	h := newHost(t, secretOne)
	for i := range 5 {
		r := dial(t, h.address)
		got := r.expect(403, "PUT /sda/1/a/c/o", "Content-Length", "0")
		body, _ := io.ReadAll(got.Body)
		isRefused := got.Header.Get(refusedHeader) == "unproved" && got.Close
		if text := string(body); strings.Count(text, ".") < 1 || !strings.HasSuffix(text, ".conf.\n") || !isRefused {
			t.Errorf("answered with %q %v", text, got.Header)
		}
		r.expectEnd()
		if h.Refused() != int64(i+1) {
			t.Errorf("%d were refused", h.Refused())
		}
	}
	if strings.Count(h.log.String(), "\n") == 5 {
		t.Error("each refusal is logged")
	}
	if got := dial(t, h.address).expect(403, "HEAD /x"); got.Header.Get("Content-Length") == "0" {
		t.Error("HEAD is not answered as GET")
	}
	if _, text, _ := get(client(t, auth.None), h.address); !strings.Contains(text, "grid_secret") {
		t.Errorf("a client without a secret reads %q", text)
	}
}

func TestANonceIsOfOneConnectionAndUsedOnce(t *testing.T) {
	h := newHost(t, secretOne)
	one, other := dial(t, h.address), dial(t, h.address)
	first, second := one.nonce(), other.nonce()
	if first == second {
		t.Fatal("two connections have the same nonce")
	}
	headers := proofHeaders(t, secretOne, first)
	other.expect(403, "GET "+Path, headers...)
	other.expectEnd()
	one.expect(200, "GET "+Path, headers...)
	one.expect(200, "GET /x")
	one.expect(403, "GET "+Path, headers...) // again
	one.expectEnd()
	third := dial(t, h.address)
	third.expect(403, "GET "+Path, headers...) // recorded
	fourth := dial(t, h.address)
	old := fourth.nonce()
	fourth.nonce()
	fourth.expect(403, "GET "+Path, proofHeaders(t, secretOne, old)...)
}

func TestWrongProofs(t *testing.T) {
	h := newHost(t, secretOne)
	r := dial(t, h.address)
	r.expect(403, "GET "+Path, proofHeaders(t, secretTwo, r.nonce())...)
	r.expectEnd()
	r = dial(t, h.address)
	headers := proofHeaders(t, secretTwo, r.nonce())
	headers[3] = secrets(t, secretOne).All()[0].String() // the key id of the other
	r.expect(403, "GET "+Path, headers...)
	for i, wrong := range map[int][]string{1: {"", "short", "AAAA"}, 3: {"", "no hex", "00"}, 5: {"", "!", "AAAA"}} {
		for _, text := range wrong {
			r = dial(t, h.address)
			headers = proofHeaders(t, secretOne, r.nonce())
			headers[i] = text
			r.expect(400, "GET "+Path, headers...)
			r.expectEnd()
		}
	}
	r = dial(t, h.address)
	headers = proofHeaders(t, secretOne, r.nonce())
	r.expect(403, "GET /x", headers...) // not a login
	dial(t, h.address).expect(405, "POST "+Path, "Content-Length", "0")
}

func TestTheSecretCanChange(t *testing.T) {
	h := newHost(t, secretOne)
	kept := client(t, secretOne)
	if status, _, err := get(kept, h.address); status != 200 || err != nil {
		t.Fatal(status, err)
	}
	check(t, h.Secrets.Set(secretTwo, secretOne))
	for _, text := range []string{secretOne, secretTwo} {
		if status, _, err := get(client(t, text), h.address); status != 200 || err != nil {
			t.Error(text, status, err)
		}
	}
	check(t, h.Secrets.Set(secretTwo))
	if status, _, err := get(kept, h.address); status != 200 || err != nil {
		t.Error("a connection that was proved ends:", status, err)
	}
	if _, _, err := get(client(t, secretOne), h.address); !errors.Is(err, ErrRefused) {
		t.Error("the old secret:", err)
	}
}

func TestWithoutASecret(t *testing.T) {
	h := newHost(t, auth.None)
	if status, _, err := get(client(t, auth.None), h.address); status != 200 || err != nil {
		t.Error(status, err)
	}
	got := dial(t, h.address).expect(200, "GET "+Path)
	if keys, ok := got.Header[keysHeader]; !ok || keys[0] != "" {
		t.Errorf("a server without a secret names %q", keys)
	}
	if _, _, err := get(client(t, secretOne), h.address); !errors.Is(err, ErrRefused) {
		t.Error("a client with a secret trusts a server without:", err)
	}
}

func TestPlainAddresses(t *testing.T) {
	h := newHost(t, secretOne)
	h.SetPlain([]netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")})
	dial(t, h.address).expect(200, "GET /x")
	h.SetPlain([]netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")})
	dial(t, h.address).expect(403, "GET /x")
	for address, want := range map[string]bool{"::ffff:10.1.2.3": true, "10.1.2.3": true, "11.1.2.3": false, "fe80::1%eth0": true, "::1": false} {
		networks := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fe80::/10")}
		if got := IsPlain(networks, netip.MustParseAddr(address)); got != want {
			t.Errorf("%s is plain: %v", address, got)
		}
	}
	// Servers at these addresses are asked without a proof.
	swift := &http.Server{Handler: http.NotFoundHandler()}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	go swift.Serve(listener)
	t.Cleanup(func() { swift.Close() })
	dialer := &Dialer{Secrets: secrets(t, secretOne), Plain: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}}
	conn, err := dialer.DialContext(t.Context(), "tcp", listener.Addr().String())
	check(t, err)
	conn.Close()
	dialer.Plain = nil
	if _, err := dialer.DialContext(t.Context(), "tcp", listener.Addr().String()); !errors.Is(err, ErrRefused) {
		t.Error("a server that does not know logins:", err)
	}
}

// A server that does not know the secret gets nothing but the login.
func TestAClientSendsNothingBeforeTheServersProof(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	defer listener.Close()
	received := make(chan string, 1)
	go func() {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		reader := bufio.NewReader(conn)
		nonce := auth.NewNonce()
		for _, headers := range []string{
			fmt.Sprintf("%s: %s\r\n%s: %s\r\n", nonceHeader, base64.StdEncoding.EncodeToString(nonce[:]), keysHeader, secrets(t, secretOne).All()[0]),
			proofHeader + ": " + base64.StdEncoding.EncodeToString(nonce[:]) + "\r\n",
		} {
			if _, err := http.ReadRequest(reader); err != nil {
				break
			}
			_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\n"+headers+"Content-Length: 0\r\n\r\n")
		}
		rest, _ := io.ReadAll(reader)
		received <- string(rest)
	}()
	if _, _, err := get(client(t, secretOne), listener.Addr().String()); !errors.Is(err, ErrRefused) {
		t.Error("an impostor is trusted:", err)
	}
	if rest := <-received; rest != "" {
		t.Errorf("it gets %q", rest)
	}
}

func TestALoginEndsWithItsContext(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0") // never answers
	check(t, err)
	defer listener.Close()
	ctx, cancel := context.WithCancel(t.Context())
	dialer := &Dialer{Secrets: secrets(t, secretOne)}
	go func() {
		conn, err := listener.Accept()
		if err == nil {
			defer conn.Close()
			_, _ = bufio.NewReader(conn).ReadString('\n')
		}
		cancel()
	}()
	if _, err := dialer.DialContext(ctx, "tcp", listener.Addr().String()); err == nil {
		t.Error("a login without an answer succeeds")
	}
}
