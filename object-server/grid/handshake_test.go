package grid

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"martlet/object-server/grid/auth"
	"martlet/object-server/grid/frame"
	"martlet/object-server/grid/rarely"

	"github.com/gobwas/ws"
)

// expectRefusal waits until the node has counted one refusal of the kind, none for another, and logged it.
func expectRefusal(t *testing.T, n *node, kind Refusal, sentence string) {
	t.Helper()
	eventually(t, "a refusal of the kind "+string(kind), func() bool { return n.Stats().Refused[kind] == 1 })
	for other, count := range n.Stats().Refused {
		if other != kind && count > 0 {
			t.Errorf("refused as %s, too", other)
		}
	}
	eventually(t, "a sentence", func() bool {
		log := n.log.String()
		return strings.Contains(log, "level=WARN") && strings.Contains(log, sentence) && strings.Contains(log, "peer=127.0.0.1:")
	})
	if n.Stats().Connections != 0 || strings.Contains(n.log.String(), secretOne) {
		t.Error("a refused connection is in use, or the secret in the log:", n.log.String())
	}
}

func nonceOf(f frame.Frame) auth.Nonce { return auth.Nonce(f.Handshake.Nonce) }

func TestTheAcceptorRefuses(t *testing.T) {
	ours, theirs := newSecrets(t, secretOne).All()[0], newSecrets(t, secretTwo).All()[0]
	mine := auth.NewNonce()
	for _, c := range []struct {
		name, sentence string
		kind           Refusal
		send           func(r *raw, nonce auth.Nonce)
	}{
		{"another secret", "does not have the secret", RefusedNoCommonKey, func(r *raw, n auth.Nonce) {
			r.send(frame.AppendProof(nil, mine[:], theirs.KeyID(), theirs.ConnectorProof(n, mine), frame.Defaults()))
		}},
		{"an empty proof", "demands a proof", RefusedNoKey, func(r *raw, _ auth.Nonce) {
			r.send(frame.AppendProof(nil, mine[:], nil, nil, frame.Defaults()))
		}},
		{"an empty proof for a key", "demands a proof", RefusedNoKey, func(r *raw, _ auth.Nonce) {
			r.send(frame.AppendProof(nil, mine[:], ours.KeyID(), nil, frame.Defaults()))
		}},
		{"a proof of another secret", "proof is wrong", RefusedWrongProof, func(r *raw, n auth.Nonce) {
			r.send(frame.AppendProof(nil, mine[:], ours.KeyID(), theirs.ConnectorProof(n, mine), frame.Defaults()))
		}},
		{"an acceptor's proof, reflected", "proof is wrong", RefusedWrongProof, func(r *raw, n auth.Nonce) {
			r.send(frame.AppendProof(nil, mine[:], ours.KeyID(), ours.AcceptorProof(n, mine), frame.Defaults()))
		}},
		{"a proof for another nonce", "proof is wrong", RefusedWrongProof, func(r *raw, _ auth.Nonce) {
			r.send(frame.AppendProof(nil, mine[:], ours.KeyID(), ours.ConnectorProof(mine, mine), frame.Defaults()))
		}},
		{"a request before the proof", "type 10 where type 2 must come", RefusedOutOfOrder, func(r *raw, _ auth.Nonce) {
			r.send(frame.AppendRequest(nil, 1, "echo", 0, 0, nil))
		}},
		{"two frames in a message", "follow a frame of the handshake", RefusedOutOfOrder, func(r *raw, n auth.Nonce) {
			r.send(frame.AppendProof(nil, mine[:], ours.KeyID(), ours.ConnectorProof(n, mine), frame.Defaults()),
				frame.AppendRequest(nil, 1, "echo", 0, 0, nil))
		}},
		{"a large frame", "a message of more than 4096 bytes", RefusedMalformed, func(r *raw, _ auth.Nonce) {
			r.send(frame.AppendRequest(nil, 1, "echo", 0, 0, make([]byte, frame.HandshakeMax)))
		}},
		{"another version", "frame of another version: 2", RefusedMalformed, func(r *raw, _ auth.Nonce) {
			r.send([]byte{0, 0, 0, 4, 2, 0x92, 2, 1})
		}},
		{"a malformed frame", "malformed frame", RefusedMalformed, func(r *raw, _ auth.Nonce) { r.send([]byte{0, 0, 0, 2, 1, 2}) }},
		{"a text message", "a text message", RefusedMalformed, func(r *raw, _ auth.Nonce) {
			check(r.t, r.write(append(make([]byte, headRoom), "text"...), ws.OpText))
		}},
		{"the end", "EOF", RefusedLost, func(r *raw, _ auth.Nonce) { check(r.t, r.write(make([]byte, headRoom), ws.OpClose)) }},
		{"a refusal", "by the peer: \\\"why not\\\"", RefusedByPeer, func(r *raw, _ auth.Nonce) {
			r.send(frame.AppendReason(nil, frame.Refused, "why not"))
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := newNode(t, Config{})
			r := dialRaw(t, n)
			c.send(r, nonceOf(r.expect(frame.Challenge)))
			if c.kind != RefusedByPeer && c.kind != RefusedLost {
				if f := r.expect(frame.Refused); len(f.Reason) == 0 {
					t.Error("without a reason")
				}
			}
			r.expectEnd()
			expectRefusal(t, n, c.kind, c.sentence)
		})
	}
}

