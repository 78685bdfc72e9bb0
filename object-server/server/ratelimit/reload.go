package ratelimit

import (
	"errors"
	"io/fs"
)

// ratesAt returns the limits, after reading the file again if the interval has passed.
func (l *Limiter) ratesAt(now int64) *rates {
	if l.interval > 0 {
		if due := l.reloadAt.Load(); now >= due && l.reloadAt.CompareAndSwap(due, now+int64(l.interval)) {
			l.load()
		}
	}
	return l.current.Load()
}

// load reads the file. If that fails, or a value is wrong, the limits do not change.
func (l *Limiter) load() {
	l.reloading.Lock()
	defer l.reloading.Unlock()
	read, err := readRates(l.path, l.base)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if l.wasThere {
			l.logger.Warn("rate limits do not change: their file does not exist", "path", l.path)
		}
		l.wasThere = false
	case err != nil:
		l.logger.Warn("rate limits do not change: their file cannot be used", "error", err)
	default:
		l.wasThere = true
		if read != *l.current.Load() {
			l.current.Store(&read)
			l.logger.Info("rate limits read", "path", l.path)
		}
	}
}
