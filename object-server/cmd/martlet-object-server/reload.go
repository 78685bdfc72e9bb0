package main

import (
	"log/slog"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"

	"martlet/object-server/server/conf"
)

// reloader handles the signals that ask a service to read its configuration again, so that none of them ends the server.
// It applies the log level, and what the server applies of martlet.conf: the locks of the devices allow no second process
// with the other options.
type reloader struct {
	path    string
	level   *slog.LevelVar
	logger  *slog.Logger
	signals chan os.Signal
	apply   atomic.Pointer[func(*conf.Config) error] // nil until the server has started
}

func newReloader(path string, level *slog.LevelVar, logger *slog.Logger) *reloader {
	r := &reloader{path: path, level: level, logger: logger, signals: make(chan os.Signal, 8)}
	signal.Notify(r.signals, syscall.SIGHUP, syscall.SIGUSR1, syscall.SIGUSR2)
	return r
}

// run answers signals for as long as the process lives.
func (r *reloader) run() {
	for received := range r.signals {
		name := nameOf(received)
		if received == syscall.SIGUSR2 {
			r.logger.Warn("signal has no meaning here", "signal", name)
			continue
		}
		config, err := conf.Read(r.path)
		if err != nil {
			r.logger.Error("reload refused, the server continues without a change", "signal", name, "error", err)
			continue
		}
		r.level.Set(config.LogLevel)
		if apply := r.apply.Load(); apply != nil {
			if err := (*apply)(config); err != nil {
				r.logger.Error("reload: log_level and [grid] of martlet.conf are applied; TLS stays as it was", "signal", name, "error", err)
				continue
			}
		}
		r.logger.Warn("reload: log_level, [grid] of martlet.conf and the certificates are applied; every other option needs a restart", "signal", name,
			"log_level", config.LogLevel.String())
	}
}

func nameOf(received os.Signal) string {
	switch received {
	case syscall.SIGHUP:
		return "SIGHUP"
	case syscall.SIGUSR1:
		return "SIGUSR1"
	case syscall.SIGUSR2:
		return "SIGUSR2"
	}
	return received.String()
}
