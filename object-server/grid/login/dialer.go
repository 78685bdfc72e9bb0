package login

import (
	"bufio"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"martlet/object-server/grid/auth"
	"martlet/object-server/grid/certs"
)

// ErrRefused says that one side refused the other.
var ErrRefused = errors.New("the login was refused")

// loginTimeout bounds the handshake of TLS and the login together: net/http dials on after the end of the request.
const loginTimeout = 10 * time.Second

// answerMax bounds the answer to a login, in bytes.
const answerMax = 64 << 10

// Dialer makes connections on which both sides have proved themselves. Without a secret there is nothing to prove.
type Dialer struct {
	Secrets *auth.Secrets  // nil: no proof
	TLS     *certs.Store   // nil: no TLS
	Plain   []netip.Prefix // servers at these addresses are asked without TLS and without a proof
	Base    net.Dialer

	within time.Duration // 0: loginTimeout
}

// DialContext connects to a server; http.Transport calls it. Errors: those of net.Dialer and of TLS, and ErrRefused.
func (d *Dialer) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := d.Base.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	if to, err := netip.ParseAddrPort(conn.RemoteAddr().String()); err == nil && IsPlain(d.Plain, to.Addr()) {
		return conn, nil
	}
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(d.within, loginTimeout))
	defer cancel()
	if d.TLS != nil {
		if conn, err = d.TLS.Client(ctx, conn, address); err != nil {
			return nil, err
		}
	}
	var secrets []auth.Secret
	if d.Secrets != nil {
		secrets = d.Secrets.All()
	}
	if len(secrets) == 0 {
		return conn, nil
	}
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	if err := logIn(conn, address, secrets); err != nil || !stop() {
		return nil, errors.Join(err, ctx.Err(), conn.Close())
	}
	return conn, nil
}

// logIn proves each side to the other.
func logIn(conn net.Conn, host string, secrets []auth.Secret) error {
	reader := bufio.NewReader(io.LimitReader(conn, answerMax))
	challenge, err := ask(conn, reader, host, "")
	if err != nil {
		return err
	}
	theirs, err := readNonce(challenge.Get(nonceHeader))
	if err != nil {
		return fmt.Errorf("%w: the nonce of %s: %w", ErrRefused, host, err)
	}
	secret, ok := auth.Find(secrets, readKeys(challenge.Get(keysHeader)))
	if !ok {
		return fmt.Errorf("%w: %s accepts none of our secrets; see grid_secret in martlet.conf", ErrRefused, host)
	}
	mine := auth.NewNonce()
	welcome, err := ask(conn, reader, host, fmt.Sprintf("%s: %s\r\n%s: %s\r\n%s: %s\r\n",
		nonceHeader, base64.StdEncoding.EncodeToString(mine[:]), keyHeader, secret,
		proofHeader, base64.StdEncoding.EncodeToString(secret.ClientProof(theirs, mine))))
	if err != nil {
		return err
	}
	proof, err := base64.StdEncoding.DecodeString(welcome.Get(proofHeader))
	if err != nil || !auth.IsEqual(proof, secret.ServerProof(theirs, mine)) {
		return fmt.Errorf("%w: the proof of %s is wrong", ErrRefused, host)
	}
	return nil
}

// ask sends one request of a login and returns the headers of its answer.
func ask(conn net.Conn, reader *bufio.Reader, host, headers string) (http.Header, error) {
	if _, err := io.WriteString(conn, "GET "+Path+" HTTP/1.1\r\nHost: "+host+"\r\n"+headers+"\r\n"); err != nil {
		return nil, err
	}
	response, err := http.ReadResponse(reader, nil)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, err
	}
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%w: %s answers %s: %s", ErrRefused, host, response.Status, strings.TrimSpace(string(text)))
	}
	return response.Header, nil
}

func readKeys(text string) (ids [][]byte) {
	for part := range strings.SplitSeq(text, ",") {
		if id, err := hex.DecodeString(strings.TrimSpace(part)); err == nil && len(id) > 0 {
			ids = append(ids, id)
		}
	}
	return ids
}
