package login

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"io"
	"log/slog"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"martlet/object-server/grid/auth"
	"martlet/object-server/grid/rarely"
)

// Path is where a client logs in.
const Path = "/grid/login"

// The headers of a login.
const (
	nonceHeader = "X-Grid-Nonce"
	keysHeader  = "X-Grid-Keys"
	keyHeader   = "X-Grid-Key"
	proofHeader = "X-Grid-Proof"
)

// refusedHeader tells a client of ours the refusal of its connection from another 403.
const refusedHeader = "X-Grid-Refused"

// Gate refuses requests on connections without proof. Its exported fields do not change once it is used; safe for
// concurrent use.
type Gate struct {
	Secrets *auth.Secrets
	Log     *slog.Logger
	// IsOpen reports whether a request needs no proof; nil: none.
	IsOpen func(*http.Request) bool

	plain   atomic.Pointer[[]netip.Prefix]
	refused atomic.Int64
	quiet   rarely.Log
}

// SetPlain sets the addresses of clients that need no proof.
func (g *Gate) SetPlain(networks []netip.Prefix) { g.plain.Store(&networks) }

// Refused returns how many requests and logins were refused.
func (g *Gate) Refused() int64 { return g.refused.Load() }

// connection is the state of one connection.
type connection struct {
	mu       sync.Mutex
	nonce    auth.Nonce
	hasNonce bool // nonce was sent and not used yet
	isProved bool
}

type contextKey struct{}

// ConnContext gives a connection its state; http.Server calls it.
func (g *Gate) ConnContext(ctx context.Context) context.Context {
	return context.WithValue(ctx, contextKey{}, &connection{})
}

// ServeHTTP answers a login, a request of Path. Statuses: 200; 400 if a header is malformed or missing; 403 if the proof is wrong, or
// its nonce is not of this connection.
func (g *Gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c, ok := r.Context().Value(contextKey{}).(*connection)
	switch {
	case r.Method != http.MethodGet:
		w.Header().Set("Allow", http.MethodGet)
		answer(w, r, http.StatusMethodNotAllowed, "The method is not allowed for this resource.")
	case !ok:
		g.refuse(w, r, "This connection has no state.")
	case len(r.Header.Values(proofHeader)) == 0:
		g.challenge(w, c)
	default:
		g.check(w, r, c)
	}
}

func (g *Gate) challenge(w http.ResponseWriter, c *connection) {
	c.mu.Lock()
	c.nonce, c.hasNonce = auth.NewNonce(), true
	nonce := c.nonce
	c.mu.Unlock()
	secrets := g.Secrets.All()
	ids := make([]string, len(secrets))
	for i, secret := range secrets {
		ids[i] = secret.String()
	}
	w.Header().Set(nonceHeader, base64.StdEncoding.EncodeToString(nonce[:]))
	w.Header().Set(keysHeader, strings.Join(ids, ","))
	w.Header().Set("Content-Length", "0")
	w.WriteHeader(http.StatusOK)
}

func (g *Gate) check(w http.ResponseWriter, r *http.Request, c *connection) {
	client, nonceErr := readNonce(r.Header.Get(nonceHeader))
	id, idErr := hex.DecodeString(r.Header.Get(keyHeader))
	proof, proofErr := base64.StdEncoding.DecodeString(r.Header.Get(proofHeader))
	hasSizes := len(id) == auth.KeyIDSize && len(proof) == auth.ProofSize
	if nonceErr != nil || idErr != nil || proofErr != nil || !hasSizes {
		answer(w, r, http.StatusBadRequest, "A header of the login is malformed.")
		return
	}
	c.mu.Lock()
	nonce, hasNonce := c.nonce, c.hasNonce
	c.hasNonce = false
	c.mu.Unlock()
	secret, isKnown := auth.Find(g.Secrets.All(), [][]byte{id})
	switch {
	case !hasNonce:
		g.refuse(w, r, "The proof needs a nonce of this connection.")
	case !isKnown:
		g.refuse(w, r, "The server does not have the secret of the client.")
	case !auth.IsEqual(proof, secret.ClientProof(nonce, client)):
		g.refuse(w, r, "The proof is wrong.")
	default:
		c.mu.Lock()
		c.isProved = true
		c.mu.Unlock()
		w.Header().Set(proofHeader, base64.StdEncoding.EncodeToString(secret.ServerProof(nonce, client)))
		w.Header().Set("Content-Length", "0")
		w.WriteHeader(http.StatusOK)
	}
}

// Admit reports whether a request may be served; it has answered those that may not with 403.
func (g *Gate) Admit(w http.ResponseWriter, r *http.Request) bool {
	if len(g.Secrets.All()) == 0 || g.IsOpen != nil && g.IsOpen(r) {
		return true
	}
	if c, ok := r.Context().Value(contextKey{}).(*connection); ok {
		c.mu.Lock()
		isProved := c.isProved
		c.mu.Unlock()
		if isProved {
			return true
		}
	}
	if g.isPlain(r.RemoteAddr) {
		return true
	}
	w.Header().Set(refusedHeader, "unproved")
	g.refuse(w, r, "This connection has no proof of the cluster's secret; see grid_secret in martlet.conf.")
	return false
}

func (g *Gate) isPlain(remote string) bool {
	networks := g.plain.Load()
	if networks == nil || len(*networks) == 0 {
		return false
	}
	from, err := netip.ParseAddrPort(remote)
	return err == nil && IsPlain(*networks, from.Addr())
}

// IsPlain reports whether one of the networks has an address.
func IsPlain(networks []netip.Prefix, address netip.Addr) bool {
	address = address.Unmap().WithZone("")
	for _, network := range networks {
		if network.Contains(address) {
			return true
		}
	}
	return false
}

// refuse answers 403, closes the connection, and counts that.
func (g *Gate) refuse(w http.ResponseWriter, r *http.Request, sentence string) {
	g.refused.Add(1)
	g.quiet.Warn(g.Log, time.Now(), "refused", "request refused", "remote", r.RemoteAddr, "method", r.Method,
		"path", r.URL.Path, "reason", sentence)
	answer(w, r, http.StatusForbidden, sentence)
}

func answer(w http.ResponseWriter, r *http.Request, status int, sentence string) {
	w.Header().Set("Connection", "close")
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Content-Length", strconv.Itoa(len(sentence)+1))
	w.WriteHeader(status)
	if r.Method != http.MethodHead {
		_, _ = io.WriteString(w, sentence+"\n") // fails only if the client has gone
	}
}
