package frame

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strings"
	"unicode/utf8"

	"github.com/tinylib/msgp/msgp"
)

// The errors of this package. Each of them ends a connection.
var (
	ErrMalformed = errors.New("malformed frame")
	ErrVersion   = errors.New("frame of another version")
	ErrChecksum  = errors.New("wrong checksum of a message")
)

// Frame is a decoded frame. Fields that its type does not have are zero. Slices point into the bytes that were decoded.
type Frame struct {
	Type     Type
	ID       uint64 // of a request or stream; the number of PING and PONG
	Deadline uint64 // REQUEST, OPEN: milliseconds, 0 for none
	Flags    uint64 // REQUEST, OPEN
	Window   uint64 // OPEN, and the bytes of CREDIT
	Code     uint64 // ERROR
	Name     []byte // REQUEST, OPEN
	Reason   []byte // ERROR, REFUSED, GOAWAY
	Payload  []byte // REQUEST, ANSWER, OPEN, DATA

	Handshake Handshake // CHALLENGE, PROOF, WELCOME
}

// Handshake has the elements of the frames before the first request.
type Handshake struct {
	Nonce   []byte   // CHALLENGE, PROOF: NonceSize bytes
	KeyIDs  [][]byte // CHALLENGE; PROOF: the first of them, none if the key id is empty
	Proof   []byte   // PROOF, WELCOME: ProofSize bytes or none
	Options Options  // CHALLENGE, PROOF
}

// Decode reads the frame at the start of b and returns the bytes behind it. A frame of an unknown type
// has only its Type; its elements are checked to be MessagePack.
// Errors: ErrMalformed, ErrVersion.
func (f *Frame) Decode(b []byte) ([]byte, error) {
	if len(b) < prefixSize+1 {
		return nil, fmt.Errorf("%w: it has %d bytes", ErrMalformed, len(b))
	}
	size := uint64(binary.BigEndian.Uint32(b))
	if size < 1 || size > uint64(len(b)-prefixSize) {
		return nil, fmt.Errorf("%w: a length of %d where %d bytes are left", ErrMalformed, size, len(b)-prefixSize)
	}
	if b[prefixSize] != Version {
		return nil, fmt.Errorf("%w: %d", ErrVersion, b[prefixSize])
	}
	body, rest := b[prefixSize+1:prefixSize+size], b[prefixSize+size:]
	r := reader{b: body}
	r.left, r.b, r.err = msgp.ReadArrayHeaderBytes(body)
	*f = Frame{Type: Type(r.number())}
	if r.err == nil {
		f.decode(&r)
	}
	r.end()
	if r.err != nil {
		return nil, fmt.Errorf("%w of type %d: %w", ErrMalformed, f.Type, r.err)
	}
	return rest, nil
}

// decode reads the elements behind the type.
func (f *Frame) decode(r *reader) {
	switch f.Type {
	case Challenge, Proof, Welcome:
		f.Handshake.decode(f.Type, r)
	case Refused, GoAway:
		f.Reason = r.text(ReasonMax)
	case Request, Open:
		f.ID, f.Name = r.number(), r.text(NameMax)
		f.Deadline, f.Flags = r.number(), r.number()
		if f.Type == Open {
			if f.Window = r.number(); f.Window > math.MaxInt64 {
				r.fail(fmt.Errorf("a window of %d", f.Window))
			}
		}
		f.Payload = r.bytes()
	case Answer:
		f.ID, f.Payload = r.number(), r.bytes()
	case Data:
		f.ID, f.Payload = r.number(), r.bytes()
		if len(f.Payload) > DataMax {
			r.fail(fmt.Errorf("a payload of %d bytes", len(f.Payload)))
		}
	case Error:
		f.ID, f.Code, f.Reason = r.number(), r.number(), r.text(ReasonMax)
	case Credit:
		f.ID, f.Window = r.number(), r.number()
	case Cancel, End, Ping, Pong:
		f.ID = r.number()
	}
}

func (h *Handshake) decode(t Type, r *reader) {
	switch t {
	case Challenge:
		h.Nonce = r.exactly(NonceSize, false)
		keys := reader{b: r.b}
		if keys.left = r.array(); keys.left > KeyIDsMax {
			r.fail(fmt.Errorf("%d key ids", keys.left))
		}
		for keys.b = r.b; keys.left > 0 && r.err == nil; {
			h.KeyIDs = append(h.KeyIDs, keys.exactly(KeyIDSize, false))
			r.fail(keys.err)
		}
		r.b = keys.b
		h.Options.decode(r)
	case Proof:
		h.Nonce = r.exactly(NonceSize, false)
		if id := r.exactly(KeyIDSize, true); len(id) > 0 {
			h.KeyIDs = [][]byte{id}
		}
		h.Proof = r.exactly(ProofSize, true)
		h.Options.decode(r)
	case Welcome:
		h.Proof = r.exactly(ProofSize, true)
	}
}

var (
	errShort = errors.New("it has too few elements")
	errUTF8  = errors.New("a string is not UTF-8")
)

// reader reads the elements of an array. After an error it returns zeros.
type reader struct {
	b    []byte
	left uint32
	err  error
}

func (r *reader) fail(err error) {
	if r.err == nil {
		r.err = err
	}
}

// next says whether there is another element.
func (r *reader) next() bool {
	if r.err == nil && r.left == 0 {
		r.err = errShort
	}
	r.left--
	return r.err == nil
}

// end skips elements that a later version has added, and checks that nothing follows the array.
func (r *reader) end() {
	for ; r.err == nil && r.left > 0; r.left-- {
		r.b, r.err = msgp.Skip(r.b)
	}
	if r.err == nil && len(r.b) > 0 {
		r.err = fmt.Errorf("%d bytes follow the array", len(r.b))
	}
}

func (r *reader) number() (n uint64) {
	if r.next() {
		n, r.b, r.err = msgp.ReadUint64Bytes(r.b)
	}
	return n
}

func (r *reader) bytes() (b []byte) {
	if r.next() {
		b, r.b, r.err = msgp.ReadBytesZC(r.b)
	}
	return b
}

// exactly reads so many bytes, or none where none may be.
func (r *reader) exactly(size int, orNone bool) []byte {
	b := r.bytes()
	if len(b) != size && (len(b) > 0 || !orNone) {
		r.fail(fmt.Errorf("%d bytes where there must be %d", len(b), size))
	}
	return b
}

func (r *reader) text(max int) (s []byte) {
	if !r.next() {
		return nil
	}
	if s, r.b, r.err = msgp.ReadStringZC(r.b); r.err != nil {
		return nil
	}
	if len(s) > max {
		r.err = fmt.Errorf("a string of %d bytes where %d are allowed", len(s), max)
	} else if !utf8.Valid(s) {
		r.err = errUTF8
	}
	return s
}

func (r *reader) array() (elements uint32) {
	if r.next() {
		elements, r.b, r.err = msgp.ReadArrayHeaderBytes(r.b)
	}
	return elements
}

// cut makes a reason what the wire allows.
func cut(reason string) string {
	reason = strings.ToValidUTF8(reason, "?")
	if len(reason) <= ReasonMax {
		return reason
	}
	end := ReasonMax
	for !utf8.RuneStart(reason[end]) {
		end--
	}
	return reason[:end]
}
