package grid

import (
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"martlet/object-server/grid/certs"
	"martlet/object-server/proof/authority"
)

func newCerts(t testing.TB) *certs.Store {
	t.Helper()
	a := authority.New(t)
	certificate, key := a.Issue(t, "server", "127.0.0.1", time.Time{})
	store, err := certs.Load(certs.Files{Certificate: certificate, Key: key, Authorities: a.Path})
	check(t, err)
	return store
}

// overTLS lets the nodes of a test speak TLS.
func overTLS(t *testing.T, store *certs.Store) {
	t.Helper()
	nodesSpeak = store
	t.Cleanup(func() { nodesSpeak = nil })
}

func TestAllThatHoldsWithoutTLS(t *testing.T) {
	overTLS(t, newCerts(t))
	for name, test := range map[string]func(*testing.T){
		"answers":    TestEachCallerGetsItsOwnAnswer,
		"errors":     TestErrorsKeepTheirCode,
		"deadlines":  TestADeadlineEndsBothSides,
		"contexts":   TestTheEndOfTheContextCancels,
		"limits":     TestTheLimitsOfThePeerAreKept,
		"both ways":  TestAHandlerMayAskItsRequester,
		"streams":    TestAStreamKeepsMessagesInOrder,
		"readers":    TestAStreamIsAReaderAndAWriter,
		"ends":       TestHowStreamsEnd,
		"aborts":     TestEitherSideEndsAStreamAtOnce,
		"deaths":     TestConnectionsMayDieUnderLoad,
		"long drain": TestDrainHasALimit,
	} {
		t.Run(name, test)
	}
}

func TestAServerOfAnotherAuthorityIsUnreachable(t *testing.T) {
	overTLS(t, newCerts(t))
	server := newNode(t, Config{})
	nodesSpeak = newCerts(t)
	client := newNode(t, Config{})
	_, err := client.Peer(server.address).Conn(background(t))
	if !errors.Is(err, ErrUnreachable) || !strings.Contains(err.Error(), "certificate signed by unknown authority") {
		t.Error(err)
	}
}

func TestNeitherSideFallsBackToPlainText(t *testing.T) {
	plain := newNode(t, Config{})
	overTLS(t, newCerts(t))
	secure := newNode(t, Config{})
	if _, err := secure.Peer(plain.address).Conn(background(t)); !errors.Is(err, ErrUnreachable) {
		t.Error(err)
	}
	if _, err := plain.Peer(secure.address).Conn(background(t)); !errors.Is(err, ErrUnreachable) {
		t.Error(err)
	}
}

func TestASilentClientDelaysNoOther(t *testing.T) {
	overTLS(t, newCerts(t))
	server := newNode(t, Config{})
	silent, err := net.Dial("tcp", server.address)
	check(t, err)
	defer silent.Close()
	client := newNode(t, Config{})
	answer, err := client.Peer(server.address).Do(background(t), Request{Name: "echo", Payload: []byte("hello")}, nil)
	check(t, err)
	if string(answer) != "hello" {
		t.Errorf("%q", answer)
	}
}

func TestAServerThatHangsInItsHandshakeIsUnreachable(t *testing.T) {
	overTLS(t, newCerts(t))
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	defer listener.Close()
	client := newNode(t, Config{HandshakeTimeout: 200 * time.Millisecond})
	if _, err := client.Peer(listener.Addr().String()).Conn(background(t)); !errors.Is(err, ErrUnreachable) {
		t.Error(err)
	}
}
