// Package metrics shows the figures of a server under GET /metrics, in the format of Prometheus (doc/metrics.md).
//
// Invariants: a request costs one look-up and two atomic additions. A scrape changes nothing. A device that does not
// answer hides the figures of no other.
package metrics
