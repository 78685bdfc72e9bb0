package conf

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

// All options of Swift's object-server.conf-sample, as an operator may have them.
const operatorsConf = `
[DEFAULT]
swift_dir = DIR
bind_port = 6200
keep_idle = 600
bind_timeout = 30
backlog = 4096
user = swift
mount_check = true
disable_fallocate = false
workers = auto
servers_per_port = 0
ring_ip = 10.0.0.1
max_clients = 1024
log_name = swift
log_facility = LOG_LOCAL0
log_level = INFO
log_address = /dev/log
log_max_line_length = 0
log_custom_handlers =
log_anonymization_method = MD5
log_format = {remote_addr} - - [{time.d}] "{method} {path}" {status} {trans_time:.4f}
log_statsd_default_sample_rate = 1.0
eventlet_debug = false
fallocate_reserve = 1%
conn_timeout = 0.5
node_timeout = 3
network_chunk_size = 65536
disk_chunk_size = 65536
reclaim_age = 604800
commit_window = 60.0
[pipeline:main]
pipeline = healthcheck recon backend_ratelimit object-server
[app:object-server]
use = egg:swift#object
set log_name = object-server
set log_requests = true
max_upload_time = 86400
slow = 0
keep_cache_size = 5242880
cooperative_period = 0
etag_validate_pct = 100
mb_per_sync = 512
replication_server = true
replication_concurrency = 4
splice = no
[filter:recon]
use = egg:swift#recon
recon_cache_path = /var/cache/swift
[filter:backend_ratelimit]
use = egg:swift#backend_ratelimit
set log_name = limits
[object-updater]
log_name = object-updater
interval = 300.0
concurrency = 8
node_timeout = 10
recon_cache_path = /var/cache/swift
[object-auditor]
files_per_second = 20
`

func TestAConfOfSwiftsServes(t *testing.T) {
	config, err := Read(writeConfig(t, operatorsConf, cluster))
	if err != nil {
		t.Fatal(err)
	}
	for _, told := range []string{
		"[DEFAULT] workers: one process", "[app:object-server] splice: what is read again", "[object-updater] concurrency: updates",
		"[filter:backend_ratelimit] log_name: the log", "[DEFAULT] log_statsd_default_sample_rate: metrics",
	} {
		if !slices.ContainsFunc(config.WithoutEffect, func(line string) bool { return strings.HasPrefix(line, told) }) {
			t.Errorf("%q is not told in %q", told, config.WithoutEffect)
		}
	}
	if !config.Ratelimit.Enabled {
		t.Error("the pipeline names the limits")
	}
}

func TestOptionsOfSwiftAreShownAndAreNotOurs(t *testing.T) {
	page, err := os.ReadFile("../../../doc/swift-options.md")
	if err != nil {
		t.Fatal(err)
	}
	var known []string
	for _, o := range slices.Concat(swiftOptions, refused) {
		section := "every"
		if o.section != everySection {
			section = "`[" + o.section + "]`"
		}
		names := strings.Join(strings.Fields(o.names), "`, `")
		known = append(known, fmt.Sprintf("| of %s | `%s` | %s |", section, names, o.why))
	}
	var shown []string
	for _, line := range strings.Split(string(page), "\n") {
		if strings.HasPrefix(line, "| of ") {
			shown = append(shown, line)
		}
	}
	if !slices.Equal(shown, known) {
		t.Errorf("doc/swift-options.md shows\n%s\nbut there are\n%s", strings.Join(shown, "\n"), strings.Join(known, "\n"))
	}
	for _, ours := range new(Config).options() {
		for _, o := range swiftOptions {
			if o.of(ours.Section, ours.Name) {
				t.Errorf("[%s] %s is an option of ours", ours.Section, ours.Name)
			}
		}
	}
}
