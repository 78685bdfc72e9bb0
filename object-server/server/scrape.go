package server

import (
	"net/http"
	"net/netip"

	"martlet/object-server/grid/login"
	"martlet/object-server/server/metrics"
)

// mayScrape reports whether a request for the metrics comes from an address that may read them.
func (s *Server) mayScrape(r *http.Request) bool {
	from, err := netip.ParseAddrPort(r.RemoteAddr)
	return err == nil && login.IsPlain(s.config.MetricsFrom, from.Addr())
}

// ownFigures are what this package knows for the metrics.
func (s *Server) ownFigures() metrics.Figures {
	grid := s.door.figures()
	own := metrics.Figures{
		GridConnections: grid.Connections, GridRefused: s.door.refused(), GridProtocolErrors: grid.ProtocolErrors,
		Refused: s.limiter.Refusals(), Damages: map[string]int{},
	}
	for _, one := range s.knownDamages() {
		own.Damages[one.Device] = one.Count
	}
	return own
}

// count adds a request that has ended to the metrics.
func (s *Server) count(x *exchange) {
	policy := -1
	if x.in.Object != "" {
		policy = x.at.Policy
	}
	s.metrics.Requests.Add(x.in.Method, policy, x.status, x.elapsed())
}
