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
	s.ours = g.options()
	secrets := g.config.Secrets.All()
	if err := s.sendAlone(frame.AppendChallenge(nil, mine[:], auth.KeyIDs(secrets), s.ours)); err != nil {
		return frame.Options{}, err
	}
	f, err := s.readAlone(frame.Proof)
	if err != nil {
		return frame.Options{}, err
	}
	answer, err := answerTo(&f.Handshake, secrets, mine)
	if err != nil {
		return frame.Options{}, s.refuse(err)
	}
	options := f.Handshake.Options // its strings are copies
	return options, s.sendAlone(frame.AppendWelcome(nil, answer))
}

// answerTo checks the proof of a connector, and returns the one that it gets: none if there is no secret.
func answerTo(h *frame.Handshake, secrets []auth.Secret, mine auth.Nonce) ([]byte, error) {
	hasProof := len(h.Proof) > 0
	switch {
	case len(secrets) == 0 && (hasProof || len(h.KeyIDs) > 0):
		return nil, refused(RefusedNoKey, "the acceptor has no secret")
	case len(secrets) == 0:
		return nil, nil
	case !hasProof:
		return nil, refused(RefusedNoKey, "the acceptor demands a proof of its secret")
	}
	secret, is := auth.Find(secrets, h.KeyIDs)
	if !is {
		return nil, refused(RefusedNoCommonKey, "the acceptor does not have the secret of the connector")
	}
	theirs := auth.Nonce(h.Nonce)
	if !auth.IsEqual(h.Proof, secret.ConnectorProof(mine, theirs)) {
		return nil, refused(RefusedWrongProof, "the connector's proof is wrong")
	}
	return secret.AcceptorProof(mine, theirs), nil
}

// connect is the connector's side of the handshake. It returns the options of the acceptor.
func (g *Grid) connect(s *socket) (frame.Options, error) {
	s.ours = g.options()
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
	if err := s.sendAlone(frame.AppendProof(nil, mine[:], keyID, proof, s.ours)); err != nil {
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

// readAlone reads the next frame of the handshake. It must be of this type, and alone in its message: frames of unknown
// types do not count. The frame is valid until the next message is read.
func (s *socket) readAlone(t frame.Type) (frame.Frame, error) {
	for {
		message, err := s.read()
		if err == nil && len(message) == 0 {
			err = protocolError("a message without frames")
		}
		var f frame.Frame
		known := 0
		if err == nil {
			f, known, err = knownOf(message)
		}
		switch {
		case errors.Is(err, ErrProtocol), errors.Is(err, frame.ErrMalformed), errors.Is(err, frame.ErrVersion):
			return f, s.refuse(refused(RefusedMalformed, "%w", err))
		case err != nil:
			return f, err
		case known == 0:
			continue
		case f.Type == frame.Refused:
			return f, &handshakeError{RefusedByPeer, fmt.Errorf("%w by the peer: %.*q", ErrRefused, frame.ReasonMax, f.Reason)}
		case f.Type != t:
			return f, s.refuse(refused(RefusedOutOfOrder, "a frame of type %d where type %d must come", f.Type, t))
		case known > 1:
			return f, s.refuse(refused(RefusedOutOfOrder, "other frames follow a frame of the handshake"))
		}
		return f, nil
	}
}

// knownOf returns the first frame of a message whose type is known, and how many such frames there are.
func knownOf(message []byte) (first frame.Frame, known int, err error) {
	for len(message) > 0 {
		var f frame.Frame
		if message, err = f.Decode(message); err != nil {
			return first, known, err
		}
		if !f.Type.IsKnown() {
			continue
		}
		if known++; known == 1 {
			first = f
		}
	}
	return first, known, nil
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
