package replicator

import (
	"context"

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

// wait waits until so many bytes may pass. A limit that changes meanwhile counts from the next burst on.
func wait(ctx context.Context, limiter *rate.Limiter, bytes int64) error {
	for bytes > 0 {
		n := min(bytes, burst)
		if err := limiter.WaitN(ctx, int(n)); err != nil {
			return err
		}
		bytes -= n
	}
	return nil
}
