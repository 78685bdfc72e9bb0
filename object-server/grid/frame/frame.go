package frame

import (
	"encoding/binary"
	"hash/crc32"

	"github.com/tinylib/msgp/msgp"
)

// Type is the first element of a frame. The values are on the wire.
type Type uint64

// The types of doc/formats/grid.md.
const (
	Challenge Type = 1
	Proof     Type = 2
	Welcome   Type = 3
	Refused   Type = 4
	Request   Type = 10
	Answer    Type = 11
	Error     Type = 12
	Cancel    Type = 13
	Open      Type = 20
	Data      Type = 21
	Credit    Type = 22
	End       Type = 23
	Ping      Type = 30
	Pong      Type = 31
	GoAway    Type = 32
)

// IsKnown reports whether this side knows the type. Frames of other types are ignored.
func (t Type) IsKnown() bool {
	switch t {
	case Challenge, Proof, Welcome, Refused, Request, Answer, Error, Cancel, Open, Data, Credit, End, Ping, Pong, GoAway:
		return true
	}
	return false
}

// KeyIDsMax bounds the key ids of a CHALLENGE: those of a secret and of the one that replaces it.
const KeyIDsMax = 2

// Bounds of the wire, in bytes.
const (
	MessageMax   = 4 << 20             // a WebSocket message with its checksum
	PayloadMax   = MessageMax - 4<<10  // of a REQUEST, OPEN or ANSWER, whatever the options say
	HandshakeMax = 4 << 10             // a frame before WELCOME
	DataMax      = 64 << 10            // the payload of DATA
	NameMax      = 64                  // the name of a request
	ReasonMax    = 1 << 10             // a reason
	ChecksumSize = 4                   // at the end of a message
	NonceSize    = 32                  // a nonce of the handshake
	ProofSize    = 32                  // a proof of the handshake
	KeyIDSize    = 8                   // the id of a secret
	overheadMax  = 4 + 1 + 1 + 4*9 + 2 // the prefix, the version, the array, its integers, the headers of a name
)

// Overhead bounds the bytes of a frame besides its name, its reason and its payload.
const Overhead = overheadMax + 5

// Version is the version of the frames.
const Version = 1

// Resent is the bit of the flags that says that the request may have been executed before.
const Resent = 1

const prefixSize = 4

// begin adds the place for the length, the version and the head of the array.
func begin(b []byte, t Type, elements uint32) []byte {
	b = append(b, 0, 0, 0, 0, Version)
	b = msgp.AppendArrayHeader(b, 1+elements)
	return msgp.AppendUint64(b, uint64(t))
}

// finish fills in the length of the frame that begins at start.
func finish(b []byte, start int) []byte {
	binary.BigEndian.PutUint32(b[start:], uint32(len(b)-start-prefixSize))
	return b
}

// AppendChallenge adds a CHALLENGE. Each key id has KeyIDSize bytes.
func AppendChallenge(b []byte, nonce []byte, keyIDs [][]byte, o Options) []byte {
	start := len(b)
	b = begin(b, Challenge, 3)
	b = msgp.AppendBytes(b, nonce)
	b = msgp.AppendArrayHeader(b, uint32(len(keyIDs)))
	for _, id := range keyIDs {
		b = msgp.AppendBytes(b, id)
	}
	return finish(o.append(b), start)
}

// AppendProof adds a PROOF. Key id and proof are empty if the acceptor has no secret.
func AppendProof(b []byte, nonce, keyID, proof []byte, o Options) []byte {
	start := len(b)
	b = begin(b, Proof, 4)
	b = msgp.AppendBytes(b, nonce)
	b = msgp.AppendBytes(b, keyID)
	b = msgp.AppendBytes(b, proof)
	return finish(o.append(b), start)
}

// AppendWelcome adds a WELCOME.
func AppendWelcome(b []byte, proof []byte) []byte {
	start := len(b)
	return finish(msgp.AppendBytes(begin(b, Welcome, 1), proof), start)
}

// AppendRequest adds a REQUEST. The deadline is in milliseconds from now, 0 for none.
func AppendRequest(b []byte, id uint64, name string, deadline, flags uint64, payload []byte) []byte {
	start := len(b)
	b = appendCall(begin(b, Request, 5), id, name, deadline, flags)
	return finish(msgp.AppendBytes(b, payload), start)
}

// appendCall adds the elements that REQUEST and OPEN have in common.
func appendCall(b []byte, id uint64, name string, deadline, flags uint64) []byte {
	b = msgp.AppendUint64(b, id)
	b = msgp.AppendString(b, name)
	b = msgp.AppendUint64(b, deadline)
	return msgp.AppendUint64(b, flags)
}

// AppendAnswer adds an ANSWER.
func AppendAnswer(b []byte, id uint64, payload []byte) []byte {
	start := len(b)
	b = msgp.AppendUint64(begin(b, Answer, 2), id)
	return finish(msgp.AppendBytes(b, payload), start)
}

// AppendError adds an ERROR. A reason of more than ReasonMax bytes is cut.
func AppendError(b []byte, id, code uint64, reason string) []byte {
	start := len(b)
	b = msgp.AppendUint64(begin(b, Error, 3), id)
	b = msgp.AppendUint64(b, code)
	return finish(msgp.AppendString(b, cut(reason)), start)
}

// AppendOpen adds an OPEN. The window is that of the requester, in bytes.
func AppendOpen(b []byte, id uint64, name string, deadline, flags, window uint64, payload []byte) []byte {
	start := len(b)
	b = appendCall(begin(b, Open, 6), id, name, deadline, flags)
	b = msgp.AppendUint64(b, window)
	return finish(msgp.AppendBytes(b, payload), start)
}

// AppendData adds a DATA. The payload has at most DataMax bytes.
func AppendData(b []byte, id uint64, payload []byte) []byte {
	start := len(b)
	b = msgp.AppendUint64(begin(b, Data, 2), id)
	return finish(msgp.AppendBytes(b, payload), start)
}

// AppendCredit adds a CREDIT.
func AppendCredit(b []byte, id, bytes uint64) []byte {
	start := len(b)
	b = msgp.AppendUint64(begin(b, Credit, 2), id)
	return finish(msgp.AppendUint64(b, bytes), start)
}

// AppendNumber adds a frame whose only element is an integer: CANCEL, END, PING or PONG.
func AppendNumber(b []byte, t Type, number uint64) []byte {
	start := len(b)
	return finish(msgp.AppendUint64(begin(b, t, 1), number), start)
}

// AppendReason adds a frame whose only element is a reason: REFUSED or GOAWAY. A reason of more than ReasonMax bytes is
// cut.
func AppendReason(b []byte, t Type, reason string) []byte {
	start := len(b)
	return finish(msgp.AppendString(begin(b, t, 1), cut(reason)), start)
}

// AppendChecksum adds the checksum of the message that begins at start.
func AppendChecksum(b []byte, start int) []byte {
	return binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b[start:]))
}

// CutChecksum returns the message without its checksum, or ErrChecksum.
func CutChecksum(message []byte) ([]byte, error) {
	n := len(message) - ChecksumSize
	if n < 0 || binary.BigEndian.Uint32(message[n:]) != crc32.ChecksumIEEE(message[:n]) {
		return nil, ErrChecksum
	}
	return message[:n], nil
}
