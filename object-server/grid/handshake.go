package grid

import (
	"errors"
	"fmt"
	"os"

	"martlet/object-server/grid/auth"
	"martlet/object-server/grid/frame"

	"github.com/gobwas/ws"
)

// handshakeError is why a handshake failed.
type handshakeError struct {
	kind  Refusal
	cause error
}

func (e *handshakeError) Error() string { return e.cause.Error() }
func (e *handshakeError) Unwrap() error { return e.cause }

// refused makes an error that the peer is told, too.
func refused(kind Refusal, format string, args ...any) error {
	return &handshakeError{kind, fmt.Errorf("%w: %w", ErrRefused, fmt.Errorf(format, args...))}
}

// accept is the acceptor's side of the handshake. It returns the options of the connector.
func (g *Grid) accept(s *socket) (frame.Options, error) {
	mine := auth.NewNonce()
	secrets := g.config.Secrets.All()
	if err := s.sendAlone(frame.AppendChallenge(nil, mine[:], auth.KeyIDs(secrets), g.config.Options)); err != nil {
		return frame.Options{}, err
	}
	f, err := s.readAlone(frame.Proof)
	if err != nil {
		return frame.Options{}, err
	}
	theirs, answer := auth.Nonce(f.Handshake.Nonce), []byte(nil)
	if len(secrets) > 0 {
		if len(f.Handshake.Proof) == 0 {
			return frame.Options{}, s.refuse(refused(RefusedNoKey, "the acceptor demands a proof of its secret"))
		}
		secret, is := auth.Find(secrets, f.Handshake.KeyIDs)
		if !is {
			return frame.Options{}, s.refuse(refused(RefusedNoCommonKey, "the acceptor does not have the secret of the connector"))
		}
		if !auth.IsEqual(f.Handshake.Proof, secret.ConnectorProof(mine, theirs)) {
			return frame.Options{}, s.refuse(refused(RefusedWrongProof, "the connector's proof is wrong"))
		}
		answer = secret.AcceptorProof(mine, theirs)
	}
	options := f.Handshake.Options // its strings are copies
	return options, s.sendAlone(frame.AppendWelcome(nil, answer))
}

// connect is the connector's side of the handshake. It returns the options of the acceptor.
func (g *Grid) connect(s *socket) (frame.Options, error) {
	f, err := s.readAlone(frame.Challenge)
	if err != nil {
		return frame.Options{}, err
	}
	options, theirs, mine := f.Handshake.Options, auth.Nonce(f.Handshake.Nonce), auth.NewNonce()
	var keyID, proof, want []byte
	switch secrets := g.config.Secrets.All(); {
	case len(secrets) == 0 && len(f.Handshake.KeyIDs) == 0:
	case len(secrets) == 0:
		return options, s.refuse(refused(RefusedNoKey, "the connector has no secret, the acceptor has one"))
	case len(f.Handshake.KeyIDs) == 0:
		return options, s.refuse(refused(RefusedNoKey, "the acceptor has no secret"))
	default:
		secret, is := auth.Find(secrets, f.Handshake.KeyIDs)
		if !is {
			return options, s.refuse(refused(RefusedNoCommonKey, "the connector has no secret that the acceptor accepts"))
		}
		keyID, proof, want = secret.KeyID(), secret.ConnectorProof(theirs, mine), secret.AcceptorProof(theirs, mine)
	}
	if err := s.sendAlone(frame.AppendProof(nil, mine[:], keyID, proof, g.config.Options)); err != nil {
		return options, err
	}
	if f, err = s.readAlone(frame.Welcome); err != nil {
		return options, err
	}
	if !auth.IsEqual(f.Handshake.Proof, want) {
		return options, s.refuse(refused(RefusedWrongProof, "the acceptor's proof is wrong"))
	}
	return options, nil
}

// sendAlone sends a frame as a message of its own.
func (s *socket) sendAlone(b []byte) error {
	return s.write(append(make([]byte, headRoom, headRoom+len(b)), b...), ws.OpBinary)
}

// refuse tells the peer why, as well as the connection allows, and returns the error.
func (s *socket) refuse(err error) error {
	_ = s.sendAlone(frame.AppendReason(nil, frame.Refused, err.Error())) // the connection ends anyway
	return err
}

// readAlone reads a message of one frame of this type. The frame is valid until the next message is read.
func (s *socket) readAlone(t frame.Type) (frame.Frame, error) {
	var f frame.Frame
	message, err := s.read()
	if err == nil {
		message, err = f.Decode(message)
	}
	switch {
	case errors.Is(err, ErrProtocol), errors.Is(err, frame.ErrMalformed), errors.Is(err, frame.ErrVersion):
		return f, s.refuse(refused(RefusedMalformed, "%w", err))
	case err != nil:
		return f, err
	case f.Type == frame.Refused:
		return f, &handshakeError{RefusedByPeer, fmt.Errorf("%w by the peer: %.*q", ErrRefused, frame.ReasonMax, f.Reason)}
	case f.Type != t:
		return f, s.refuse(refused(RefusedOutOfOrder, "a frame of type %d where type %d must come", f.Type, t))
	case len(message) > 0:
		return f, s.refuse(refused(RefusedOutOfOrder, "%d bytes follow a frame of the handshake", len(message)))
	}
	return f, nil
}

// kindOf classifies the error of a handshake.
func kindOf(err error) Refusal {
	if e := (*handshakeError)(nil); errors.As(err, &e) {
		return e.kind
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return RefusedTooSlow
	}
	return RefusedLost
}
