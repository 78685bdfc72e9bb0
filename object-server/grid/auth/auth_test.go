package auth

import (
	"encoding/hex"
	"fmt"
	"strings"
	"testing"

	"martlet/object-server/proof"
)

const golden = "../../../test/golden/grid/handshake.json"

type proofs struct {
	Secret         string `json:"secret"`
	AcceptorNonce  string `json:"acceptor_nonce"`
	ConnectorNonce string `json:"connector_nonce"`
	KeyID          string `json:"key_id"`
	ConnectorProof string `json:"connector_proof"`
	AcceptorProof  string `json:"acceptor_proof"`
}

var (
	secretOne = strings.Repeat("0123456789abcdef", 2)
	secretTwo = "correct horse battery staple, zwölf Boxkämpfer"
	long      = strings.Repeat("long secret ", 20)
)

func nonceFrom(first byte) (n Nonce) {
	for i := range n {
		n[i] = first + byte(i)
	}
	return n
}

func secrets(t *testing.T, texts ...string) *Secrets {
	t.Helper()
	s, err := NewSecrets(texts...)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestGoldenHandshake(t *testing.T) {
	var list []proofs
	acceptor, connector := nonceFrom(0x10), nonceFrom(0xe0)
	for _, text := range []string{secretOne, secretTwo, long} {
		s := secrets(t, text).All()[0]
		list = append(list, proofs{
			text, hex.EncodeToString(acceptor[:]), hex.EncodeToString(connector[:]), hex.EncodeToString(s.KeyID()),
			hex.EncodeToString(s.ConnectorProof(acceptor, connector)), hex.EncodeToString(s.AcceptorProof(acceptor, connector)),
		})
	}
	proof.GoldenJSON(t, golden, list)
}

func TestNoProofServesAsAnother(t *testing.T) {
	a, b := nonceFrom(1), nonceFrom(2)
	one, two := secrets(t, secretOne).All()[0], secrets(t, secretTwo).All()[0]
	seen := map[string]string{}
	for name, proof := range map[string][]byte{
		"connector": one.ConnectorProof(a, b), "acceptor": one.AcceptorProof(a, b), "other secret": two.ConnectorProof(a, b),
		"nonces the other way": one.ConnectorProof(b, a), "one nonce": one.ConnectorProof(a, a), "id": one.sum(labelKeyID),
		"client": one.ClientProof(a, b), "server": one.ServerProof(a, b),
	} {
		if other, is := seen[string(proof)]; is {
			t.Errorf("%s has the proof of %s", name, other)
		}
		seen[string(proof)] = name
	}
}

func TestSecretsAreChecked(t *testing.T) {
	for _, texts := range [][]string{
		{}, {""}, {secretOne[1:]}, {secretOne, "short"}, {secretOne, secretOne}, {secretOne, secretTwo, long}, {None, secretOne},
		{strings.Repeat("ä", SecretCharactersMin-1)}, // 62 bytes
	} {
		if _, err := NewSecrets(texts...); err == nil {
			t.Errorf("%q is accepted", texts)
		} else if strings.Contains(err.Error(), secretOne) {
			t.Errorf("the secret is in %q", err)
		}
	}
	if ids := KeyIDs(secrets(t, None).All()); len(ids) != 0 {
		t.Error("none has key ids", ids)
	}
}

func TestRotationKeepsTheOldSecretUntilItIsRemoved(t *testing.T) {
	s := secrets(t, secretOne)
	old := KeyIDs(s.All())
	if err := s.Set(secretTwo, secretOne); err != nil {
		t.Fatal(err)
	}
	if found, ok := Find(s.All(), old); !ok || found.String() != hex.EncodeToString(old[0]) {
		t.Error("the old secret is not accepted while there are two")
	}
	if found, _ := Find(s.All(), append(old, KeyIDs(s.All())[0])); found.String() != s.All()[0].String() {
		t.Error("the preferred secret is the first one of ours")
	}
	if err := s.Set(secretTwo); err != nil {
		t.Fatal(err)
	}
	if _, ok := Find(s.All(), old); ok {
		t.Error("the old secret is accepted after its end")
	}
	if err := s.Set("short"); err == nil || len(s.All()) != 1 {
		t.Error("a wrong secret changes something", err)
	}
}

func TestSecretsAreNotPrinted(t *testing.T) {
	s := secrets(t, secretOne).All()[0]
	for _, format := range []string{"%v", "%+v", "%#v", "%s"} {
		if text := fmt.Sprintf(format, s); strings.Contains(text, "0123") || strings.Contains(text, fmt.Sprint([]byte("0123"))) {
			t.Errorf("%s prints %s", format, text)
		}
	}
}

const goldenLogin = "../../../test/golden/grid/http_login.json"

// loginProofs are those of plain HTTP.
type loginProofs struct {
	Secret      string `json:"secret"`
	ServerNonce string `json:"server_nonce"`
	ClientNonce string `json:"client_nonce"`
	KeyID       string `json:"key_id"`
	ClientProof string `json:"client_proof"`
	ServerProof string `json:"server_proof"`
}

func TestGoldenLogin(t *testing.T) {
	var list []loginProofs
	server, client := nonceFrom(0x10), nonceFrom(0xe0)
	for _, text := range []string{secretOne, secretTwo, long} {
		s := secrets(t, text).All()[0]
		list = append(list, loginProofs{
			text, hex.EncodeToString(server[:]), hex.EncodeToString(client[:]), s.String(),
			hex.EncodeToString(s.ClientProof(server, client)), hex.EncodeToString(s.ServerProof(server, client)),
		})
	}
	proof.GoldenJSON(t, goldenLogin, list)
}