func TestAHandshakeCannotBeReplayed(t *testing.T) {
	n := newNode(t, Config{})
	first := dialRaw(t, n)
	challenge := first.expect(frame.Challenge)
	secret, mine := newSecrets(t, secretOne).All()[0], auth.NewNonce()
	proof := frame.AppendProof(nil, mine[:], secret.KeyID(), secret.ConnectorProof(nonceOf(challenge), mine), frame.Defaults())
	first.send(proof)
	first.expect(frame.Welcome)
	first.conn.Close()
	eventually(t, "the end", func() bool { return n.Stats().Connections == 0 })
	second := dialRaw(t, n)
	second.expect(frame.Challenge)
	second.send(proof)
	second.expect(frame.Refused)
	expectRefusal(t, n, RefusedWrongProof, "proof is wrong")
}

func TestTheConnectorRefuses(t *testing.T) {
	nonce := auth.NewNonce()
	ours, theirs := newSecrets(t, secretOne).All()[0], newSecrets(t, secretTwo).All()[0]
	challenge := func(r *raw, ids ...[]byte) { r.send(frame.AppendChallenge(nil, nonce[:], ids, frame.Defaults())) }
	for _, c := range []struct {
		name, sentence string
		kind           Refusal
		serve          func(r *raw)
	}{
		{"an acceptor without a secret", "the acceptor has no secret", RefusedNoKey, func(r *raw) { challenge(r) }},
		{"another secret", "no secret that the acceptor accepts", RefusedNoCommonKey, func(r *raw) { challenge(r, theirs.KeyID()) }},
		{"its own proof, reflected", "acceptor's proof is wrong", RefusedWrongProof, func(r *raw) {
			challenge(r, ours.KeyID())
			r.send(frame.AppendWelcome(nil, bytes.Clone(r.expect(frame.Proof).Handshake.Proof)))
		}},
		{"an empty proof", "acceptor's proof is wrong", RefusedWrongProof, func(r *raw) {
			challenge(r, ours.KeyID())
			r.expect(frame.Proof)
			r.send(frame.AppendWelcome(nil, nil))
		}},
		{"a welcome without a challenge", "type 3 where type 1 must come", RefusedOutOfOrder, func(r *raw) { r.send(frame.AppendWelcome(nil, nil)) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			served := make(chan struct{})
			address := rawAcceptor(t, func(r *raw) {
				defer close(served)
				c.serve(r)
				r.expect(frame.Refused)
				r.expectEnd()
			})
			n := newNode(t, Config{})
			_, err := n.Peer(address).Do(background(t), Request{Name: "echo"}, nil)
			if !errors.Is(err, ErrUnreachable) || !errors.Is(err, ErrRefused) {
				t.Error(err)
			}
			<-served
			expectRefusal(t, n, c.kind, c.sentence)
		})
	}
}

func TestWithoutSecrets(t *testing.T) {
	none := newSecrets(t, auth.None)
	acceptor, connector := newNode(t, Config{Secrets: none}), newNode(t, Config{Secrets: none})
	if _, err := connector.Peer(acceptor.address).Do(background(t), Request{Name: "echo"}, nil); err != nil {
		t.Error(err)
	}
	closed := newNode(t, Config{})
	if _, err := connector.Peer(closed.address).Do(background(t), Request{Name: "echo"}, nil); !errors.Is(err, ErrRefused) {
		t.Error("a connector without a secret reaches an acceptor that has one:", err)
	}
}

