package metrics

import (
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// buckets are the same as those of the Python services (martlet/metrics/requests.py).
var buckets = []float64{0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10}

// methods are those with labels of their own; clients may invent others.
var methods = map[string]string{
	http.MethodGet: "GET", http.MethodHead: "HEAD", http.MethodPut: "PUT", http.MethodPost: "POST",
	http.MethodDelete: "DELETE", http.MethodOptions: "OPTIONS",
}

// kind is the kind of a request. Policy is -1 without a policy.
type kind struct {
	method         string
	policy, status int
}

// counted is where requests of one kind are counted.
type counted struct {
	total    prometheus.Counter
	duration prometheus.Observer
}

// Requests counts the requests of a server. Safe for concurrent use.
type Requests struct {
	total    *prometheus.CounterVec
	duration *prometheus.HistogramVec

	mu    sync.RWMutex
	known map[kind]counted // guarded by mu; there are few kinds
}

func newRequests() *Requests {
	return &Requests{
		total: prometheus.NewCounterVec(prometheus.CounterOpts{Name: requestsTotal.name, Help: requestsTotal.help}, requestsTotal.labels),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: requestDuration.name, Help: requestDuration.help, Buckets: buckets}, requestDuration.labels),
		known: map[kind]counted{},
	}
}

// Add counts a request that has ended.
func (r *Requests) Add(method string, policy, status int, took time.Duration) {
	one := kind{method, policy, status}
	r.mu.RLock()
	where, ok := r.known[one]
	r.mu.RUnlock()
	if !ok {
		where = r.open(one)
	}
	where.total.Inc()
	where.duration.Observe(took.Seconds())
}

func (r *Requests) open(one kind) counted {
	method, isKnown := methods[one.method]
	if !isKnown {
		method = "other"
	}
	policy := ""
	if one.policy >= 0 {
		policy = strconv.Itoa(one.policy)
	}
	found := counted{
		r.total.WithLabelValues(method, policy, strconv.Itoa(one.status)),
		r.duration.WithLabelValues(method, policy),
	}
	if isKnown {
		r.mu.Lock()
		r.known[one] = found
		r.mu.Unlock()
	}
	return found
}
