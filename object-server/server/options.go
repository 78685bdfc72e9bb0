package server

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"time"

	"martlet/object-server/device"
)

// Sections of the configuration file that hold options.
const (
	defaultSection = "DEFAULT"
	appSection     = "app:object-server"
	updaterSection = "object-updater"
)

var ownSections = []string{defaultSection, appSection, updaterSection, ratelimitSection}

// option is one line of the configuration file; etc/object-server.conf-sample says what each does.
type option struct {
	section string
	name    string
	value   string // default
	set     func(value string) error
}

// options lists every option. [DEFAULT] stands for those that [app:object-server] may set too.
func (c *Config) options() []option {
	return append([]option{
		{defaultSection, "bind_ip", "127.0.0.1", text(&c.BindIP)},
		{defaultSection, "bind_port", "6200", integer(&c.BindPort, 0, 65535)},
		{defaultSection, "devices", "/srv/node", text(&c.Devices)},
		{defaultSection, "mount_check", "true", boolean(&c.MountCheck)},
		{defaultSection, "swift_dir", "/etc/martlet", text(&c.SwiftDir)},
		{defaultSection, "max_clients", "1024", c.setMaxClients},
		{defaultSection, "log_level", "INFO", logLevel(&c.LogLevel)},
		{defaultSection, "client_timeout", "60.0", seconds(&c.ClientTimeout)},
		{defaultSection, "keepalive_timeout", "600.0", seconds(&c.KeepaliveTimeout)},
		{defaultSection, "shutdown_timeout", "30.0", seconds(&c.ShutdownTimeout)},
		{defaultSection, "conn_timeout", "0.5", seconds(&c.ConnTimeout)},
		{defaultSection, "node_timeout", "3.0", seconds(&c.NodeTimeout)},
		{defaultSection, "container_update_timeout", "1.0", seconds(&c.ContainerUpdateTimeout)},
		{defaultSection, "container_update_delay", "0.005", delay(&c.ContainerUpdateDelay)},
		{appSection, "log_requests", "true", boolean(&c.LogRequests)},
		{appSection, "max_upload_time", "86400", seconds(&c.MaxUploadTime)},
		{appSection, "allowed_headers", "Content-Disposition, Content-Encoding, X-Delete-At, X-Object-Manifest, " +
			"X-Static-Large-Object, Cache-Control, Content-Language, Expires, X-Robots-Tag", list(&c.AllowedHeaders)},
		{appSection, "bundle_sync_method", "auto", syncMethod(&c.Device.SyncMethod)},
		{appSection, "bundle_journal_size", "268435456", integer64(&c.Device.JournalBytes, 8<<20, 4<<30)},
		{appSection, "bundle_commit_delay", "0.003", delay(&c.Device.CommitDelay)},
		{appSection, "bundle_spill_size", "1048576", integer64(&c.Device.SpillBytes, 1, 32<<20)},
		{appSection, "bundle_segment_size", "1073741824", integer64(&c.Device.SegmentBytes, 1<<20, 1<<30)},
		{appSection, "bundle_checkpoint_size", "67108864", integer64(&c.Device.CheckpointBytes, 64<<10, 1<<30)},
		{appSection, "bundle_index", "memory", indexPlace(&c.Device.IndexOnDisk)},
		{appSection, "bundle_compaction_rate", "16777216", c.setCompactionRate},
		{appSection, "bundle_compaction_interval", "86400", seconds(&c.Device.CompactionRound)},
		{appSection, "bundle_quarantine_age", "604800", seconds(&c.Device.QuarantineAge)},
		{appSection, "bundle_open_files", "auto", c.setOpenFiles},
		{appSection, "threads_per_disk", "64", integer(&c.Device.Concurrency, 1, 1024)},
		{defaultSection, "fallocate_reserve", "1%", c.setReserve},
		{defaultSection, "reclaim_age", "604800", seconds(&c.Device.ReclaimAge)},
		{updaterSection, "interval", "300", seconds(&c.UpdaterInterval)},
	}, c.Ratelimit.options()...)
}

// PrintOptions writes one line for each option: its section, name and default.
func PrintOptions(w io.Writer) error {
	for _, o := range new(Config).options() {
		if _, err := fmt.Fprintf(w, "[%s] %s = %s\n", o.section, o.name, o.value); err != nil {
			return err
		}
	}
	return nil
}

func text(into *string) func(string) error {
	return func(value string) error {
		if value == "" {
			return errors.New("must not be empty")
		}
		*into = value
		return nil
	}
}

func integer(into *int, least, most int64) func(string) error {
	return func(value string) error {
		number, err := parseInteger(value, least, most)
		if err == nil {
			*into = int(number)
		}
		return err
	}
}

