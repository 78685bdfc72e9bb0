package server

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"time"
)

// handshakeQuiet is how long one line about a failed handshake of TLS stands for all.
const handshakeQuiet = 10 * time.Second

// handshakeLog is for net/http, which says all it has to say at one level: failed handshakes of TLS become warnings, since
// they tell that another server does not accept this one. A flood of them is one line in ten seconds.
type handshakeLog struct {
	slog.Handler
	mu    *sync.Mutex
	until *time.Time // guarded by mu
}

func newHandshakeLog(handler slog.Handler) slog.Handler {
	return handshakeLog{handler, &sync.Mutex{}, &time.Time{}}
}

// Enabled lets Handle decide.
func (h handshakeLog) Enabled(context.Context, slog.Level) bool { return true }

// Handle raises the level of a failed handshake.
func (h handshakeLog) Handle(ctx context.Context, r slog.Record) error {
	if strings.Contains(r.Message, "TLS handshake error") {
		h.mu.Lock()
		isFirst := r.Time.After(*h.until)
		if isFirst {
			*h.until = r.Time.Add(handshakeQuiet)
		}
		h.mu.Unlock()
		if isFirst {
			r.Level = slog.LevelWarn
		}
	}
	if !h.Handler.Enabled(ctx, r.Level) {
		return nil
	}
	return h.Handler.Handle(ctx, r)
}
