package conf

import (
	"bytes"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

const cluster = "[grid]\ngrid_secret = none\n[swift-hash]\nswift_hash_path_suffix = s\n[storage-policy:0]\nname = gold\n[storage-policy:3]\nname = x\n"

func writeConfig(t testing.TB, server, cluster string) string {
	t.Helper()
	dir := t.TempDir()
	if cluster != "" {
		if err := os.WriteFile(filepath.Join(dir, "martlet.conf"), []byte(cluster), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join(dir, "object-server.conf")
	if err := os.WriteFile(path, []byte(strings.ReplaceAll(server, "DIR", dir)), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestReadConfig(t *testing.T) {
	config, err := Read(writeConfig(t, `
[DEFAULT]
bind_ip = 10.0.0.7
bind_port = 6201
swift_dir = DIR
mount_check = no
client_timeout = 1.5
log_level = debug
fallocate_reserve = 10000
reclaim_age = 3600
[pipeline:main]
pipeline = healthcheck recon object-server
[filter:recon]
use = egg:swift#recon
recon_cache_path = /var/cache/swift
[app:object-server]
use = egg:swift#object
bundle_compaction_rate = 0
set log_level = WARNING
client_timeout = 2
allowed_headers = X-A, content-type , x-b
[object-updater]
interval = 7
[object-replicator]
concurrency = 1
`, cluster+"[swift-constraints]\nmax_meta_count = 5\nmax_file_size = 77\n"))
	if err != nil {
		t.Fatal(err)
	}
	if config.BindPort != 6201 || config.MountCheck || config.ClientTimeout != 2*time.Second ||
		config.LogLevel != slog.LevelWarn || config.UpdaterInterval != 7*time.Second || config.HashSuffix != "s" ||
		!slices.Equal(config.AllowedHeaders, []string{"X-A", "content-type", "x-b"}) ||
		config.Limits.MetaCountMax != 5 || config.Limits.FileSizeMax != 77 || config.Limits.MetaValueMax != 256 ||
		!config.Policies[3] || config.Policies[1] || config.BindIP != "10.0.0.7" ||
		config.Device.CompactionRate != -1 || config.Device.ReclaimAge != time.Hour ||
		config.ReconCachePath != "/var/cache/swift" || config.Replicator.ReconCachePath != "/var/cache/swift" ||
		config.Device.ReserveBytes != 10000 || config.Device.ReservePercent != 0 {
		t.Errorf("got %+v", config)
	}
}

func TestBadConfigsAreRefusedWithASentence(t *testing.T) {
	for _, c := range []struct{ server, cluster, part string }{
		{"[DEFAULT]\nswift_dir = DIR\nbind_prot = 1\n", cluster, `[DEFAULT] has an unknown option "bind_prot"`},
		{"[DEFAULT]\nswift_dir = DIR\n[app:object-server]\ndisk_chunk_sise = 1\n", cluster, "unknown option"},
		{"[DEFAULT]\nswift_dir = DIR\ncert_file = /x\n", cluster, "[DEFAULT] option cert_file of OpenStack Swift: martlet does not support TLS"},
		{"[DEFAULT]\nswift_dir = DIR\nservers_per_port = 4\n", cluster, "start one for each port"},
		{"[DEFAULT]\nswift_dir = DIR\n[app:proxy-server]\n", cluster, "unknown section [app:proxy-server]"},
		{"[DEFAULT]\nswift_dir = DIR\nbind_port = 70000\n", cluster, "from 0 to 65535"},
		{"[DEFAULT]\nswift_dir = DIR\nmount_check = maybe\n", cluster, "must be true or false"},
		{"[DEFAULT]\nswift_dir = DIR\nclient_timeout = -1\n", cluster, "seconds greater than 0"},
		{"[DEFAULT]\nswift_dir = DIR\nclient_timeout = NaN\n", cluster, "seconds greater than 0"},
		{"[DEFAULT]\nswift_dir = DIR\nlog_level = LOUD\n", cluster, "must be DEBUG"},
		{"[DEFAULT]\nswift_dir = DIR\nfallocate_reserve = 100%\n", cluster, "percentage below 100%"},
		{"[DEFAULT]\nswift_dir = DIR\n[app:object-server]\nbundle_sync_method = never\n", cluster, "must be auto"},
		{"[DEFAULT]\nswift_dir = DIR\n", "", "martlet.conf cannot be read"},
		{"[DEFAULT]\nswift_dir = DIR\n", "[swift-hash]\n", "neither swift_hash_path_prefix nor"},
		{"[DEFAULT]\nswift_dir = DIR\n", "[swift-hash]\nswift_hash_path_suffix = 5%x\n", "write %% for a % sign"},
		{"[DEFAULT]\nswift_dir = DIR\n", cluster + "[storage-policy:x]\n", "[storage-policy:x]"},
		{"[DEFAULT]\nswift_dir = DIR\n", cluster + "[swift-constraints]\nmax_meta_count = many\n", "max_meta_count"},
		{"[DEFAULT\nswift_dir = DIR\n", cluster, "DEFAULT"},
		{"[DEFAULT]\nswift_dir = DIR\n", salted, "[grid] grid_secret must be set: at least 32 characters"},
	} {
		_, err := Read(writeConfig(t, c.server, c.cluster))
		if err == nil || !strings.Contains(err.Error(), c.part) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: got %v, want %q", c.server, err, c.part)
		}
	}
}

// The Python services read the same bytes: see test_prefix_and_suffix_come_from_the_conf_byte_by_byte.
func TestSaltsAreReadByteByByte(t *testing.T) {
	conf := "[grid]\ngrid_secret = none\n[swift-hash]\nswift_hash_path_prefix = pr\xe9 # x\nswift_hash_path_suffix = 5%%x\n"
	c, err := Read(writeConfig(t, "[DEFAULT]\nswift_dir = DIR\n", conf))
	if err != nil || c.HashPrefix != "pr\xe9 # x" || c.HashSuffix != "5%x" {
		t.Errorf("got %q %q %v", c.HashPrefix, c.HashSuffix, err)
	}
}

// The sample shows every option with its default, and no other.
func TestSampleHasEveryOption(t *testing.T) {
	content, err := os.ReadFile("../../../etc/object-server.conf-sample")
	if err != nil {
		t.Fatal(err)
	}
	section := ""
	var inSample []string
	for _, line := range strings.Split(string(content), "\n") {
		if strings.HasPrefix(line, "[") {
			section = line
		} else if found := regexp.MustCompile(`^# ?([a-z_]+ =.*)$`).FindStringSubmatch(line); found != nil {
			if !strings.HasPrefix(found[1], "use = ") {
				inSample = append(inSample, section+" "+found[1])
			}
		}
	}
	var printed bytes.Buffer
	if err := PrintOptions(&printed); err != nil {
		t.Fatal(err)
	}
	inCode := strings.Split(strings.TrimSpace(strings.ReplaceAll(printed.String(), " \n", "\n")), "\n")
	slices.Sort(inSample)
	slices.Sort(inCode)
	if !slices.Equal(inSample, inCode) {
		t.Errorf("sample:\n%s\ncode:\n%s", strings.Join(inSample, "\n"), strings.Join(inCode, "\n"))
	}
}

// Any client that reaches the port can read and write all data: the operator chooses the network.
func TestWithoutAnAddressOnlyThisHostIsServed(t *testing.T) {
	config, err := Read(writeConfig(t, "[DEFAULT]\nswift_dir = DIR\n", cluster))
	if err != nil {
		t.Fatal(err)
	}
	if ip := net.ParseIP(config.BindIP); ip == nil || !ip.IsLoopback() {
		t.Errorf("bind_ip is %q", config.BindIP)
	}
}
