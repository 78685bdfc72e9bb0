package server

import (
	"context"
	"errors"
	"log/slog"
	"net/http"

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
	s.logger.LogAttrs(ctx, level, "request", requestFields(x)...)
}

// requestFields returns the fields of a request's line. A request over the grid that has not failed has a short line. The
// line of the proxy for the same transaction has its names and its client.
func requestFields(x *exchange) []slog.Attr {
	transaction := x.header(message.TransactionID)
	isShort := x.in.IsOfGrid() && transaction != "" && (x.status < 400 || x.status == http.StatusNotFound)
	fields := make([]slog.Attr, 0, 10)
	path := x.in.FullPath()
	if isShort {
		path = x.in.Place()
	} else {
		fields = append(fields, slog.String("remote", x.in.Remote))
	}
	fields = append(fields, slog.String("method", x.in.Method), slog.String("path", path), slog.Int("status", x.status))
	counted := func(name string, value int64) {
		if value != 0 || !isShort {
			fields = append(fields, slog.Int64(name, value))
		}
	}
	counted("in", x.bytesIn)
	counted("out", x.bytesOut)
	counted("us", x.elapsed().Microseconds())
	counted("update_us", x.updateWait.Microseconds())
	fields = append(fields, slog.String("txn", transaction))
	counted("policy", int64(x.at.Policy))
	return fields
}

// isKnown reports whether the device logs the cause itself: it is full or does not answer. Many requests fail then.
func isKnown(cause error) bool {
	return errors.Is(cause, device.ErrNoSpace) || errors.Is(cause, device.ErrBusy) || errors.Is(cause, device.ErrStuck)
}
