package background

import (
	"context"

	"golang.org/x/time/rate"
)

// burst is how many bytes may pass at once.
const burst = 256 << 10

// Rate bounds what passes in a second: bytes, or anything else. Safe for concurrent use.
type Rate struct{ limiter *rate.Limiter }

// NewRate limits to so much a second; 0: no limit.
func NewRate(limit int64) *Rate {
	r := &Rate{rate.NewLimiter(rate.Inf, burst)}
	r.Set(limit)
	return r
}

// Set changes the limit.
func (r *Rate) Set(limit int64) {
	if limit == 0 {
		r.limiter.SetLimit(rate.Inf)
		return
	}
	r.limiter.SetLimit(rate.Limit(limit))
	r.limiter.SetBurst(int(min(max(limit, 1), burst))) // of few a second, not many at once
}

// Wait waits until so much may pass. A limit that changes meanwhile counts from the next burst on.
func (r *Rate) Wait(ctx context.Context, amount int64) error {
	for amount > 0 {
		n := min(amount, int64(r.limiter.Burst()))
		err := r.limiter.WaitN(ctx, int(n))
		if err != nil && n > int64(r.limiter.Burst()) { // another limit was set meanwhile
			continue
		}
		if err != nil {
			return err
		}
		amount -= n
	}
	return nil
}
