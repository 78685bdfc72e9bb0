package server

import (
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"gopkg.in/ini.v1"

	"martlet/object-server/device"
)

// Config is all that the server can be told. ReadConfig fills it; nothing changes it later.
type Config struct {
	BindIP   string
	BindPort int // 0 lets the system choose

	Devices    string // directory with one directory for each device
	MountCheck bool
	SwiftDir   string // directory of martlet.conf and the rings

	MaxClients int // requests served at once

	LogLevel    slog.Level
	LogRequests bool

	ClientTimeout          time.Duration // for each piece of a body, and for the headers of a request
	KeepaliveTimeout       time.Duration // between two requests on a connection
	MaxUploadTime          time.Duration
	ConnTimeout            time.Duration // to connect to a container server
	NodeTimeout            time.Duration // for its answer
	ContainerUpdateTimeout time.Duration // what a write waits for container servers at most
	ContainerUpdateDelay   time.Duration // what a group of rows waits to grow
	UpdaterInterval        time.Duration // longest pause between two attempts to deliver a pending update
	ShutdownTimeout        time.Duration // for requests under way to finish

	AllowedHeaders []string
	Device         device.Options
	Ratelimit      RatelimitConfig
	WithoutEffect  []string // options of OpenStack Swift that mean nothing here, each with the reason

	// From martlet.conf.
	HashPrefix, HashSuffix string
	Limits                 Limits
	Policies               map[int]bool // indexes of the storage policies
}

// ReadConfig reads the configuration file at path, and martlet.conf in its swift_dir. An option that neither the server
// nor OpenStack Swift knows, or a value that makes no sense, is an error of one sentence.
func ReadConfig(path string) (*Config, error) { return ReadConfigIn(path, "") }

// ReadConfigIn is ReadConfig with another swift_dir, unless that is empty.
func ReadConfigIn(path, swiftDir string) (*Config, error) {
	file, err := loadINI(path)
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
	if err := config.Ratelimit.finish(file, config.SwiftDir); err != nil {
		return nil, err
	}
	return config, config.readCluster()
}

func loadINI(path string) (*ini.File, error) {
	options := ini.LoadOptions{
		IgnoreInlineComment: true, SpaceBeforeInlineComment: true, AllowPythonMultilineValues: true,
	}
	file, err := ini.LoadSources(options, path)
	if err != nil {
		return nil, fmt.Errorf("%s: %s", path, strings.Join(strings.Fields(err.Error()), " ")) // in one line
	}
	return file, nil
}

// foreignSections belong to other programs that share the file in Swift.
var foreignSections = []string{
	"object-replicator", "object-reconstructor", "object-auditor", "object-expirer", "object-relinker",
}

func (c *Config) read(file *ini.File) error {
	options := c.options()
	for _, o := range options {
		if err := o.set(o.value); err != nil {
			return fmt.Errorf("default of %s: %w", o.name, err)
		}
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
	if section == ratelimitSection {
		return false
	}
	if strings.HasPrefix(section, "pipeline:") || strings.HasPrefix(section, "filter:") {
		return true // PasteDeploy's; the pipeline is fixed here
	}
	for _, foreign := range foreignSections {
		if section == foreign {
			return true
		}
	}
	return false
}

// setOption applies one line of the file, or passes it over if it is one of Swift's without effect.
func (c *Config) setOption(options []option, section string, key *ini.Key) error {
	err := setOption(options, section, key)
	if errors.Is(err, errUnknownOption) {
		isPassed, refusal := c.passOver(section, optionName(key), strings.TrimSpace(key.Value()))
		if isPassed || refusal != nil {
			return refusal
		}
	}
	return err
}

var errUnknownOption = errors.New("unknown option")

func optionName(key *ini.Key) string {
	return strings.TrimSpace(strings.TrimPrefix(key.Name(), "set "))
}

// setOption applies one line of the file. As in PasteDeploy, [DEFAULT] sets any section's option unless the section
// sets it ([DEFAULT] comes first), and "set name" is the same as "name".
func setOption(options []option, section string, key *ini.Key) error {
	name := optionName(key)
	if name == "use" && (section == appSection || section == ratelimitSection) {
		return nil
	}
	for _, o := range options {
		isHere := o.section == section || section == defaultSection || (o.section == defaultSection && section == appSection)
		if o.name != name || !isHere {
			continue
		}
		if err := o.set(strings.TrimSpace(key.Value())); err != nil {
			return fmt.Errorf("[%s] %s = %s: %w", section, name, key.Value(), err)
		}
		return nil
	}
	return fmt.Errorf("[%s] has an %w %q", section, errUnknownOption, name)
}

// readSalt reads a salt byte by byte; as everywhere in Swift's file, "%%" stands for "%".
func readSalt(section *ini.Section, name string) (string, error) {
	value := strings.TrimSpace(section.Key(name).Value())
	plain := strings.ReplaceAll(value, "%%", "")
	if strings.Contains(plain, "%") {
		return "", fmt.Errorf("[swift-hash] %s: write %%%% for a %% sign", name)
	}
	return strings.ReplaceAll(value, "%%", "%"), nil
}

// readCluster reads what all servers of a cluster share.
func (c *Config) readCluster() error {
	c.Limits = DefaultLimits()
	c.Policies = map[int]bool{0: true}
	file, err := loadINI(filepath.Join(c.SwiftDir, "martlet.conf"))
	if err != nil {
		return fmt.Errorf("martlet.conf cannot be read in swift_dir %s: %w", c.SwiftDir, err)
	}
	hash := file.Section("swift-hash")
	if c.HashPrefix, err = readSalt(hash, "swift_hash_path_prefix"); err != nil {
		return err
	}
	if c.HashSuffix, err = readSalt(hash, "swift_hash_path_suffix"); err != nil {
		return err
	}
	if c.HashPrefix == "" && c.HashSuffix == "" {
		return fmt.Errorf("%s has neither swift_hash_path_prefix nor swift_hash_path_suffix in [swift-hash]", c.SwiftDir)
	}
	for _, section := range file.Sections() {
		if rest, ok := strings.CutPrefix(section.Name(), "storage-policy:"); ok {
			index, err := parseInteger(rest, 0, 1<<16)
			if err != nil {
				return fmt.Errorf("section [%s]: %w", section.Name(), err)
			}
			c.Policies[int(index)] = true
		}
	}
	return c.Limits.read(file.Section("swift-constraints"))
}

// read sets the limits that a section names; other names belong to other servers.
func (l *Limits) read(section *ini.Section) error {
	for name, limit := range map[string]*int{
		"max_meta_name_length": &l.MetaNameMax, "max_meta_value_length": &l.MetaValueMax,
		"max_meta_count": &l.MetaCountMax, "max_meta_overall_size": &l.MetaOverallMax,
		"max_header_size": &l.HeaderValueMax, "max_object_name_length": &l.ObjectNameMax,
		"max_account_name_length": &l.AccountNameMax, "max_container_name_length": &l.ContainerNameMax,
	} {
		if !section.HasKey(name) {
			continue
		}
		value, err := parseInteger(section.Key(name).Value(), 1, 1<<24)
		if err != nil {
			return fmt.Errorf("[swift-constraints] %s: %w", name, err)
		}
		*limit = int(value)
	}
	if section.HasKey("max_file_size") {
		value, err := parseInteger(section.Key("max_file_size").Value(), 1, 1<<62)
		if err != nil {
			return fmt.Errorf("[swift-constraints] max_file_size: %w", err)
		}
		l.FileSizeMax = value
	}
	return nil
}
