package ratelimit

import (
	"errors"
	"io/fs"
)

// ratesAt returns the limits, read again when it is time to.
func (l *Limiter) ratesAt(now int64) *rates {
	if l.interval > 0 {
		if due := l.reloadAt.Load(); now >= due && l.reloadAt.CompareAndSwap(due, now+int64(l.interval)) {
			l.load()
		}
	}
	return l.current.Load()
}

// load reads the file. Where it cannot be read, or makes no sense, the limits stay as they are.
func (l *Limiter) load() {
	l.reloading.Lock()
	defer l.reloading.Unlock()
	read, err := readRates(l.path, l.base)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if l.wasThere {
			l.logger.Warn("the file of the rate limits is not there; they stay as they are", "path", l.path)
		}
		l.wasThere = false
	case err != nil:
		l.logger.Warn("the rate limits stay as they are", "error", err)
	default:
		l.wasThere = true
		if read != *l.current.Load() {
			l.current.Store(&read)
			l.logger.Info("rate limits read", "path", l.path)
		}
	}
}
