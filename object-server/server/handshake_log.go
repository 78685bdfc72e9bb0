package server

import (
	"context"
	"log/slog"
	"strings"

	"martlet/object-server/grid/rarely"
)

// handshakeLog is for net/http, which says all it has to say at one level: failed handshakes of TLS become warnings, since
// they tell that another server does not accept this one.
type handshakeLog struct {
	slog.Handler
	quiet *rarely.Log
}

func newHandshakeLog(handler slog.Handler) slog.Handler {
	return handshakeLog{handler, &rarely.Log{}}
}

// Enabled lets Handle decide.
func (h handshakeLog) Enabled(context.Context, slog.Level) bool { return true }

// Handle raises the level of a failed handshake.
func (h handshakeLog) Handle(ctx context.Context, r slog.Record) error {
	if strings.Contains(r.Message, "TLS handshake error") {
		h.quiet.Warn(slog.New(h.Handler), r.Time, "TLS handshake", r.Message)
		return nil
	}
	if !h.Handler.Enabled(ctx, r.Level) {
		return nil
	}
	return h.Handler.Handle(ctx, r)
}
