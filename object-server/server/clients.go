package server

import (
	"context"
	"net/http"
	"strings"
	"time"
)

// clientWait is how long a request waits for another to end when max_clients are served.
const clientWait = time.Second

// clients bounds how many requests are served at once: each takes memory, and a thread while it waits for a disk.
type clients struct{ places chan struct{} }

// statusTooManyRequests is Swift's answer to a request beyond a limit: the proxy asks another replica.
const statusTooManyRequests = 529

// admit refuses a request that is beyond the rate limits of its device.
func (s *Server) admit(x *exchange) error {
	if s.limiter == nil || s.limiter.Admit(x.in.Method, deviceOf(x.in.FullPath()), x.received) {
		return nil
	}
	return fail(statusTooManyRequests, "Too many requests for this device; ask another.")
}

// bounded serves a request if fewer than max_clients are served, and answers 529 otherwise. Monitoring (/healthcheck and
// /recon) is always served.
func (s *Server) bounded(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/healthcheck" || strings.HasPrefix(r.URL.Path, "/recon/") {
		s.ServeHTTP(w, r)
		return
	}
	if !s.clients.enter(r.Context()) {
		s.refuse(w, r)
		return
	}
	defer s.clients.leave()
	s.ServeHTTP(w, r)
}

// enter takes a place; it returns false if none is free in time.
func (c clients) enter(ctx context.Context) bool {
	select {
	case c.places <- struct{}{}:
		return true
	default:
		return c.wait(ctx)
	}
}

func (c clients) leave() { <-c.places }

func (c clients) wait(ctx context.Context) bool {
	timer := time.NewTimer(clientWait)
	defer timer.Stop()
	select {
	case c.places <- struct{}{}:
		return true
	case <-timer.C:
	case <-ctx.Done():
	}
	return false
}

func (s *Server) refuse(w http.ResponseWriter, r *http.Request) {
	x := newExchange(w, r)
	defer s.endExchange(x)
	x.setReadDeadline(x.received.Add(s.config.ClientTimeout)) // for a body that net/http reads to skip it
	x.answerFailure(s.clients.busy())
}

func (c clients) busy() *failure {
	return fail(statusTooManyRequests, "The server is busy with %d other requests.", cap(c.places))
}
