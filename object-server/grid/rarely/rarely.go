// Package rarely logs what a stranger can cause any number of times.
//
// Invariant: of each kind there is one line in QuietTime, and the next line says how many were left out. The kinds are
// sentences of the code, never of a peer, so that there are few.
//
// Packages grid, grid/login and server use it.
package rarely

import (
	"log/slog"
	"sync"
	"time"
)

// QuietTime is how long a kind of warning is not repeated.
const QuietTime = time.Second

// Log logs warnings. The zero value is ready; safe for concurrent use.
type Log struct {
	mu    sync.Mutex
	kinds map[string]*quiet
}

type quiet struct {
	until   time.Time
	leftOut int
}

// Warn logs a warning unless one of its kind was logged less than QuietTime before now.
func (l *Log) Warn(to *slog.Logger, now time.Time, kind, sentence string, attributes ...any) {
	leftOut, isDue := l.take(now, kind)
	if !isDue {
		return
	}
	if leftOut > 0 {
		attributes = append(attributes, slog.Int("left_out", leftOut))
	}
	to.Warn(sentence, attributes...)
}

// take reports whether a warning is due, and how many of its kind were left out before it.
func (l *Log) take(now time.Time, kind string) (leftOut int, isDue bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	q := l.kinds[kind]
	if q == nil {
		if l.kinds == nil {
			l.kinds = map[string]*quiet{}
		}
		q = &quiet{}
		l.kinds[kind] = q
	}
	if now.Before(q.until) {
		q.leftOut++
		return 0, false
	}
	leftOut = q.leftOut
	q.until, q.leftOut = now.Add(QuietTime), 0
	return leftOut, true
}
