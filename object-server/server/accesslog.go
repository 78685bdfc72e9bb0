package server

import (
	"context"
	"errors"
	"log/slog"

	"martlet/object-server/device"
	"martlet/object-server/server/message"
)

// logExchange counts a request. It logs one line for it, and one more if the server failed in it.
func (s *Server) logExchange(x *exchange) {
	s.count(x)
	ctx := context.Background()
	if x.cause != nil {
		level := slog.LevelError
		if isKnown(x.cause) {
			level = slog.LevelInfo
		}
		s.logger.LogAttrs(ctx, level, "request failed",
			slog.String("method", x.in.Method), slog.String("path", x.in.FullPath()), slog.Int("status", x.status),
			slog.String("txn", x.header(message.TransactionID)), slog.Any("error", x.cause))
	}
	level := slog.LevelInfo
	if !s.config.LogRequests || x.flag(message.Replication) {
		level = slog.LevelDebug
	}
	if !s.logger.Enabled(ctx, level) {
		return
	}
	s.logger.LogAttrs(ctx, level, "request",
		slog.String("remote", x.in.Remote),
		slog.String("method", x.in.Method),
		slog.String("path", x.in.FullPath()),
		slog.Int("status", x.status),
		slog.Int64("in", x.bytesIn),
		slog.Int64("out", x.bytesOut),
		slog.Int64("us", x.elapsed().Microseconds()),
		slog.Int64("update_us", x.updateWait.Microseconds()),
		slog.String("txn", x.header(message.TransactionID)),
		slog.Int("policy", x.at.Policy),
	)
}

// isKnown reports whether the device logs the cause itself: it is full or does not answer. Many requests fail then.
func isKnown(cause error) bool {
	return errors.Is(cause, device.ErrNoSpace) || errors.Is(cause, device.ErrBusy) || errors.Is(cause, device.ErrStuck)
}