func TestAnAcceptorWithoutASecretRefusesAProof(t *testing.T) {
	mine, secret := auth.NewNonce(), newSecrets(t, secretOne).All()[0]
	for name, send := range map[string]func(r *raw, n auth.Nonce){
		"a proof": func(r *raw, n auth.Nonce) {
			r.send(frame.AppendProof(nil, mine[:], secret.KeyID(), secret.ConnectorProof(n, mine), frame.Defaults()))
		},
		"a proof without a key id": func(r *raw, n auth.Nonce) {
			r.send(frame.AppendProof(nil, mine[:], nil, secret.ConnectorProof(n, mine), frame.Defaults()))
		},
		"a key id without a proof": func(r *raw, _ auth.Nonce) {
			r.send(frame.AppendProof(nil, mine[:], secret.KeyID(), nil, frame.Defaults()))
		},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t, Config{Secrets: newSecrets(t, auth.None)})
			r := dialRaw(t, n)
			send(r, nonceOf(r.expect(frame.Challenge)))
			r.expect(frame.Refused)
			r.expectEnd()
			expectRefusal(t, n, RefusedNoKey, "the acceptor has no secret")
		})
	}
}

// unknownFrame is a frame as a later version may have.
var unknownFrame = []byte{0, 0, 0, 6, 1, 0x92, 99, 0xa2, 'h', 'i'}

func TestTheAcceptorIgnoresFramesOfUnknownTypes(t *testing.T) {
	secret, mine := newSecrets(t, secretOne).All()[0], auth.NewNonce()
	for name, send := range map[string]func(r *raw, proof []byte){
		"in a message of its own":    func(r *raw, proof []byte) { r.send(unknownFrame); r.send(proof) },
		"before the proof":           func(r *raw, proof []byte) { r.send(unknownFrame, proof) },
		"behind the proof":           func(r *raw, proof []byte) { r.send(proof, unknownFrame) },
		"many, before and behind it": func(r *raw, proof []byte) { r.send(unknownFrame, unknownFrame, proof, unknownFrame) },
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t, Config{})
			r := dialRaw(t, n)
			challenge := nonceOf(r.expect(frame.Challenge))
			send(r, frame.AppendProof(nil, mine[:], secret.KeyID(), secret.ConnectorProof(challenge, mine), frame.Defaults()))
			if f := r.expect(frame.Welcome); !auth.IsEqual(f.Handshake.Proof, secret.AcceptorProof(challenge, mine)) {
				t.Error("another proof")
			}
			r.send(frame.AppendNumber(nil, frame.Ping, 7))
			if f := r.expect(frame.Pong); f.ID != 7 {
				t.Error("a PONG of", f.ID)
			}
		})
	}
}

func TestTheConnectorIgnoresFramesOfUnknownTypes(t *testing.T) {
	secret, nonce := newSecrets(t, secretOne).All()[0], auth.NewNonce()
	address := rawAcceptor(t, func(r *raw) {
		r.send(unknownFrame)
		r.send(frame.AppendChallenge(nil, nonce[:], [][]byte{secret.KeyID()}, frame.Defaults()), unknownFrame)
		theirs := nonceOf(r.expect(frame.Proof))
		r.send(unknownFrame)
		r.send(unknownFrame, frame.AppendWelcome(nil, secret.AcceptorProof(nonce, theirs)))
		r.limit = frame.MessageMax
		r.send(frame.AppendAnswer(nil, r.expect(frame.Request).ID, []byte("answer")))
	})
	n := newNode(t, Config{})
	answer, err := n.Peer(address).Do(background(t), Request{Name: "echo"}, nil)
	if err != nil || string(answer) != "answer" {
		t.Errorf("%q, %v", answer, err)
	}
}

func TestAFrameBehindAnUnknownOneMustBeTheNextOne(t *testing.T) {
	n := newNode(t, Config{})
	r := dialRaw(t, n)
	r.expect(frame.Challenge)
	r.send(unknownFrame, frame.AppendNumber(nil, frame.Ping, 1))
	r.expect(frame.Refused)
	expectRefusal(t, n, RefusedOutOfOrder, "type 30 where type 2 must come")
}

func TestASilentConnectorIsNotWaitedFor(t *testing.T) {
	n := newNode(t, Config{HandshakeTimeout: time.Second}) // the challenge must come within it
	r := dialRaw(t, n)
	r.expect(frame.Challenge)
	r.expectEnd()
	expectRefusal(t, n, RefusedTooSlow, "timeout")
}

func TestConnectionsWithoutProofAreBounded(t *testing.T) {
	n := newNode(t, Config{HandshakesMax: 2})
	first, second := dialRaw(t, n), dialRaw(t, n)
	first.expect(frame.Challenge)
	second.expect(frame.Challenge)
	response, err := http.DefaultClient.Do(upgradeRequest(t, n.address, Protocol))
	check(t, err)
	if response.Body.Close(); response.StatusCode != http.StatusServiceUnavailable {
		t.Error(response.Status)
	}
	expectRefusal(t, n, RefusedTooMany, "too many handshakes")
	first.conn.Close()
	eventually(t, "room again", func() bool { return len(n.unproved) < 2 })
	dialRaw(t, n).expect(frame.Challenge)
}

