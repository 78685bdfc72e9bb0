package updates

import (
	"cmp"
	"sync"
	"time"
)

// backoff remembers which hosts and databases failed and when to try them again. It is safe for concurrent use.
type backoff struct {
	pauseMin time.Duration // doubled with each failure
	pauseMax time.Duration

	mu     sync.Mutex
	pauses map[Target]pause // a Target with nothing but Host stands for the whole server
	clears uint64           // how often a host came back
}

type pause struct {
	length time.Duration
	until  time.Time
	reason string
}

func newBackoff(pauseMin, pauseMax time.Duration) *backoff {
	return &backoff{pauseMin: pauseMin, pauseMax: pauseMax, pauses: map[Target]pause{}}
}

// ready tells whether target may be tried now; if not, when.
func (b *backoff) ready(target Target, now time.Time) (time.Time, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	until := b.pauses[target].until
	if host := b.pauses[Target{Host: target.Host}].until; host.After(until) {
		until = host
	}
	return until, !until.After(now)
}

// reason says why target is not tried now; empty if it is not known to have failed.
func (b *backoff) reason(target Target) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return cmp.Or(b.pauses[target].reason, b.pauses[Target{Host: target.Host}].reason)
}

// failed notes a failure: of the database if the server answered, else of the server. It returns when to try again.
func (b *backoff) failed(target Target, err error, now time.Time) time.Time {
	reason := reasonOf(target, err)
	if !isAnswer(err) {
		target = Target{Host: target.Host}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	length := min(max(2*b.pauses[target].length, b.pauseMin), b.pauseMax)
	b.pauses[target] = pause{length: length, until: now.Add(length), reason: reason}
	return now.Add(length)
}

// delivered forgets the failures of target and its host.
func (b *backoff) delivered(target Target) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.pauses, target)
	delete(b.pauses, Target{Host: target.Host})
}

// clear forgets the failures of a host that answers again.
func (b *backoff) clear(host string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, ok := b.pauses[Target{Host: host}]; ok {
		delete(b.pauses, Target{Host: host})
		b.clears++
	}
}

// generation changes whenever a host comes back before its pause is over.
func (b *backoff) generation() uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.clears
}
