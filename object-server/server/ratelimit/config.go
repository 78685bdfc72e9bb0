package ratelimit

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

	"martlet/object-server/server/option"

	"gopkg.in/ini.v1"
)

// Config is the section [filter:backend_ratelimit]. As in Swift, a file of its own may hold the limits, too. It overrides
// the section, and is read again while the server runs.
type Config struct {
	Enabled        bool
	ReloadInterval time.Duration // 0: the file is read only at the start

	base    rates
	path    string
	isNamed bool // the section names the file; else path is its default place
}

// Section is the section of the limits in the file of the server.
const Section = "filter:" + filterName

const (
	filterName           = "backend_ratelimit" // of the filter, and of the section in its own file
	fileName             = "backend-ratelimit.conf"
	perDeviceOption      = "requests_per_device_per_second"
	rateBufferOption     = "requests_per_device_rate_buffer"
	requestsPerSecondMax = 1e9
)

// Options are those of the section; setting them changes c.
func (c *Config) Options() []option.Option {
	return append(c.base.options(Section),
		option.New(Section, "backend_ratelimit_conf_path", "", func(value string) error {
			c.path, c.isNamed = value, value != ""
			return nil
		}),
		option.New(Section, "config_reload_interval", "60.0", atLeastZero(func(value float64) {
			c.ReloadInterval = time.Duration(value * float64(time.Second))
		})),
	)
}

// options are allowed in the section and in the file.
func (r *rates) options(section string) []option.Option {
	options := []option.Option{option.New(section, rateBufferOption, "1.0", atLeastZero(func(value float64) {
		r.buffer = time.Duration(value * float64(time.Second))
	}))}
	for kind, method := range limitedMethods {
		name := perDeviceOption
		if kind != allMethods {
			name = strings.ToLower(method) + "_" + perDeviceOption
		}
		options = append(options, option.New(section, name, "0.0", atLeastZero(func(value float64) { r.perSecond[kind] = value })))
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

// Finish is called after the configuration file was read. As in PasteDeploy, the filter is active if the pipeline names
// it. In a file without a pipeline it is active if it has a section.
func (c *Config) Finish(file *ini.File, swiftDir string) error {
	c.Enabled = file.HasSection(Section)
	if pipeline := "pipeline:main"; file.HasSection(pipeline) {
		c.Enabled = slices.Contains(strings.Fields(file.Section(pipeline).Key("pipeline").Value()), filterName)
	}
	if !c.isNamed {
		c.path = filepath.Join(swiftDir, fileName)
	}
	if !c.Enabled {
		return nil
	}
	_, err := readRates(c.path, c.base) // an error in the file stops the start
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
	file, err := option.Load(path)
	if err != nil {
		return base, err
	}
	if !file.HasSection(filterName) {
		return base, fmt.Errorf("%s has no section [%s]", path, filterName)
	}
	options := base.options(filterName)
	for _, section := range []string{ini.DefaultSection, filterName} {
		for _, key := range file.Section(section).Keys() {
			if err := option.Set(options, section, key); err != nil {
				return base, fmt.Errorf("%s: %w", path, err)
			}
		}
	}
	return base, nil
}
