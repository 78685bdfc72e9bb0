package server

import (
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// statusTooManyBackendRequests is Swift's answer to what is beyond a limit: the proxy asks another replica.
const statusTooManyBackendRequests = 529

// limitedMethods have a limit of their own for each device. The first stands for all of them together.
var limitedMethods = [...]string{
	allMethods: "", "DELETE", http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, "REPLICATE", "UPDATE",
}

const allMethods = 0

// rates are limits for each device, in the order of limitedMethods.
type rates struct {
	perSecond [len(limitedMethods)]float64 // 0: no limit
	buffer    time.Duration                // in which a device that was idle may catch up
}

func (r *rates) limitsAny() bool { return r.perSecond != [len(limitedMethods)]float64{} }

// step is how long one request of a limit takes up, in nanoseconds; 0 without a limit.
func (r *rates) step(kind int) int64 {
	if r.perSecond[kind] == 0 {
		return 0
	}
	return int64(min(float64(time.Second)/r.perSecond[kind], 1e18))
}

// ratelimiter refuses what is beyond the limits of a device. Safe for concurrent use; no request waits for another.
type ratelimiter struct {
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

// deviceTurns says for each limit when its next request may come, in nanoseconds since the limiter's start.
type deviceTurns struct {
	next    [len(limitedMethods)]atomic.Int64
	refused [len(limitedMethods)]atomic.Int64 // by the method asked
}

// devicesLimitedMax bounds how many names of devices are remembered; names come from requests.
const devicesLimitedMax = 1024

// newRatelimiter returns nil where the configuration has no use of it.
func newRatelimiter(config *RatelimitConfig, logger *slog.Logger) *ratelimiter {
	if !config.Enabled {
		return nil
	}
	l := &ratelimiter{
		logger: logger, started: time.Now(), path: config.path, base: config.base, interval: config.ReloadInterval,
		wasThere: config.isNamed,
	}
	l.current.Store(&l.base)
	l.reloadAt.Store(int64(l.interval))
	l.load()
	return l
}

// admit is a failure for a request that comes before its turn.
func (l *ratelimiter) admit(x *exchange) error {
	now := int64(x.received.Sub(l.started))
	limits := l.ratesAt(now)
	if !limits.limitsAny() {
		return nil
	}
	kind := kindOf(x.r.Method)
	device := deviceOf(x.r.URL.Path)
	if kind == allMethods || device == "" {
		return nil
	}
	if turns := l.turnsOf(device, now); !turns.take(limits, kind, now) {
		turns.refused[kind].Add(1)
		return fail(statusTooManyBackendRequests, "Too many requests for this device; ask another.")
	}
	return nil
}

func kindOf(method string) int {
	for kind, name := range limitedMethods {
		if name == method {
			return kind
		}
	}
	return allMethods
}

// deviceOf returns the first part of /device/partition/..., "" for a path of another form.
func deviceOf(path string) string {
	rest, ok := strings.CutPrefix(path, "/")
	device, rest, found := strings.Cut(rest, "/")
	partition, _, _ := strings.Cut(rest, "/")
	if !ok || !found || partition == "" || strings.Trim(partition, "0123456789") != "" || !isDeviceName(device) {
		return ""
	}
	return device
}

// turnsOf returns what is known of a device. One that is new has nothing to catch up.
func (l *ratelimiter) turnsOf(device string, now int64) *deviceTurns {
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

// refusals counts the requests refused, by device and method.
func (l *ratelimiter) refusals() map[string]map[string]int64 {
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
