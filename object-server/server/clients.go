package server

import (
	"net/http"
	"strings"
	"time"
)

// clientWait is how long a request waits for others to end, where as many are served as may be.
const clientWait = time.Second

// clients bounds how many requests are served at once: each takes memory, and a thread while it waits for a disk.
type clients struct{ places chan struct{} }

// bounded serves a request once it is its turn, and else answers 529. What tells whether the server works is served
// in any case. A batch counts as one.
func (s *Server) bounded(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/healthcheck" || strings.HasPrefix(r.URL.Path, "/recon/") {
		s.ServeHTTP(w, r)
		return
	}
	select {
	case s.clients.places <- struct{}{}:
	default:
		if !s.clients.wait(r) {
			s.refuse(w, r)
			return
		}
	}
	defer func() { <-s.clients.places }()
	s.ServeHTTP(w, r)
}

func (c clients) wait(r *http.Request) bool {
	timer := time.NewTimer(clientWait)
	defer timer.Stop()
	select {
	case c.places <- struct{}{}:
		return true
	case <-timer.C:
	case <-r.Context().Done():
	}
	return false
}

func (s *Server) refuse(w http.ResponseWriter, r *http.Request) {
	x := &exchange{w: w, r: r, control: http.NewResponseController(w), received: time.Now()}
	defer s.endExchange(x)
	x.setReadDeadline(x.received.Add(s.config.ClientTimeout)) // of a body that net/http skips
	x.answerFailure(fail(statusTooManyBackendRequests, "The server is busy with %d other requests.", cap(s.clients.places)))
}
