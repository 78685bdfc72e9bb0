package conf

import (
	"fmt"
	"path"
	"strings"
)

// swiftOption are options of OpenStack Swift 2.38.3 without a meaning here. A conf may have them: they are logged and
// change nothing. doc/swift-options.md lists them.
type swiftOption struct {
	section string // empty for every section
	names   string // separated by spaces; one may end in *
	why     string
}

const (
	everySection   = ""
	priorityNames  = "nice_priority ionice_class ionice_priority"
	priorityReason = "systemd sets this for a service (Nice=, IOSchedulingClass=)"
)

var swiftOptions = []swiftOption{
	{everySection, "user", "systemd sets this for a service (User=)"},
	{defaultSection, priorityNames, priorityReason},
	{appSection, priorityNames, priorityReason},
	{updaterSection, priorityNames, priorityReason},
	{everySection, "log_name log_facility log_address log_udp_host log_udp_port log_custom_handlers log_max_line_length",
		"the log goes to standard error, which systemd stores"},
	{everySection, "log_statsd_* statsd_emit_legacy statsd_label_mode statsd_user_label_*", "metrics are at /recon/"},
	{appSection, "recon_cache_path", "[filter:recon] and [object-replicator] have it"},
	{updaterSection, "recon_cache_path", "the server has the figures of updates itself"},
	{reconSection, "recon_lock_path", "each file of figures is its own lock"},
	{defaultSection, "workers backlog bind_timeout keep_idle eventlet_debug",
		"one process serves all connections, on all processors"},
	{defaultSection, "network_chunk_size disk_chunk_size", "bodies are processed in the pieces in which they arrive"},
	{defaultSection, "disable_fallocate", "space is reserved without fallocate; fallocate_reserve sets how much"},
	{defaultSection, "commit_window", "there are no data files that wait to be made durable"},
	{defaultSection, "servers_per_port ring_ip", "this server listens on bind_port alone"},
	{defaultSection, "log_format log_headers log_anonymization_method log_anonymization_salt",
		"requests are logged in one fixed format"},
	{appSection, "network_chunk_size disk_chunk_size", "bodies are processed in the pieces in which they arrive"},
	{appSection, "keep_cache_size keep_cache_private keep_cache_slo_manifest splice",
		"what is read again within ten minutes stays in memory"},
	{appSection, "mb_per_sync", "writes are flushed in groups; bundle_sync_method selects how"},
	{appSection, "cooperative_period eventlet_tpool_num_threads stale_worker_timeout", "there are no workers and no green threads"},
	{appSection, "etag_validate_pct", "every read is checked"},
	{appSection, "slow", "it only slows down a server for tests"},
	{appSection, "slow_delete_log_threshold_seconds", "the request log contains the duration of each request"},
	{appSection, "replication_server replication_concurrency replication_concurrency_per_device replication_lock_timeout " +
		"replication_failure_threshold replication_failure_ratio", "replicators have limits of their own: [object-replicator]"},
	{appSection, "auto_create_account_prefix", "it is an option of [swift-constraints] in martlet.conf"},
	{updaterSection, "concurrency updater_workers objects_per_second max_objects_per_container_per_second " +
		"per_container_ratelimit_buckets max_deferred_updates slowdown async_tracker_max_entries async_tracker_dump_count",
		"updates go in batches, one at a time to each database"},
	{updaterSection, "conn_timeout node_timeout log_level", "the option of [DEFAULT] applies"},
	{updaterSection, "report_interval", "GET /recon/async shows the number of waiting updates"},
	{replicatorSection, "daemonize vm_test_mode log_level", "the command line and [DEFAULT] say so"},
	{replicatorSection, "sync_method rsync_* rsync_module http_timeout lockup_timeout conn_timeout",
		"records go over the grid; node_timeout bounds each request"},
	{replicatorSection, "replicator_workers", "one process works on all devices in parallel"},
	{replicatorSection, "run_pause", "it is an old name of interval"},
	{replicatorSection, "ring_check_interval", "a changed ring is read at the next pass"},
	{replicatorSection, "handoffs_first handoff_delete", "a hand-off is removed once all primaries have it"},
	{replicatorSection, "stats_interval reclaim_age", "each pass logs what it did; [DEFAULT] has reclaim_age"},
	{auditorSection, "daemonize log_level", "the command line and [DEFAULT] say so"},
	{auditorSection, "disk_chunk_size", "segments are read in large pieces"},
	{auditorSection, "log_time object_size_stats", "each pass logs what it did"},
	{auditorSection, "rsync_tempfile_timeout", "there are no temporary files of rsync"},
}

// refused are options of Swift that must not be ignored: their missing effect would be noticed late.
var refused = []swiftOption{
	{defaultSection, "cert_file key_file", "martlet does not support TLS: put a proxy with TLS in front of it"},
	{defaultSection, "servers_per_port", "this server listens on bind_port alone: start one for each port"},
}

// of reports whether an option of a section is among those of o.
func (o *swiftOption) of(section, name string) bool {
	if o.section != everySection && o.section != section {
		return false
	}
	for _, pattern := range strings.Fields(o.names) {
		if matches, _ := path.Match(pattern, name); matches { // the patterns are well-formed
			return true
		}
	}
	return false
}

// passOver notes an option of Swift without effect. It returns false for an option that must not be ignored.
func (c *Config) passOver(section, name, value string) (bool, error) {
	isOff := name == "servers_per_port" && value == "0"
	for _, o := range refused {
		if o.of(section, name) && !isOff {
			return false, fmt.Errorf("[%s] option %s of OpenStack Swift: %s", section, name, o.why)
		}
	}
	for _, o := range swiftOptions {
		if o.of(section, name) {
			c.WithoutEffect = append(c.WithoutEffect, fmt.Sprintf("[%s] %s: %s", section, name, o.why))
			return true, nil
		}
	}
	return false, nil
}
