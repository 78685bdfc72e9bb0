package server

import (
	"encoding/json"
	"net/http"
	"strings"
)

// healthcheck answers 200 as long as the process serves.
func (s *Server) healthcheck(x *exchange) error {
	if x.in.Method != http.MethodGet && x.in.Method != http.MethodHead {
		return fail(http.StatusMethodNotAllowed, "The method is not allowed for this resource.").with("Allow", "GET, HEAD")
	}
	x.set("Content-Type", "text/plain; charset=UTF-8")
	return x.answerBytes([]byte("OK"))
}

// whoAmI answers OPTIONS: monitoring asks for the kind of a server.
func (s *Server) whoAmI(x *exchange) error {
	x.set("Allow", "DELETE, GET, HEAD, OPTIONS, POST, PUT")
	x.set("Server", "object-server/"+s.version)
	x.set("Content-Type", "text/plain; charset=UTF-8")
	return x.answerBytes(nil)
}

// orders are the actions of a POST below /recon, for commands on the same host.
var orders = map[string]func(s *Server, x *exchange) (any, error){
	"relinker": (*Server).takeStep,
	"repair":   (*Server).repair,
}

// recon answers with figures about this server, as JSON.
func (s *Server) recon(x *exchange) error {
	name := strings.TrimSuffix(strings.TrimPrefix(x.in.FullPath(), "/recon/"), "/")
	order := orders[name]
	if x.in.Method != http.MethodPost {
		order = nil
	}
	if x.in.Method != http.MethodGet && order == nil {
		return fail(http.StatusMethodNotAllowed, "The method is not allowed for this resource.").with("Allow", "GET")
	}
	var figures any
	var err error
	if order != nil {
		figures, err = order(s, x)
	} else {
		figures, err = s.figures(name)
	}
	if err != nil {
		return err
	}
	if figures == nil {
		return fail(http.StatusNotFound, "Invalid path: %s", x.in.FullPath())
	}
	body, err := json.Marshal(figures)
	if err != nil {
		return err
	}
	x.set("Content-Type", "application/json")
	return x.answerBytes(body)
}

// figures returns the figures under a name, nil if there are none of that name.
func (s *Server) figures(name string) (any, error) {
	switch name {
	case "damages":
		return s.knownDamages(), nil
	case "backend_ratelimit":
		return map[string]any{"refused": s.limiter.Refusals()}, nil
	case "grid":
		return s.door.figures(), nil
	case "relinker":
		return s.relinker.Progress(), nil
	}
	return s.reporter.Figures(name)
}

func (x *exchange) answerBytes(body []byte) error {
	x.out.Length = int64(len(body))
	x.answer(http.StatusOK)
	if x.in.Method != http.MethodHead {
		n, _ := x.carrier.Write(body) // fails only if the client has gone
		x.bytesOut = int64(n)
	}
	return nil
}
