package conf

import (
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"time"

	"gopkg.in/ini.v1"

	"martlet/object-server/device"
	"martlet/object-server/server/option"
	"martlet/object-server/server/ratelimit"
)

// Config is the whole configuration of an object server. Read fills it; nothing changes it later.
type Config struct {
	BindIP   string
	BindPort int // 0 lets the system choose

	Devices    string // directory with one directory for each device
	MountCheck bool
	SwiftDir   string // directory of martlet.conf and the rings

	MetricsFrom []netip.Prefix // addresses that may GET /metrics

	MaxClients int // requests served at once

	LogLevel    slog.Level
	LogJSON     bool
	LogRequests bool

	ClientTimeout          time.Duration // for each piece of a body, and for the headers of a request
	KeepaliveTimeout       time.Duration // between two requests on a connection
	MaxUploadTime          time.Duration
	ConnTimeout            time.Duration // to connect to a container server
	NodeTimeout            time.Duration // for its answer
	ContainerUpdateTimeout time.Duration // the longest wait of a write for container servers
	ContainerUpdateDelay   time.Duration // the wait for more rows in a group
	UpdaterInterval        time.Duration // longest pause between two attempts to deliver a pending update
	ShutdownTimeout        time.Duration // for running requests to finish

	AllowedHeaders []string
	Device         device.Options
	Ratelimit      ratelimit.Config
	ReconCachePath string // directory to which background programs write figures
	Replicator     Replicator
	Auditor        Auditor
	Lifecycle      Lifecycle
	WithoutEffect  []string // options of OpenStack Swift without a meaning here, each with the reason

	// From martlet.conf.
	HashPrefix, HashSuffix string
	Limits                 Limits
	Policies               map[int]bool // indexes of the storage policies
	Grid                   Grid
}

// Read reads the configuration file at path, and martlet.conf in its swift_dir. An option that neither the server nor
// OpenStack Swift knows, or a value that is not valid, is an error of one sentence.
func Read(path string) (*Config, error) { return ReadIn(path, "") }

// ReadIn is Read with another swift_dir, unless that is empty.
func ReadIn(path, swiftDir string) (*Config, error) {
	file, err := option.Load(path)
	if err != nil {
		return nil, err
	}
	config := &Config{}
	if err := config.read(file); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if swiftDir != "" {
		config.SwiftDir = swiftDir
	}
	for _, path := range []*string{&config.Replicator.ReconCachePath, &config.Auditor.ReconCachePath, &config.Lifecycle.ReconCachePath} {
		if *path == "" {
			*path = config.ReconCachePath
		}
	}
	if err := config.Ratelimit.Finish(file, config.SwiftDir); err != nil {
		return nil, err
	}
	return config, config.readCluster()
}

// foreignSections belong to other programs that share the file in Swift.
var foreignSections = []string{
	"object-reconstructor", "object-expirer", "object-relinker",
}

func (c *Config) read(file *ini.File) error {
	options := c.options()
	if err := option.SetDefaults(options); err != nil {
		return err
	}
	for _, section := range file.Sections() {
		name := section.Name()
		if isForeign(name) {
			continue
		}
		if !slices.Contains(ownSections, name) {
			return fmt.Errorf("unknown section [%s]", name)
		}
		for _, key := range section.Keys() {
			if err := c.setOption(options, name, key); err != nil {
				return err
			}
		}
	}
	return nil
}

func isForeign(section string) bool {
	if section == ratelimit.Section || section == reconSection {
		return false
	}
	if strings.HasPrefix(section, "pipeline:") || strings.HasPrefix(section, "filter:") {
		return true // sections of PasteDeploy; the pipeline is fixed here
	}
	return slices.Contains(foreignSections, section)
}

// setOption applies one line of the file, or ignores it if it is an option of Swift without effect.
func (c *Config) setOption(options []option.Option, section string, key *ini.Key) error {
	err := option.Set(options, section, key)
	if errors.Is(err, option.ErrUnknown) {
		isPassed, refusal := c.passOver(section, option.Name(key), strings.TrimSpace(key.Value()))
		if isPassed || refusal != nil {
			return refusal
		}
	}
	return err
}
