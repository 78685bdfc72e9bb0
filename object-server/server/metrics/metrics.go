package metrics

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"martlet/object-server/server/recon"
)

// Path is where the figures are.
const Path = "/metrics"

// Figures are the facts that the server itself knows.
type Figures struct {
	GridConnections, GridRefused, GridProtocolErrors int64

	Refused map[string]map[string]int64 // by device and method
	Damages map[string]int              // by device
}

// Source is where a scrape reads.
type Source struct {
	Version  string
	Reporter *recon.Reporter
	Own      func() Figures
}

// Metrics has the figures of one server. Safe for concurrent use.
type Metrics struct {
	Requests *Requests
	handler  http.Handler
}

// New returns the metrics of a server.
func New(source Source) *Metrics {
	requests := newRequests()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(
		requests.total, requests.duration, &collector{source},
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	options := promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError, DisableCompression: true}
	return &Metrics{Requests: requests, handler: promhttp.HandlerFor(registry, options)}
}

// ServeHTTP answers GET /metrics.
func (m *Metrics) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	m.handler.ServeHTTP(w, r)
}
