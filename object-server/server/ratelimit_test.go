package server

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// limiterOf makes a limiter with the lines of a [filter:backend_ratelimit] section.
func limiterOf(t testing.TB, lines ...string) (*ratelimiter, *syncBuffer) {
	t.Helper()
	config, err := readLimits(t, strings.Join(lines, "\n"))
	if err != nil {
		t.Fatal(err)
	}
	log := &syncBuffer{}
	return newRatelimiter(&config.Ratelimit, slog.New(slog.NewTextHandler(log, nil))), log
}

// readLimits reads a configuration with a section of limits; DIR in it is the directory of the file.
func readLimits(t testing.TB, lines string) (*Config, error) {
	t.Helper()
	return ReadConfig(writeConfig(t, "[DEFAULT]\nswift_dir = DIR\n[filter:backend_ratelimit]\n"+lines+"\n", cluster))
}

// ask is the answer to a request that comes some time after the limiter's start.
func (l *ratelimiter) ask(method, path string, after time.Duration) int {
	x := &exchange{r: httptest.NewRequest(method, path, nil), received: l.started.Add(after)}
	var refused *failure
	if errors.As(l.admit(x), &refused) {
		return refused.status
	}
	return 200
}

func (l *ratelimiter) expect(t *testing.T, after time.Duration, requests string, want ...int) {
	t.Helper()
	for i, request := range strings.Split(requests, ", ") {
		method, path, _ := strings.Cut(request, " ")
		if path == "" {
			path = objectPath
		}
		if got := l.ask(method, path, after); got != want[i] {
			t.Errorf("%v: request %d of %q is answered %d, want %d", after, i, requests, got, want[i])
		}
	}
}

func TestADeviceTakesSoManyRequestsInASecond(t *testing.T) {
	l, _ := limiterOf(t, "requests_per_device_per_second = 8", "requests_per_device_rate_buffer = 0")
	l.expect(t, 0, "GET, PUT, GET /sdb/7/a/c/o", 200, 529, 200)
	taken := 0
	for i := 1; i <= 640; i++ {
		if l.ask("GET", objectPath, time.Duration(i)*time.Second/64) == 200 {
			taken++
		}
	}
	if taken != 80 {
		t.Errorf("%d in 10 seconds, want 80", taken)
	}
}

func TestEachMethodHasALimitOfItsOwn(t *testing.T) {
	l, _ := limiterOf(t, "put_requests_per_device_per_second = 1", "replicate_requests_per_device_per_second = 1")
	l.expect(t, 0, "PUT, PUT, GET, GET, DELETE, REPLICATE, REPLICATE", 200, 529, 200, 200, 200, 200, 529)
}

func TestWhatOneLimitRefusesDoesNotCountForTheOther(t *testing.T) {
	l, _ := limiterOf(t, "put_requests_per_device_per_second = 0.1", "requests_per_device_per_second = 1")
	l.expect(t, 0, "PUT", 200)
	l.expect(t, time.Second, "PUT, GET, GET", 529, 200, 529)
}

// A device that was idle may catch up, one that was never asked has nothing to catch up.
func TestNoBurstAtTheStart(t *testing.T) {
	l, _ := limiterOf(t, "requests_per_device_per_second = 4")
	l.expect(t, 0, "GET, GET", 200, 529)
	l.expect(t, time.Hour, "GET, GET, GET, GET, GET, GET", 200, 200, 200, 200, 200, 529)
	l.expect(t, time.Hour, "GET /sdb/1/a/c/o, GET /sdb/1/a/c/o", 200, 529)
}

func TestWhatIsAboutNoDeviceIsNotLimited(t *testing.T) {
	l, _ := limiterOf(t, "requests_per_device_per_second = 0.001")
	for _, request := range []string{
		"GET /", "GET /sda", "GET /sda/", "GET /sda/x/a/c/o", "GET //7/a/c/o", "GET /../7/a/c/o", "COPY " + objectPath,
	} {
		l.expect(t, 0, request+", "+request, 200, 200)
	}
	l.expect(t, 0, "GET /sda/7, GET /sda/7", 200, 529)
}

func TestNamesOfDevicesAreBounded(t *testing.T) {
	l, _ := limiterOf(t, "requests_per_device_per_second = 1")
	for i := range 3 * devicesLimitedMax {
		l.ask("GET", fmt.Sprintf("/d%d/7/a/c/o", i), 0)
	}
	if count := len(l.refusals()); count > devicesLimitedMax {
		t.Errorf("%d names are remembered", count)
	}
}

