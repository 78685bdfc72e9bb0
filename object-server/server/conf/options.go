package conf

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"martlet/object-server/device"
	"martlet/object-server/reconcache"
	"martlet/object-server/server/descriptors"
	"martlet/object-server/server/option"
	"martlet/object-server/server/ratelimit"
)

// Sections of the configuration file that hold options.
const (
	defaultSection = option.DefaultSection
	appSection     = "app:object-server"
	updaterSection = "object-updater"

	replicatorSection = "object-replicator"
	auditorSection    = "object-auditor"
	lifecycleSection  = "object-lifecycle"
	reconSection      = "filter:recon"
)

var ownSections = []string{
	defaultSection, appSection, updaterSection, replicatorSection, auditorSection, lifecycleSection, reconSection, ratelimit.Section,
}

// options lists every option; etc/object-server.conf-sample describes them. [app:object-server] may set those of
// [DEFAULT], too.
func (c *Config) options() []option.Option {
	return append([]option.Option{
		option.New(defaultSection, "bind_ip", "127.0.0.1", option.Text(&c.BindIP)),
		option.New(defaultSection, "bind_port", "6200", option.Integer(&c.BindPort, 0, 65535)),
		option.New(defaultSection, "devices", "/srv/node", option.Text(&c.Devices)),
		option.New(defaultSection, "mount_check", "true", option.Boolean(&c.MountCheck)),
		option.New(defaultSection, "swift_dir", "/etc/martlet", option.Text(&c.SwiftDir)),
		option.New(defaultSection, "metrics_from", "0.0.0.0/0, ::/0", networks(&c.MetricsFrom)),
		option.New(defaultSection, "max_clients", "1024", c.setMaxClients),
		option.New(defaultSection, "log_level", "INFO", option.LogLevel(&c.LogLevel)),
		option.New(defaultSection, "log_style", "text", option.LogStyle(&c.LogJSON)),
		option.New(defaultSection, "client_timeout", "60.0", option.Seconds(&c.ClientTimeout)),
		option.New(defaultSection, "keepalive_timeout", "600.0", option.Seconds(&c.KeepaliveTimeout)),
		option.New(defaultSection, "shutdown_timeout", "30.0", option.Seconds(&c.ShutdownTimeout)),
		option.New(defaultSection, "conn_timeout", "0.5", option.Seconds(&c.ConnTimeout)),
		option.New(defaultSection, "node_timeout", "3.0", option.Seconds(&c.NodeTimeout)),
		option.New(defaultSection, "container_update_timeout", "1.0", option.Seconds(&c.ContainerUpdateTimeout)),
		option.New(defaultSection, "container_update_delay", "0.02", option.Delay(&c.ContainerUpdateDelay)),
		option.New(appSection, "log_requests", "true", option.Boolean(&c.LogRequests)),
		option.New(appSection, "max_upload_time", "86400", option.Seconds(&c.MaxUploadTime)),
		option.New(appSection, "allowed_headers", "Content-Disposition, Content-Encoding, X-Delete-At, X-Object-Manifest, "+
			"X-Static-Large-Object, Cache-Control, Content-Language, Expires, X-Robots-Tag", option.List(&c.AllowedHeaders)),
		option.New(appSection, "bundle_sync_method", "auto", syncMethod(&c.Device.SyncMethod)),
		option.New(appSection, "bundle_journal_size", "268435456", option.Integer(&c.Device.JournalBytes, 8<<20, 4<<30)),
		option.New(appSection, "bundle_commit_delay", "0.003", option.Delay(&c.Device.CommitDelay)),
		option.New(appSection, "bundle_spill_size", "1048576", option.Integer(&c.Device.SpillBytes, 1, 32<<20)),
		option.New(appSection, "bundle_segment_size", "1073741824", option.Integer(&c.Device.SegmentBytes, 1<<20, 1<<30)),
		option.New(appSection, "bundle_checkpoint_size", "67108864", option.Integer(&c.Device.CheckpointBytes, 64<<10, 1<<30)),
		option.New(appSection, "bundle_index", "memory", indexPlace(&c.Device.IndexOnDisk)),
		option.New(appSection, "bundle_compaction_rate", "16777216", c.setCompactionRate),
		option.New(appSection, "bundle_compaction_interval", "86400", option.Seconds(&c.Device.CompactionRound)),
		option.New(appSection, "bundle_quarantine_age", "604800", option.Seconds(&c.Device.QuarantineAge)),
		option.New(appSection, "bundle_open_files", "auto", c.setOpenFiles),
		option.New(appSection, "threads_per_disk", "64", option.Integer(&c.Device.Concurrency, 1, 1024)),
		option.New(defaultSection, "fallocate_reserve", "1%", c.setReserve),
		option.New(defaultSection, "reclaim_age", "604800", option.Seconds(&c.Device.ReclaimAge)),
		option.New(updaterSection, "interval", "300", option.Seconds(&c.UpdaterInterval)),
		option.New(reconSection, "recon_cache_path", reconcache.DefaultDirectory, option.Text(&c.ReconCachePath)),
	}, slices.Concat(c.Replicator.options(), c.Auditor.options(), c.Lifecycle.options(), c.Ratelimit.Options())...)
}

// PrintOptions writes one line for each option: its section, name and default.
func PrintOptions(w io.Writer) error {
	for _, o := range new(Config).options() {
		if _, err := fmt.Fprintf(w, "[%s] %s = %s\n", o.Section, o.Name, o.Default); err != nil {
			return err
		}
	}
	return nil
}

// setReserve takes bytes, or a share of the file system in percent.
func (c *Config) setReserve(value string) error {
	c.Device.ReserveBytes, c.Device.ReservePercent = 0, 0
	share, isShare := strings.CutSuffix(value, "%")
	if !isShare {
		return option.Integer(&c.Device.ReserveBytes, 0, 1<<60)(value)
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
	err := option.Integer(&c.Device.CompactionRate, 0, 1<<40)(value)
	if c.Device.CompactionRate == 0 {
		c.Device.CompactionRate = -1
	}
	return err
}

// setMaxClients also sets how many requests may use one device: half of all, so that a device that hangs leaves room for
// requests to others.
func (c *Config) setMaxClients(value string) error {
	err := option.Integer(&c.MaxClients, 1, 1<<20)(value)
	c.Device.OperationsMax = (c.MaxClients + 1) / 2
	return err
}

// setOpenFiles takes a number; auto is the share of the device of ulimit -n.
func (c *Config) setOpenFiles(value string) error {
	if c.Device.OpenFilesMax = 0; value == "auto" {
		return nil
	}
	return option.Integer(&c.Device.OpenFilesMax, descriptors.Least, 1<<20)(value)
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
