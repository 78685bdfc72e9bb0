package replicator

import (
	"context"
	"io"

	"golang.org/x/time/rate"
)

// burst is how many bytes may pass at once.
const burst = 256 << 10

// newRate limits to bytes a second; 0: no limit.
func newRate(bytes int64) *rate.Limiter {
	limiter := rate.NewLimiter(rate.Inf, burst)
	setRate(limiter, bytes)
	return limiter
}

func setRate(limiter *rate.Limiter, bytes int64) {
	if bytes == 0 {
		limiter.SetLimit(rate.Inf)
		return
	}
	limiter.SetLimit(rate.Limit(bytes))
}

// paced reads at the rate that is allowed, and counts the bytes.
type paced struct {
	io.Reader
	limiter *rate.Limiter
	ctx     context.Context
	bytes   *int64
}

// Read implements io.Reader.
func (p *paced) Read(b []byte) (int, error) {
	n, err := p.Reader.Read(b[:min(len(b), burst)])
	*p.bytes += int64(n)
	if n > 0 {
		if late := p.limiter.WaitN(p.ctx, n); late != nil {
			return n, late
		}
	}
	return n, err
}
