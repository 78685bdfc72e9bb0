package server

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"gopkg.in/ini.v1"
)

// RatelimitConfig is the section [filter:backend_ratelimit]. As in Swift a file of its own may hold the limits, too,
// goes before the section, and is read again while the server runs.
type RatelimitConfig struct {
	Enabled        bool
	ReloadInterval time.Duration // 0: the file is read at the start alone

	base    rates
	path    string
	isNamed bool // in the section; else path is where the file is looked for
}

const (
	ratelimitName        = "backend_ratelimit" // of the filter, and of the section in its own file
	ratelimitSection     = "filter:" + ratelimitName
	ratelimitFile        = "backend-ratelimit.conf"
	ratelimitPerDevice   = "requests_per_device_per_second"
	ratelimitRateBuffer  = "requests_per_device_rate_buffer"
	requestsPerSecondMax = 1e9
)

func (c *RatelimitConfig) options() []option {
	return append(c.base.options(ratelimitSection),
		option{ratelimitSection, "backend_ratelimit_conf_path", "", func(value string) error {
			c.path, c.isNamed = value, value != ""
			return nil
		}},
		option{ratelimitSection, "config_reload_interval", "60.0", atLeastZero(func(value float64) {
			c.ReloadInterval = time.Duration(value * float64(time.Second))
		})},
	)
}

// options are those that may stand in the section and in the file.
func (r *rates) options(section string) []option {
	options := []option{{section, ratelimitRateBuffer, "1.0", atLeastZero(func(value float64) {
		r.buffer = time.Duration(value * float64(time.Second))
	})}}
	for kind, method := range limitedMethods {
		name := ratelimitPerDevice
		if kind != allMethods {
			name = strings.ToLower(method) + "_" + ratelimitPerDevice
		}
		options = append(options, option{section, name, "0.0", atLeastZero(func(value float64) { r.perSecond[kind] = value })})
	}
	return options
}

func atLeastZero(set func(float64)) func(string) error {
	return func(value string) error {
		number, err := strconv.ParseFloat(value, 64)
		if err != nil || !(number >= 0 && number <= requestsPerSecondMax) {
			return errors.New("must be a number not below 0")
		}
		set(number)
		return nil
	}
}

// finish is called when the configuration file has been read. As in PasteDeploy the filter counts where the pipeline
// names it; a file without a pipeline has it if it has its section.
func (c *RatelimitConfig) finish(file *ini.File, swiftDir string) error {
	c.Enabled = file.HasSection(ratelimitSection)
	if pipeline := "pipeline:main"; file.HasSection(pipeline) {
		c.Enabled = slices.Contains(strings.Fields(file.Section(pipeline).Key("pipeline").Value()), ratelimitName)
	}
	if !c.isNamed {
		c.path = filepath.Join(swiftDir, ratelimitFile)
	}
	if !c.Enabled {
		return nil
	}
	_, err := readRates(c.path, c.base) // what is wrong at the start is said at once
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// readRates returns base as changed by the file at path.
func readRates(path string, base rates) (rates, error) {
	if _, err := os.Stat(path); err != nil {
		return base, err
	}
	file, err := loadINI(path)
	if err != nil {
		return base, err
	}
	if !file.HasSection(ratelimitName) {
		return base, fmt.Errorf("%s has no section [%s]", path, ratelimitName)
	}
	options := base.options(ratelimitName)
	for _, section := range []string{ini.DefaultSection, ratelimitName} {
		for _, key := range file.Section(section).Keys() {
			if err := setOption(options, section, key); err != nil {
				return base, fmt.Errorf("%s: %w", path, err)
			}
		}
	}
	return base, nil
}

// ratesAt returns the limits, read again when it is time to.
func (l *ratelimiter) ratesAt(now int64) *rates {
	if l.interval > 0 {
		if due := l.reloadAt.Load(); now >= due && l.reloadAt.CompareAndSwap(due, now+int64(l.interval)) {
			l.load()
		}
	}
	return l.current.Load()
}

// load reads the file. Where it cannot be read, or makes no sense, the limits stay as they are.
func (l *ratelimiter) load() {
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
