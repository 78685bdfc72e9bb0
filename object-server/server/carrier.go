package server

import (
	"net/http"
	"strconv"
	"time"

	"martlet/object-server/server/message"
)

// carrier brings the body of a request, and takes the answer to it.
type carrier interface {
	// whole returns the body if it is in memory as a whole; otherwise Read reads it.
	whole() (body []byte, ok bool)
	Read(p []byte) (int, error)
	// proceed asks the client for the body, with a header.
	proceed(name, value string)
	// carries reports whether the body of an answer may have so many bytes; if not, it must be left out.
	carries(length int64) bool
	// begin takes the status and the headers of the answer.
	begin(status int, head *message.Answer)
	// Write takes a piece of the body of the answer, after begin.
	Write(p []byte) (int, error)
	// setReadDeadline and setWriteDeadline set when reads and writes fail; the zero time means never.
	setReadDeadline(at time.Time)
	setWriteDeadline(at time.Time)
}

// httpCarrier is a request of net/http with its answer.
type httpCarrier struct {
	w       http.ResponseWriter
	r       *http.Request
	control *http.ResponseController
}

// newExchange returns the exchange of a request of net/http.
func newExchange(w http.ResponseWriter, r *http.Request) *exchange {
	x := &struct {
		exchange
		http httpCarrier
	}{}
	x.http = httpCarrier{w, r, http.NewResponseController(w)}
	x.carrier, x.received, x.out.Length = &x.http, time.Now(), -1
	x.in.ReadHTTP(r)
	return &x.exchange
}

func (c *httpCarrier) whole() ([]byte, bool) { return nil, false }

func (c *httpCarrier) carries(int64) bool { return true }

func (c *httpCarrier) Read(p []byte) (int, error) { return c.r.Body.Read(p) }

func (c *httpCarrier) proceed(name, value string) {
	c.w.Header()[name] = []string{value}
	c.w.WriteHeader(http.StatusContinue)
	c.w.Header().Del(name)
}

func (c *httpCarrier) begin(status int, head *message.Answer) {
	header := c.w.Header()
	values := make([]string, len(head.Headers), len(head.Headers)+2) // one piece of memory for all
	for i, pair := range head.Headers {
		values[i] = pair.Value
		header[pair.Name] = values[i : i+1 : i+1]
	}
	if head.Length >= 0 {
		header["Content-Length"] = []string{strconv.FormatInt(head.Length, 10)}
	}
	if c.r.ContentLength != 0 && mayLeaveBody(status) {
		header["Connection"] = []string{"close"}
	}
	c.w.WriteHeader(status)
}

// mayLeaveBody reports whether the rest of a request's body may still be on the connection after an answer.
func mayLeaveBody(status int) bool {
	return status == statusClientClosed || status == http.StatusRequestTimeout || status == http.StatusBadRequest
}

func (c *httpCarrier) Write(p []byte) (int, error) { return c.w.Write(p) }

// Both fail only on a connection that is closed already.

func (c *httpCarrier) setReadDeadline(at time.Time)  { _ = c.control.SetReadDeadline(at) }
func (c *httpCarrier) setWriteDeadline(at time.Time) { _ = c.control.SetWriteDeadline(at) }