// However many ask at once, and while the file is read again, none is let through twice for the same turn.
func TestConcurrentRequestsShareALimit(t *testing.T) {
	path := filepath.Join(t.TempDir(), "limits")
	limits := "requests_per_device_per_second = 1000\nput_requests_per_device_per_second = 100\n" +
		"requests_per_device_rate_buffer = 0\n"
	if err := os.WriteFile(path, []byte("[backend_ratelimit]\n"+limits), 0o600); err != nil {
		t.Fatal(err)
	}
	l, _ := limiterOf(t, "backend_ratelimit_conf_path = "+path, "config_reload_interval = 0.05")
	var clock, puts, gets, refused atomic.Int64
	var all sync.WaitGroup
	for range 8 {
		all.Add(1)
		go func() {
			defer all.Done()
			for now := clock.Add(1); now <= 10_000; now = clock.Add(1) { // 1 a millisecond
				for method, taken := range map[string]*atomic.Int64{"PUT": &puts, "GET": &gets} {
					if l.ask(method, objectPath, time.Duration(now)*time.Millisecond) == 200 {
						taken.Add(1)
					} else {
						refused.Add(1)
					}
				}
			}
		}()
	}
	all.Wait()
	// A goroutine that is behind asks with an older clock, so that a few turns are not taken.
	if total := puts.Load() + gets.Load(); puts.Load() > 1001 || total > 10_001 || puts.Load() < 500 || total < 5_000 {
		t.Errorf("%d PUTs, %d GETs", puts.Load(), gets.Load())
	}
	counted := l.refusals()["sda"]
	if counted["PUT"]+counted["GET"] != refused.Load() {
		t.Errorf("counted %v, refused %d", counted, refused.Load())
	}
}

func TestTheFileIsReadAgain(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "limits")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	l, log := limiterOf(t, "put_requests_per_device_per_second = 0.001", "backend_ratelimit_conf_path = "+path)
	l.expect(t, 0, "GET, GET, PUT, PUT", 200, 200, 200, 529)
	write("[backend_ratelimit]\nget_requests_per_device_per_second = 0.001\nput_requests_per_device_per_second = 0\n")
	l.expect(t, 59*time.Second, "GET, GET", 200, 200)
	l.expect(t, 61*time.Second, "GET, GET, PUT, PUT", 200, 529, 200, 200)
	for i, wrong := range []string{"[backend_ratelimit]\nspeed = 1\n", "[backend_ratelimit\n", "[x]\n", "[backend_ratelimit]\n" +
		"get_requests_per_device_per_second = -1\n"} {
		write(wrong)
		l.expect(t, time.Duration(122+61*i)*time.Second, "GET", 529)
		if got := strings.Count(log.String(), "the rate limits stay as they are"); got != i+1 {
			t.Errorf("%q: said %d times: %s", wrong, got, log.String())
		}
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	l.expect(t, 400*time.Second, "GET", 529)
	l.expect(t, 500*time.Second, "GET", 529)
	if got := strings.Count(log.String(), "is not there"); got != 2 { // at the start, and when it went
		t.Errorf("said %d times: %s", got, log.String())
	}
	// What the file no longer has comes from the section again.
	write("[DEFAULT]\ndelete_requests_per_device_per_second = 0.001\n[backend_ratelimit]\n")
	l.expect(t, 600*time.Second, "GET, GET, PUT, DELETE, DELETE", 200, 200, 529, 200, 529)
}

