package auth

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"unicode/utf8"
)

// SecretCharactersMin is the length that a secret must have: key ids and proofs let an attacker test guesses.
const SecretCharactersMin = 32

// secretsMax: the secret that is used, and the one that replaces it.
const secretsMax = 2

// None stands in place of a secret for a server that accepts every peer.
const None = "none"

// The labels are on the wire: each kind of proof has its own, so no proof serves as another.
const (
	labelKeyID     = "martlet-grid-1 key id"
	labelConnector = "martlet-grid-1 connector"
	labelAcceptor  = "martlet-grid-1 acceptor"
	labelClient    = "martlet-grid-1 http client"
	labelServer    = "martlet-grid-1 http server"
)

// Sizes on the wire, in bytes.
const (
	KeyIDSize = 8
	ProofSize = sha256.Size
)

// Nonce is what a side chose at random for one handshake.
type Nonce [32]byte

// NewNonce returns random bytes.
func NewNonce() (n Nonce) {
	rand.Read(n[:]) // never fails
	return n
}

// Secret is a secret of the cluster with the name that it has on the wire.
type Secret struct {
	key   []byte
	keyID [KeyIDSize]byte
}

func newSecret(text string) (Secret, error) {
	if n := utf8.RuneCountInString(text); n < SecretCharactersMin {
		return Secret{}, fmt.Errorf("a secret has %d characters, but %d are needed", n, SecretCharactersMin)
	}
	s := Secret{key: []byte(text)}
	copy(s.keyID[:], s.sum(labelKeyID))
	return s, nil
}

// String is the key id in hex.
func (s Secret) String() string { return hex.EncodeToString(s.keyID[:]) }

// GoString hides the secret from %#v.
func (s Secret) GoString() string { return s.String() }

// KeyID returns the first 8 bytes of a MAC of the secret.
func (s Secret) KeyID() []byte { return s.keyID[:] }

// ConnectorProof returns what the connector sends.
func (s Secret) ConnectorProof(acceptor, connector Nonce) []byte {
	return s.sum(labelConnector, acceptor[:], connector[:])
}

// AcceptorProof returns what the acceptor sends.
func (s Secret) AcceptorProof(acceptor, connector Nonce) []byte {
	return s.sum(labelAcceptor, acceptor[:], connector[:])
}

// ClientProof returns what a client sends to prove itself on a connection of plain HTTP.
func (s Secret) ClientProof(server, client Nonce) []byte {
	return s.sum(labelClient, server[:], client[:])
}

// ServerProof returns what the server answers then.
func (s Secret) ServerProof(server, client Nonce) []byte {
	return s.sum(labelServer, server[:], client[:])
}

// IsEqual compares two proofs in constant time.
func IsEqual(a, b []byte) bool { return hmac.Equal(a, b) }

func (s Secret) sum(label string, parts ...[]byte) []byte {
	mac := hmac.New(sha256.New, s.key)
	mac.Write([]byte(label))
	for _, part := range parts {
		mac.Write(part)
	}
	return mac.Sum(nil)
}

// Secrets are the secrets that a server has: one, two while the secret is changed, or none. Safe for concurrent use;
// Set may be called while connections are made. Connections that are open stay open.
type Secrets struct {
	current atomic.Pointer[[]Secret]
}

// NewSecrets returns these secrets, the preferred one first. Errors: those of Set.
func NewSecrets(texts ...string) (*Secrets, error) {
	s := &Secrets{}
	return s, s.Set(texts...)
}

// Set replaces the secrets. None alone says that there is no secret. It fails, and changes nothing, if a secret is too
// short, if there are more than two or none at all, or if both are equal.
func (s *Secrets) Set(texts ...string) error {
	if slices.Equal(texts, []string{None}) {
		s.current.Store(&[]Secret{})
		return nil
	}
	if len(texts) == 0 || len(texts) > secretsMax {
		return fmt.Errorf("there are %d secrets; one is needed, two are allowed, %q stands for no secret", len(texts), None)
	}
	secrets := make([]Secret, len(texts))
	for i, text := range texts {
		var err error
		if secrets[i], err = newSecret(text); err != nil {
			return err
		}
	}
	if len(texts) == secretsMax && texts[0] == texts[1] {
		return errors.New("both secrets are equal")
	}
	s.current.Store(&secrets)
	return nil
}

// All returns the secrets, the preferred one first; none if the server has none. The caller may not change them.
func (s *Secrets) All() []Secret { return *s.current.Load() }

// Use makes the secrets those that another has now.
func (s *Secrets) Use(other *Secrets) { s.current.Store(other.current.Load()) }

// Find returns the first of the secrets that one of the key ids names.
func Find(secrets []Secret, keyIDs [][]byte) (Secret, bool) {
	for _, secret := range secrets {
		for _, id := range keyIDs {
			if string(id) == string(secret.keyID[:]) {
				return secret, true
			}
		}
	}
	return Secret{}, false
}

// KeyIDs returns those of the secrets, in their order.
func KeyIDs(secrets []Secret) [][]byte {
	ids := make([][]byte, len(secrets))
	for i := range secrets {
		ids[i] = secrets[i].KeyID()
	}
	return ids
}
