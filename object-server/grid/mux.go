package grid

import (
	"context"
	"fmt"

	"martlet/object-server/grid/frame"

	"github.com/tinylib/msgp/msgp"
)

// Handler executes a request: it appends the payload of its answer to answer and returns the longer slice. The payload,
// and answer, are valid until it returns. The context ends with the request: at the deadline, when the requester cancels,
// with the connection, and when the handler returns. A handler that waits must heed it.
type Handler func(ctx context.Context, payload, answer []byte) ([]byte, error)

// StreamHandler serves one stream. Its return ends the stream: with END if the error is nil, otherwise with ERROR. The
// payload is that of OPEN, and the stream is valid until it returns; of the context the same holds as for a Handler.
type StreamHandler func(ctx context.Context, s *Stream, payload []byte) error

// Mux has the handlers by name. All are added before the Mux is used by a Grid; from then on it does not change. A name
// is used for requests or for streams.
type Mux struct {
	entries map[string]entry
}

type entry struct {
	name    string
	request Handler
	stream  StreamHandler
}

// HandleRaw adds a handler of requests. It panics if the name is taken or longer than 64 bytes.
func (m *Mux) HandleRaw(name string, h Handler) { m.add(entry{name: name, request: h}) }

// HandleStream adds a handler of streams. It panics if the name is taken or longer than 64 bytes.
func (m *Mux) HandleStream(name string, h StreamHandler) { m.add(entry{name: name, stream: h}) }

func (m *Mux) add(e entry) {
	if _, is := m.entries[e.name]; is || len(e.name) > frame.NameMax {
		panic(fmt.Sprintf("grid: the name %q is taken or too long", e.name))
	}
	if m.entries == nil {
		m.entries = map[string]entry{}
	}
	m.entries[e.name] = e
}

// Handle adds a handler whose request and answer are of types that msgp encodes. A payload that cannot be decoded, or
// that has bytes left, is answered with CodeBadPayload. It panics as HandleRaw does.
func Handle[Q, A any, PQ interface {
	*Q
	msgp.Unmarshaler
}, PA interface {
	*A
	msgp.Marshaler
}](m *Mux, name string, f func(ctx context.Context, q *Q) (*A, error)) {
	m.HandleRaw(name, func(ctx context.Context, payload, answer []byte) ([]byte, error) {
		q := PQ(new(Q))
		if rest, err := q.UnmarshalMsg(payload); err != nil {
			return answer, &Error{CodeBadPayload, err.Error()}
		} else if len(rest) > 0 {
			return answer, &Error{CodeBadPayload, fmt.Sprintf("%d bytes follow the value", len(rest))}
		}
		a, err := f(ctx, (*Q)(q))
		if err != nil {
			return answer, err
		}
		return PA(a).MarshalMsg(answer)
	})
}

// Call sends q as a request over a Peer or a Conn, and decodes the answer into a. Errors: those of Do, and CodeBadPayload
// if the answer cannot be decoded.
func Call(ctx context.Context, over Requester, name string, q msgp.Marshaler, a msgp.Unmarshaler) error {
	buffers := callBuffers.Get().(*callBuffer)
	defer buffers.free()
	var err error
	if buffers.payload, err = q.MarshalMsg(buffers.payload[:0]); err != nil {
		return err
	}
	if buffers.answer, err = over.Do(ctx, Request{Name: name, Payload: buffers.payload}, buffers.answer[:0]); err != nil {
		return err
	}
	if _, err = a.UnmarshalMsg(buffers.answer); err != nil {
		return &Error{CodeBadPayload, "the answer: " + err.Error()}
	}
	return nil
}