func upgradeRequest(t *testing.T, address, protocol string) *http.Request {
	t.Helper()
	r, err := http.NewRequest(http.MethodGet, "http://"+address+"/grid", nil)
	check(t, err)
	r.Header.Set("Upgrade", "websocket")
	r.Header.Set("Connection", "Upgrade")
	r.Header.Set("Sec-WebSocket-Version", "13")
	r.Header.Set("Sec-WebSocket-Key", "MDEyMzQ1Njc4OWFiY2RlZg==")
	r.Header.Set("Sec-WebSocket-Protocol", protocol)
	return r
}

func TestAnotherProtocolIsNamed(t *testing.T) {
	n := newNode(t, Config{})
	response, err := http.DefaultClient.Do(upgradeRequest(t, n.address, "martlet-grid-2, other"))
	check(t, err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	check(t, err)
	if response.StatusCode != http.StatusBadRequest || !strings.Contains(string(body), Protocol) {
		t.Error(response.Status, string(body))
	}
	expectRefusal(t, n, RefusedBadUpgrade, Protocol)
	response, err = http.DefaultClient.Do(upgradeRequest(t, n.address, "martlet-grid-2,"+Protocol))
	check(t, err)
	if response.Body.Close(); response.StatusCode != http.StatusSwitchingProtocols || response.Header.Get("Sec-WebSocket-Protocol") != Protocol {
		t.Error(response.Status, response.Header)
	}
}

func TestAServerThatIsNoGridIsUnreachable(t *testing.T) {
	plain, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	server := &http.Server{Handler: http.NotFoundHandler()}
	go server.Serve(plain)
	defer server.Close()
	n := newNode(t, Config{})
	_, err = n.Peer(plain.Addr().String()).Do(background(t), Request{Name: "echo"}, nil)
	if !errors.Is(err, ErrUnreachable) || !strings.Contains(err.Error(), "404") {
		t.Error(err)
	}
	expectRefusal(t, n, RefusedBadUpgrade, "the peer answers 404")
}

func TestSecretsChangeWhileRequestsRun(t *testing.T) {
	acceptor, connector := newNode(t, Config{}), newNode(t, Config{})
	ctx, stop := context.WithCancel(background(t))
	var answered [4]atomic.Int64
	var callers sync.WaitGroup
	for i := range answered {
		callers.Add(1)
		go func() {
			defer callers.Done()
			for ctx.Err() == nil {
				_, err := connector.Peer(acceptor.address).Do(background(t), Request{Name: "echo", Payload: []byte("x")}, nil)
				if err == nil {
					answered[i].Add(1)
				} else if !errors.Is(err, ErrLost) {
					t.Error(err)
				}
			}
		}()
	}
	// A request gives up after three connections that went away. So each caller has an answer before the next one goes.
	progress := func() {
		for i := range answered {
			before := answered[i].Load()
			eventually(t, "an answer", func() bool { return answered[i].Load() > before })
		}
	}
	reconnect := func() {
		before := connector.Stats().Handshakes
		for _, c := range acceptor.Connections() {
			c.Close()
		}
		eventually(t, "a handshake", func() bool { return connector.Stats().Handshakes > before })
		progress()
	}
	set := func(n *node, texts ...string) {
		check(t, n.config.Secrets.Set(texts...))
		reconnect()
	}
	progress()
	set(acceptor, secretTwo, secretOne)
	set(connector, secretTwo, secretOne)
	set(connector, secretTwo)
	set(acceptor, secretTwo)
	stop()
	callers.Wait()
	for _, n := range []*node{acceptor, connector} {
		for reason, count := range n.Stats().Refused {
			if count > 0 {
				t.Error("refused", reason, count)
			}
		}
	}
}

func TestRefusalsAreNotLoggedEachTime(t *testing.T) {
	clock := newFakeClock()
	n := newNode(t, Config{Clock: clock})
	for range 50 {
		n.refuse(RefusedWrongProof, "127.0.0.1:1", errors.New("wrong"))
	}
	if lines := strings.Count(n.log.String(), "handshake failed"); lines != 1 {
		t.Error(lines, "lines")
	}
	clock.advance(rarely.QuietTime)
	n.refuse(RefusedWrongProof, "127.0.0.1:1", errors.New("wrong"))
	if log := n.log.String(); !strings.Contains(log, "left_out=49") || n.Stats().Refused[RefusedWrongProof] != 51 {
		t.Error(log)
	}
}
