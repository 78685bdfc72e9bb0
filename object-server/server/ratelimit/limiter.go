package ratelimit

import (
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// limitedMethods each have a limit for each device. The first entry stands for all of them together.
var limitedMethods = [...]string{
	allMethods: "", "DELETE", http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, "REPLICATE", "UPDATE",
}

const allMethods = 0

// rates are limits for each device, in the order of limitedMethods.
type rates struct {
	perSecond [len(limitedMethods)]float64 // 0: no limit
	buffer    time.Duration                // of unused time that a device may use later
}

func (r *rates) limitsAny() bool { return r.perSecond != [len(limitedMethods)]float64{} }

// step is the time between two requests at a limit, in nanoseconds; 0 without a limit.
func (r *rates) step(kind int) int64 {
	if r.perSecond[kind] == 0 {
		return 0
	}
	return int64(min(float64(time.Second)/r.perSecond[kind], 1e18))
}

// Limiter refuses requests beyond the limits of a device. Safe for concurrent use; no request waits for another.
type Limiter struct {
	logger   *slog.Logger
	started  time.Time
	path     string
	base     rates // without the file
	interval time.Duration

	reloadAt  atomic.Int64 // nanoseconds since started
	reloading sync.Mutex
	wasThere  bool // the file is expected; guarded by reloading

	current atomic.Pointer[rates]
	devices sync.Map // name -> *deviceTurns
	known   atomic.Int64
}

// deviceTurns has for each limit the time of its next request, in nanoseconds since the limiter's start.
type deviceTurns struct {
	next    [len(limitedMethods)]atomic.Int64
	refused [len(limitedMethods)]atomic.Int64 // by the method asked
}

// devicesLimitedMax bounds the names of devices in memory; names come from requests.
const devicesLimitedMax = 1024

// New returns nil where the configuration does not ask for limits.
func New(config *Config, logger *slog.Logger) *Limiter {
	if !config.Enabled {
		return nil
	}
	l := &Limiter{
		logger: logger, started: time.Now(), path: config.path, base: config.base, interval: config.ReloadInterval,
		wasThere: config.isNamed,
	}
	l.current.Store(&l.base)
	l.reloadAt.Store(int64(l.interval))
	l.load()
	return l
}

// Admit reports whether a request to a device may be served now, by the limits of its method and of all methods.
// Without the name of a device it may.
func (l *Limiter) Admit(method, device string, at time.Time) bool {
	now := int64(at.Sub(l.started))
	limits := l.ratesAt(now)
	kind := kindOf(method)
	if !limits.limitsAny() || kind == allMethods || device == "" {
		return true
	}
	turns := l.turnsOf(device, now)
	if turns.take(limits, kind, now) {
		return true
	}
	turns.refused[kind].Add(1)
	return false
}

func kindOf(method string) int {
	for kind, name := range limitedMethods {
		if name == method {
			return kind
		}
	}
	return allMethods
}

// turnsOf returns the turns of a device. A new device has no unused time.
func (l *Limiter) turnsOf(device string, now int64) *deviceTurns {
	if found, ok := l.devices.Load(device); ok {
		return found.(*deviceTurns)
	}
	fresh := &deviceTurns{}
	for kind := range fresh.next {
		fresh.next[kind].Store(now)
	}
	if l.known.Add(1) > devicesLimitedMax {
		l.devices.Clear()
		l.known.Store(1)
	}
	found, _ := l.devices.LoadOrStore(strings.Clone(device), fresh)
	return found.(*deviceTurns)
}

// take counts a request for its method's limit and for that of all methods, or, when one of them refuses it, for none.
func (t *deviceTurns) take(limits *rates, kind int, now int64) bool {
	buffer := int64(limits.buffer)
	all, own := limits.step(allMethods), limits.step(kind)
	if all > 0 && !takeTurn(&t.next[allMethods], now, buffer, all) {
		return false
	}
	if own > 0 && !takeTurn(&t.next[kind], now, buffer, own) {
		if all > 0 {
			t.next[allMethods].Add(-all)
		}
		return false
	}
	return true
}

func takeTurn(next *atomic.Int64, now, buffer, step int64) bool {
	for {
		turn := next.Load()
		from := max(turn, now-buffer)
		if from > now {
			return false
		}
		if next.CompareAndSwap(turn, from+step) {
			return true
		}
	}
}

// Refusals counts the requests refused, by device and method.
func (l *Limiter) Refusals() map[string]map[string]int64 {
	counts := map[string]map[string]int64{}
	if l == nil {
		return counts
	}
	l.devices.Range(func(device, turns any) bool {
		byMethod := map[string]int64{}
		for kind, method := range limitedMethods {
			if count := turns.(*deviceTurns).refused[kind].Load(); count > 0 {
				byMethod[method] = count
			}
		}
		counts[device.(string)] = byMethod
		return true
	})
	return counts
}
