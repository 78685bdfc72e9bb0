package device

import (
	"sync/atomic"
	"time"
)

// pacerBurst is how many bytes may be copied at once after a pause.
const pacerBurst = 32 << 20

// pacer holds back the compactor: it may copy so many bytes a second, and beside
// that as many as clients write. So garbage does not grow without end, however
// fast it is made, and an idle device is not kept busy.
type pacer struct {
	rate        float64        // bytes a second; 0 is no limit
	written     *atomic.Uint64 // bytes that clients wrote
	stopping    chan struct{}
	isUnlimited bool // room is short

	tokens float64
	then   time.Time // when tokens were last counted
	before uint64    // what written was then
}

// wait returns when so many bytes may be copied, or errStopping.
func (p *pacer) wait(bytes int) error {
	for {
		pause := p.take(bytes, time.Now())
		select {
		case <-p.stopping:
			return errStopping
		default:
		}
		if pause == 0 {
			return nil
		}
		timer := time.NewTimer(pause)
		select {
		case <-p.stopping:
			timer.Stop()
			return errStopping
		case <-timer.C:
		}
	}
}

// pacerPause bounds one pause: clients may have written meanwhile.
const pacerPause = 50 * time.Millisecond

// take takes the tokens for so many bytes if they are there, or tells how long to
// pause before asking again.
func (p *pacer) take(bytes int, now time.Time) time.Duration {
	if p.rate == 0 || p.isUnlimited || bytes == 0 {
		return 0
	}
	written := p.written.Load()
	if p.then.IsZero() {
		p.tokens = pacerBurst
	} else {
		p.tokens += now.Sub(p.then).Seconds()*p.rate + float64(written-p.before)
	}
	p.tokens, p.then, p.before = min(p.tokens, pacerBurst), now, written
	need := min(float64(bytes), pacerBurst) // what is larger waits for a full bucket
	if p.tokens >= need {
		p.tokens -= float64(bytes)
		return 0
	}
	return min(time.Duration((need-p.tokens)/p.rate*float64(time.Second))+time.Millisecond, pacerPause)
}
