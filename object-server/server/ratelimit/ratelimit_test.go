package ratelimit

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"martlet/object-server/server/option"
)

const section = "[" + Section + "]\n"

// limiterOf makes a limiter with the lines of a [filter:backend_ratelimit] section.
func limiterOf(t testing.TB, lines ...string) (*Limiter, *bytes.Buffer) {
	t.Helper()
	config, err := readConfig(t, section+strings.Join(lines, "\n"))
	if err != nil {
		t.Fatal(err)
	}
	log := &bytes.Buffer{}
	return New(config, slog.New(slog.NewTextHandler(log, nil))), log
}

// readConfig reads a server's file, as package conf does; DIR in it is the directory of the file.
func readConfig(t testing.TB, text string) (*Config, error) {
	t.Helper()
	dir := t.TempDir()
	return readConfigIn(t, dir, text)
}

func readConfigIn(t testing.TB, dir, text string) (*Config, error) {
	t.Helper()
	path := filepath.Join(dir, "object-server.conf")
	if err := os.WriteFile(path, []byte(strings.ReplaceAll(text, "DIR", dir)), 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := option.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	config := &Config{}
	options := config.Options()
	if err := option.SetDefaults(options); err != nil {
		t.Fatal(err)
	}
	if file.HasSection(Section) {
		for _, key := range file.Section(Section).Keys() {
			if err := option.Set(options, Section, key); err != nil {
				return nil, err
			}
		}
	}
	return config, config.Finish(file, dir)
}

// ask is the answer to a request for a device, some time after the limiter's start.
func (l *Limiter) ask(method, device string, after time.Duration) int {
	if l.Admit(method, device, l.started.Add(after)) {
		return 200
	}
	return 529
}

func (l *Limiter) expect(t *testing.T, after time.Duration, requests string, want ...int) {
	t.Helper()
	for i, request := range strings.Split(requests, ", ") {
		method, device, _ := strings.Cut(request, " ")
		if device == "" {
			device = "sda"
		}
		if got := l.ask(method, device, after); got != want[i] {
			t.Errorf("%v: request %d of %q is answered %d, want %d", after, i, requests, got, want[i])
		}
	}
}

func TestADeviceTakesSoManyRequestsInASecond(t *testing.T) {
	l, _ := limiterOf(t, "requests_per_device_per_second = 8", "requests_per_device_rate_buffer = 0")
	l.expect(t, 0, "GET, PUT, GET sdb", 200, 529, 200)
	taken := 0
	for i := 1; i <= 640; i++ {
		if l.ask("GET", "sda", time.Duration(i)*time.Second/64) == 200 {
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

// A device that was idle may use that time later; a device without an earlier request has none.
func TestNoBurstAtTheStart(t *testing.T) {
	l, _ := limiterOf(t, "requests_per_device_per_second = 4")
	l.expect(t, 0, "GET, GET", 200, 529)
	l.expect(t, time.Hour, "GET, GET, GET, GET, GET, GET", 200, 200, 200, 200, 200, 529)
	l.expect(t, time.Hour, "GET sdb, GET sdb", 200, 529)
}

func TestNamesOfDevicesAreBounded(t *testing.T) {
	l, _ := limiterOf(t, "requests_per_device_per_second = 1")
	for i := range 3 * devicesLimitedMax {
		l.ask("GET", fmt.Sprintf("d%d", i), 0)
	}
	if count := len(l.Refusals()); count > devicesLimitedMax {
		t.Errorf("%d names are remembered", count)
	}
}

// Concurrent requests never share a turn, even while the file is read again.
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
					if l.ask(method, "sda", time.Duration(now)*time.Millisecond) == 200 {
						taken.Add(1)
					} else {
						refused.Add(1)
					}
				}
			}
		}()
	}
	all.Wait()
	// A goroutine that is late uses an older clock, so a few turns are not used.
	if total := puts.Load() + gets.Load(); puts.Load() > 1001 || total > 10_001 || puts.Load() < 500 || total < 5_000 {
		t.Errorf("%d PUTs, %d GETs", puts.Load(), gets.Load())
	}
	counted := l.Refusals()["sda"]
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
		if got := strings.Count(log.String(), "rate limits do not change: their file cannot be used"); got != i+1 {
			t.Errorf("%q: said %d times: %s", wrong, got, log.String())
		}
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	l.expect(t, 400*time.Second, "GET", 529)
	l.expect(t, 500*time.Second, "GET", 529)
	if got := strings.Count(log.String(), "does not exist"); got != 2 { // at the start, and when it went
		t.Errorf("said %d times: %s", got, log.String())
	}
	// Options that the file does not have any more come from the section again.
	write("[DEFAULT]\ndelete_requests_per_device_per_second = 0.001\n[backend_ratelimit]\n")
	l.expect(t, 600*time.Second, "GET, GET, PUT, DELETE, DELETE", 200, 200, 529, 200, 529)
}

func TestTheFileIsLookedForInSwiftDir(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "backend-ratelimit.conf")
	if err := os.WriteFile(file, []byte("[backend_ratelimit]\npost_requests_per_device_per_second = 0.5\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	config, err := readConfigIn(t, dir, section+"config_reload_interval = 0\n")
	if err != nil {
		t.Fatal(err)
	}
	l := New(config, slog.New(slog.DiscardHandler))
	l.expect(t, 0, "POST, POST", 200, 529)
	if err := os.WriteFile(file, []byte("[backend_ratelimit]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	l.expect(t, time.Second, "POST", 529) // with interval 0 it is read once
}

func TestThePipelineSaysWhetherThereAreLimits(t *testing.T) {
	section := section + "use = egg:swift#backend_ratelimit\nrequests_per_device_per_second = 5\n"
	for text, want := range map[string]bool{
		"":      false,
		section: true,
		"[pipeline:main]\npipeline = healthcheck recon object-server\n" + section:                       false,
		"[pipeline:main]\npipeline = healthcheck recon backend_ratelimit object-server\n" + section:     true,
		"[pipeline:main]\npipeline = healthcheck\n    backend_ratelimit\n    object-server\n" + section: true,
	} {
		config, err := readConfig(t, text)
		if err != nil || config.Enabled != want {
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
		if _, err := readConfig(t, section+lines); err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%s: %v", lines, err)
		}
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
					device := fmt.Sprintf("d%d", number.Add(1)%int64(devices))
					for pb.Next() {
						_ = l.Admit("PUT", device, time.Now())
					}
				})
			})
		}
	}
}
