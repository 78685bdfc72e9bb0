package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"time"

	"martlet/object-server/grid"
	"martlet/object-server/server/message"
)

// gridMethods are the methods that the grid has, by the names of its requests.
var gridMethods = map[string]string{
	"object.put":    http.MethodPut,
	"object.get":    http.MethodGet,
	"object.head":   http.MethodHead,
	"object.post":   http.MethodPost,
	"object.delete": http.MethodDelete,
}

// gridMux returns the handlers of the grid.
func (s *Server) gridMux() *grid.Mux {
	mux := &grid.Mux{}
	for name, method := range gridMethods {
		mux.HandleRaw(name, func(ctx context.Context, payload, answer []byte) ([]byte, error) {
			return s.serveGrid(ctx, method, payload, answer)
		})
	}
	s.replicas.AddTo(mux)
	return mux
}

// gridExchange is an exchange over the grid. It is used again.
type gridExchange struct {
	exchange
	grid gridCarrier
}

var gridExchanges = sync.Pool{New: func() any { return &gridExchange{} }}

// headersKept is how many headers the memory of a gridExchange has room for when it is used again.
const headersKept = 128

func (x *gridExchange) free() {
	others, headers := x.in.Others[:0], x.out.Headers[:0]
	if cap(others) > headersKept || cap(headers) > headersKept {
		return
	}
	clear(others[:cap(others)])
	clear(headers[:cap(headers)])
	*x = gridExchange{}
	x.in.Others, x.out.Headers = others, headers
	gridExchanges.Put(x)
}

// serveGrid serves a request of the grid: it appends the answer that HTTP would have. An error says that nothing was done.
func (s *Server) serveGrid(ctx context.Context, method string, payload, answer []byte) ([]byte, error) {
	x := gridExchanges.Get().(*gridExchange)
	defer x.free()
	body, err := x.in.ReadPayload(method, payload)
	switch {
	case err != nil:
		return answer, &grid.Error{Code: grid.CodeBadPayload, Reason: err.Error()}
	case len(body) > message.BodyMax:
		reason := fmt.Sprintf("a body of %d bytes; over the grid it has at most %d", len(body), message.BodyMax)
		return answer, &grid.Error{Code: grid.CodeTooLarge, Reason: reason}
	}
	x.grid = gridCarrier{body: body, isHead: method == http.MethodHead, answer: answer, start: len(answer)}
	x.carrier, x.received, x.out.Length = &x.grid, time.Now(), -1
	if connection := grid.FromContext(ctx); connection != nil {
		x.in.Remote = connection.Address()
	}
	return s.answerGrid(ctx, x)
}

// answerGrid serves a request that was read. At its deadline, a request that still waits for its turn is not begun.
func (s *Server) answerGrid(ctx context.Context, x *gridExchange) ([]byte, error) {
	isIn := s.clients.enter(ctx)
	if isIn {
		defer s.clients.leave()
	}
	if err := ctx.Err(); err != nil {
		return x.grid.answer, err
	}
	s.runGrid(&x.exchange, isIn)
	return x.grid.answer, nil
}

// runGrid serves a request, or answers that the server is busy. Unlike over HTTP, an answer that has begun can be taken
// back.
func (s *Server) runGrid(x *exchange, isIn bool) {
	defer func() {
		if problem := recover(); problem != nil {
			s.logPanic(x, problem)
			x.answerFailure(fail(http.StatusInternalServerError, "Internal error."))
		}
		s.logExchange(x)
	}()
	var err error
	switch {
	case !isIn:
		err = s.clients.busy()
	case x.in.HeadBytes > s.config.Limits.HeaderBytesMax():
		err = fail(http.StatusRequestHeaderFieldsTooLarge, "The headers are too large.")
	default:
		err = s.serveObject(x)
	}
	switch {
	case errors.Is(err, errAborted):
		x.answerFailure(failureOf(x.cause))
	case err != nil:
		x.answerFailure(failureOf(err))
	}
}

// gridCarrier has the body of a request of the grid, and the payload of its answer.
type gridCarrier struct {
	body   []byte // what is not read yet
	isHead bool
	start  int // of the answer in the payload
	answer []byte
}

func (c *gridCarrier) whole() ([]byte, bool) { return c.body, true }

func (c *gridCarrier) Read(p []byte) (int, error) {
	if len(c.body) == 0 {
		return 0, io.EOF
	}
	n := copy(p, c.body)
	c.body = c.body[n:]
	return n, nil
}

func (c *gridCarrier) carries(length int64) bool { return length <= message.BodyMax }

// begin begins the answer, anew if one has begun. A body of the length that the head tells must follow.
func (c *gridCarrier) begin(status int, head *message.Answer) {
	c.answer = c.answer[:c.start]
	isLeftOut := !c.carries(head.Length)
	c.answer = head.AppendHead(c.answer, status, c.isHead || isLeftOut)
	switch length := int(head.Length); {
	case c.isHead:
		c.answer = message.AppendBodyHead(c.answer, 0)
	case isLeftOut:
		c.answer = message.AppendNoBody(c.answer)
	default:
		length = max(length, 0)
		c.answer = slices.Grow(message.AppendBodyHead(c.answer, length), length)
	}
}

func (c *gridCarrier) Write(p []byte) (int, error) {
	c.answer = append(c.answer, p...)
	return len(p), nil
}

// The request and its answer are in memory as a whole: there is nothing to ask for, to send or to wait for.

func (c *gridCarrier) proceed(_, _ string)        {}
func (c *gridCarrier) setReadDeadline(time.Time)  {}
func (c *gridCarrier) setWriteDeadline(time.Time) {}