func TestTheFileIsLookedForInSwiftDir(t *testing.T) {
	path := writeConfig(t, "[DEFAULT]\nswift_dir = DIR\n[filter:backend_ratelimit]\nconfig_reload_interval = 0\n", cluster)
	file := filepath.Join(filepath.Dir(path), "backend-ratelimit.conf")
	if err := os.WriteFile(file, []byte("[backend_ratelimit]\npost_requests_per_device_per_second = 0.5\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	config, err := ReadConfig(path)
	if err != nil {
		t.Fatal(err)
	}
	l := newRatelimiter(&config.Ratelimit, slog.New(slog.DiscardHandler))
	l.expect(t, 0, "POST, POST", 200, 529)
	if err := os.WriteFile(file, []byte("[backend_ratelimit]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	l.expect(t, time.Second, "POST", 529) // with interval 0 it is read once
}

func TestThePipelineSaysWhetherThereAreLimits(t *testing.T) {
	section := "[filter:backend_ratelimit]\nuse = egg:swift#backend_ratelimit\nrequests_per_device_per_second = 5\n"
	for text, want := range map[string]bool{
		"":      false,
		section: true,
		"[pipeline:main]\npipeline = healthcheck recon object-server\n" + section:                       false,
		"[pipeline:main]\npipeline = healthcheck recon backend_ratelimit object-server\n" + section:     true,
		"[pipeline:main]\npipeline = healthcheck\n    backend_ratelimit\n    object-server\n" + section: true,
	} {
		config, err := ReadConfig(writeConfig(t, "[DEFAULT]\nswift_dir = DIR\n"+text, cluster))
		if err != nil || config.Ratelimit.Enabled != want {
			t.Errorf("%q: %+v, %v", text, config, err)
		}
	}
}

func TestWrongLimitsAreRefusedAtTheStart(t *testing.T) {
	for lines, part := range map[string]string{
		"get_requests_per_device_per_second = -1":              "[filter:backend_ratelimit] get_requests_per_device_per_second = -1: must be",
		"put_requests_per_device_per_second = NaN":             "must be a number not below 0",
		"config_reload_interval = often":                       "must be a number not below 0",
		"copy_requests_per_device_per_second = 1":              "unknown option",
		"backend_ratelimit_conf_path = DIR/object-server.conf": "has no section [backend_ratelimit]",
	} {
		if _, err := readLimits(t, lines); err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%s: %v", lines, err)
		}
	}
}

func TestARequestBeyondTheLimitDoesNothing(t *testing.T) {
	f := newFixture(t, func(c *Config) {
		c.Ratelimit.Enabled, c.Ratelimit.path = true, filepath.Join(c.SwiftDir, "none")
		c.Ratelimit.base.perSecond[kindOf(http.MethodPut)] = 0.001
	})
	f.mustPut(objectPath, "first", "1700000000.00000")
	got := f.put(objectPath, "second", "1700000001.00000")
	f.expect(got, 529, "PUT beyond the limit")
	f.expect(f.put(objectPath, strings.Repeat("x", 1<<20), "1700000001.00000", "Expect", "100-continue"), 529, "a large one")
	if got := f.do("GET", objectPath, ""); got.status != 200 || got.body != "first" {
		t.Errorf("GET: %+v", got)
	}
	if got := f.do("GET", "/recon/backend_ratelimit", ""); got.body != `{"refused":{"sda":{"PUT":2}}}` {
		t.Errorf("recon: %+v", got)
	}
}

func TestEachRequestOfABatchIsLimitedByItself(t *testing.T) {
	f := newFixture(t, func(c *Config) {
		c.Ratelimit.Enabled, c.Ratelimit.path = true, filepath.Join(c.SwiftDir, "none")
		c.Ratelimit.base.perSecond[kindOf(http.MethodPut)] = 0.001
	})
	got := f.batch(partOf("a", "") + partOf("b", "") + partOf("c", ""))
	f.expect(got, 200, "the batch")
	statuses := map[int]int{}
	for _, answer := range partAnswers(t, got.body) {
		statuses[answer.status]++
	}
	if statuses[201] != 1 || statuses[529] != 2 {
		t.Errorf("answers: %v", statuses)
	}
}

func BenchmarkRatelimit(b *testing.B) {
	for name, lines := range map[string]string{
		"no limit": "", "limit of the device": "requests_per_device_per_second = 1e9",
		"both":    "requests_per_device_per_second = 1e9\nput_requests_per_device_per_second = 1e9",
		"refused": "put_requests_per_device_per_second = 0.001",
	} {
		l, _ := limiterOf(b, lines)
		for _, devices := range []int{1, 8} {
			b.Run(fmt.Sprintf("%s, %d devices", name, devices), func(b *testing.B) {
				var number atomic.Int64
				b.RunParallel(func(pb *testing.PB) {
					path := fmt.Sprintf("/d%d/7/a/c/o", number.Add(1)%int64(devices))
					x := &exchange{r: httptest.NewRequest("PUT", path, nil)}
					for pb.Next() {
						x.received = time.Now()
						_ = l.admit(x)
					}
				})
			})
		}
	}
}
