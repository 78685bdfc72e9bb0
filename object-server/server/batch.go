package server

import (
	"bytes"
	"net/http"
	"runtime"
	"strconv"
	"sync"
	"time"

	"martlet/object-server/server/message"
)

// batchMethod is the method of a batch: many small requests in one. A server without batches answers 405.
const batchMethod = "BATCH"

// batchType is the media type of several HTTP messages in a row, RFC 9112 section 10.2.
const batchType = "application/http"

// partHeader numbers the answers of a batch, by the order of the requests, from 0.
const partHeader = "X-Backend-Part"

// messages are buffers for batches. Nothing of a batch is used once its requests have been served.
var messages = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// batch serves the requests in the body of a message in parallel, each as if it had come alone. The body of the answer
// has their answers in the order in which they are ready, so that none waits for the device of another. The status is 200;
// with 400, 408, 411, 413 or 499 no request was served.
func (s *Server) batch(x *exchange) error {
	if x.header(message.ContentType) != batchType {
		return fail(http.StatusBadRequest, "A batch is of type "+batchType+".")
	}
	switch {
	case x.in.Length < 0:
		return fail(http.StatusLengthRequired, "Missing Content-Length header.")
	case x.in.Length > batchBytesMax:
		return fail(http.StatusRequestEntityTooLarge, "A batch has at most %d bytes.", batchBytesMax)
	}
	message := messages.Get().(*bytes.Buffer)
	defer messages.Put(message)
	message.Reset()
	body := s.bodyOf(x)
	_, err := message.ReadFrom(body)
	body.end(err)
	if err != nil {
		return bodyFailure(err)
	}
	parts, err := splitBatch(message.Bytes(), s.config.Limits.HeaderBytesMax())
	if err != nil {
		return err
	}
	x.set("Content-Type", batchType)
	x.answer(http.StatusOK)
	answers := make(chan *partAnswer, len(parts))
	for i, part := range parts {
		part.RemoteAddr = x.in.Remote
		s.workers.Run(func() { s.servePart(i, part, answers) })
	}
	s.writeAnswers(x, answers, len(parts))
	return nil
}

// writeAnswers writes each answer once it is ready, and those that are ready together in one piece. It returns when all
// requests have been served, even if the client has gone.
func (s *Server) writeAnswers(x *exchange, answers <-chan *partAnswer, left int) {
	var text bytes.Buffer
	for ; left > 0; left-- {
		(<-answers).appendTo(&text)
		runtime.Gosched() // lets the other requests of the same flush end
		for ; len(answers) > 0; left-- {
			(<-answers).appendTo(&text)
		}
		x.extendWriteDeadline(time.Now().Add(s.config.ClientTimeout))
		n, err := x.carrier.Write(text.Bytes())
		if x.bytesOut += int64(n); err == nil {
			x.carrier.flush()
		}
		text.Reset()
	}
}

// servePart serves one request of a batch.
func (s *Server) servePart(number int, r *http.Request, answers chan<- *partAnswer) {
	answer := &partAnswer{number: number, header: http.Header{}}
	defer func() {
		if recover() != nil { // it is logged; alone, its connection would be closed
			answer.status, answer.header, answer.body = http.StatusInternalServerError, http.Header{}, nil
		}
		answers <- answer
	}()
	s.ServeHTTP(answer, r)
}

// partAnswer keeps an answer for a batch.
type partAnswer struct {
	number int
	status int // 0 until it is set
	header http.Header
	body   []byte
}

func (a *partAnswer) Header() http.Header { return a.header }

func (a *partAnswer) WriteHeader(status int) {
	if a.status == 0 && status >= http.StatusOK {
		a.status = status
	}
}

func (a *partAnswer) Write(p []byte) (int, error) {
	a.WriteHeader(http.StatusOK)
	a.body = append(a.body, p...)
	return len(p), nil
}

// The request and its answer are in memory as a whole: deadlines mean nothing.

func (a *partAnswer) SetReadDeadline(time.Time) error  { return nil }
func (a *partAnswer) SetWriteDeadline(time.Time) error { return nil }

// appendTo appends the answer as HTTP.
func (a *partAnswer) appendTo(text *bytes.Buffer) {
	a.WriteHeader(http.StatusOK)
	a.header[partHeader] = []string{strconv.Itoa(a.number)}
	delete(a.header, "Connection") // it belongs to the whole batch
	if a.status != http.StatusNoContent {
		a.header["Content-Length"] = []string{strconv.Itoa(len(a.body))}
	}
	text.WriteString("HTTP/1.1 ")
	text.WriteString(strconv.Itoa(a.status))
	text.WriteByte(' ')
	text.WriteString(http.StatusText(a.status))
	text.WriteString("\r\n")
	_ = a.header.Write(text) // a buffer takes everything
	text.WriteString("\r\n")
	text.Write(a.body)
}
