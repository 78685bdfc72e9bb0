package recon

import (
	"bufio"
	"crypto/md5"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Figures about the host, in the shapes that OpenStack Swift's recon gives them; the Python servers
// give the same (martlet/recon/figures.py).

var (
	ringName     = regexp.MustCompile(`^(account|container|object(-[0-9]+)?)\.ring\.gz$`)
	policyFolder = regexp.MustCompile(`^objects(?:-([0-9]+))?$`)
)

// swiftConf is where swift-recon looks up the digest of the cluster's conf.
const swiftConf = "/etc/swift/swift.conf"

// report is what a background program writes for a path.
type report struct {
	kind string // of the server whose file has it
	keys []string
}

var replicationKeys = []string{"replication_time", "replication_stats", "replication_last"}

func auditKeys(kind string) []string {
	return []string{kind + "_audits_passed", kind + "_auditor_pass_completed", kind + "_audits_since", kind + "_audits_failed"}
}

// reported are the figures of background programs, by path. All servers answer all of them, as in Swift.
var reported = map[string]report{
	"auditor/account":       {"account", auditKeys("account")},
	"auditor/container":     {"container", auditKeys("container")},
	"auditor/object":        {"object", []string{"object_auditor_stats_ALL", "object_auditor_stats_ZBF"}},
	"driveaudit":            {"drive", []string{"drive_audit_errors"}},
	"expirer/object":        {"object", []string{"object_expiration_pass", "expired_last_pass"}},
	"lifecycle/object":      {"object", []string{"object_lifecycle"}},
	"reconstruction/object": {"object", []string{"object_reconstruction_last", "object_reconstruction_time"}},
	"replication/account":   {"account", replicationKeys},
	"replication/container": {"container", replicationKeys},
	"replication/object": {"object", append([]string{"object_replication_time", "object_replication_last"},
		replicationKeys...)},
	"sharding":          {"container", []string{"sharding_stats", "sharding_time", "sharding_last"}},
	"updater/container": {"container", []string{"container_updater_sweep"}},
	"updater/object":    {"object", []string{"object_updater_sweep", "object_updater_stats", "object_updater_last"}},
}

// readMemory returns the fields of /proc/meminfo.
func readMemory() (map[string]string, error) {
	file, err := os.Open("/proc/meminfo")
	if err != nil {
		return nil, err
	}
	defer file.Close()
	fields := map[string]string{}
	for lines := bufio.NewScanner(file); lines.Scan(); {
		if name, value, ok := strings.Cut(lines.Text(), ":"); ok {
			fields[name] = strings.TrimSpace(value)
		}
	}
	return fields, nil
}

// readLoad returns the load averages, running and existing tasks, and the newest process id.
func readLoad() (map[string]any, error) {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return nil, err
	}
	words := strings.Fields(string(text))
	if len(words) != 5 {
		return nil, errors.New("/proc/loadavg has an unexpected format")
	}
	figures := map[string]any{"tasks": words[3]}
	for i, name := range []string{"1m", "5m", "15m"} {
		if figures[name], err = strconv.ParseFloat(words[i], 64); err != nil {
			return nil, err
		}
	}
	figures["processes"], err = strconv.Atoi(words[4])
	return figures, err
}

// readSockets returns figures about the TCP sockets of the host.
func readSockets() (map[string]int, error) {
	tcp, err := socketWords("/proc/net/sockstat", "TCP:")
	if err != nil {
		return nil, err
	}
	tcp6, err := socketWords("/proc/net/sockstat6", "TCP6:")
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // a host without IPv6
		return nil, err
	}
	return map[string]int{
		"tcp_in_use": tcp["inuse"], "orphan": tcp["orphan"], "time_wait": tcp["tw"],
		"tcp_mem_allocated_bytes": tcp["mem"] * os.Getpagesize(), "tcp6_in_use": tcp6["inuse"],
	}, nil
}

func socketWords(path, label string) (map[string]int, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	found := map[string]int{}
	for line := range strings.Lines(string(text)) {
		words := strings.Fields(line)
		if len(words) == 0 || words[0] != label {
			continue
		}
		for i := 1; i+1 < len(words); i += 2 {
			if found[words[i]], err = strconv.Atoi(words[i+1]); err != nil {
				return nil, err
			}
		}
	}
	return found, nil
}

// readMounts returns the mounted file systems.
func readMounts() ([]map[string]string, error) {
	text, err := os.ReadFile("/proc/mounts")
	if err != nil {
		return nil, err
	}
	mounts := []map[string]string{}
	for line := range strings.Lines(string(text)) {
		if words := strings.Fields(line); len(words) > 1 {
			mounts = append(mounts, map[string]string{"device": words[0], "path": words[1]})
		}
	}
	return mounts, nil
}

// ringDigests returns the MD5 of every ring file, by path.
func (r *Reporter) ringDigests() (map[string]string, error) {
	entries, err := os.ReadDir(r.swiftDir)
	if err != nil {
		return nil, err
	}
	digests := map[string]string{}
	for _, entry := range entries {
		if !ringName.MatchString(entry.Name()) {
			continue
		}
		path := filepath.Join(r.swiftDir, entry.Name())
		if digests[path], err = fileDigest(path); err != nil {
			return nil, err
		}
	}
	return digests, nil
}

func (r *Reporter) confDigest() (map[string]string, error) {
	path := filepath.Join(r.swiftDir, "martlet.conf")
	digest, err := fileDigest(path)
	return map[string]string{path: digest, swiftConf: digest}, err
}

func fileDigest(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer file.Close()
	hash := md5.New()
	if _, err := io.Copy(hash, file); err != nil {
		return "", err
	}
	return hex.EncodeToString(hash.Sum(nil)), nil
}

func secondsNow() float64 {
	return float64(time.Now().UnixMicro()) / 1e6
}