func integer64(into *int64, least, most int64) func(string) error {
	return func(value string) error {
		number, err := parseInteger(value, least, most)
		if err == nil {
			*into = number
		}
		return err
	}
}

// setReserve takes bytes, or a share of the file system in percent.
func (c *Config) setReserve(value string) error {
	c.Device.ReserveBytes, c.Device.ReservePercent = 0, 0
	share, isShare := strings.CutSuffix(value, "%")
	if !isShare {
		return integer64(&c.Device.ReserveBytes, 0, 1<<60)(value)
	}
	percent, err := strconv.ParseFloat(strings.TrimSpace(share), 64)
	if err != nil || !(percent >= 0 && percent < 100) {
		return errors.New("must be a number of bytes, or a percentage below 100%")
	}
	c.Device.ReservePercent = percent
	return nil
}

// setCompactionRate takes bytes a second; 0 is no limit.
func (c *Config) setCompactionRate(value string) error {
	err := integer64(&c.Device.CompactionRate, 0, 1<<40)(value)
	if c.Device.CompactionRate == 0 {
		c.Device.CompactionRate = -1
	}
	return err
}

// setMaxClients also says how many requests one device may hold: half of all, so that one that hangs leaves room for
// those of the others.
func (c *Config) setMaxClients(value string) error {
	err := integer(&c.MaxClients, 1, 1<<20)(value)
	c.Device.OperationsMax = (c.MaxClients + 1) / 2
	return err
}

// setOpenFiles takes a number; auto is what ulimit -n leaves.
func (c *Config) setOpenFiles(value string) error {
	if c.Device.OpenFilesMax = 0; value == "auto" {
		return nil
	}
	return integer(&c.Device.OpenFilesMax, openFilesLeast, 1<<20)(value)
}

func syncMethod(into *device.SyncMethod) func(string) error {
	return func(value string) error {
		if method := device.SyncMethod(value); slices.Contains(device.SyncMethods, method) {
			*into = method
			return nil
		}
		return errors.New("must be auto, fdatasync, direct or journal")
	}
}

func indexPlace(onDisk *bool) func(string) error {
	return func(value string) error {
		*onDisk = value == "disk"
		if !*onDisk && value != "memory" {
			return errors.New("must be memory or disk")
		}
		return nil
	}
}

func parseInteger(value string, least, most int64) (int64, error) {
	number, err := strconv.ParseInt(strings.TrimSpace(value), 10, 64)
	if err != nil || number < least || number > most {
		return 0, fmt.Errorf("must be a whole number from %d to %d", least, most)
	}
	return number, nil
}

func boolean(into *bool) func(string) error {
	return func(value string) error {
		switch {
		case isTrue(value):
			*into = true
		case strings.EqualFold(value, "false"), strings.EqualFold(value, "no"), strings.EqualFold(value, "off"),
			strings.EqualFold(value, "f"), strings.EqualFold(value, "n"), value == "0":
			*into = false
		default:
			return errors.New("must be true or false")
		}
		return nil
	}
}

// secondsMax keeps a time in seconds within what a Duration holds.
const secondsMax = 1e9

func seconds(into *time.Duration) func(string) error {
	return func(value string) error {
		number, err := strconv.ParseFloat(value, 64)
		if err != nil || !(number > 0) || number > secondsMax {
			return errors.New("must be a number of seconds greater than 0")
		}
		*into = time.Duration(number * float64(time.Second))
		return nil
	}
}

// delay is a pause that may be nothing, and never so long that a client would notice.
func delay(into *time.Duration) func(string) error {
	return func(value string) error {
		number, err := strconv.ParseFloat(value, 64)
		if err != nil || !(number >= 0 && number <= 1) {
			return errors.New("must be a number of seconds from 0 to 1")
		}
		*into = time.Duration(number * float64(time.Second))
		return nil
	}
}

func list(into *[]string) func(string) error {
	return func(value string) error {
		*into = nil
		for _, item := range strings.Split(value, ",") {
			if item = strings.TrimSpace(item); item != "" {
				*into = append(*into, item)
			}
		}
		return nil
	}
}

func logLevel(into *slog.Level) func(string) error {
	return func(value string) error {
		switch strings.ToUpper(value) {
		case "DEBUG":
			*into = slog.LevelDebug
		case "INFO", "NOTICE":
			*into = slog.LevelInfo
		case "WARN", "WARNING":
			*into = slog.LevelWarn
		case "ERROR", "CRITICAL":
			*into = slog.LevelError
		default:
			return errors.New("must be DEBUG, INFO, WARNING or ERROR")
		}
		return nil
	}
}
