package recon

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"martlet/object-server/device"
	"martlet/object-server/reconcache"
	"martlet/object-server/server/calls"
	"martlet/object-server/server/devices"
)

// Figures for GET /metrics, which is asked more often than recon: what is expensive to read is kept for a while.

// quarantineKept is how long the numbers of quarantined entries are shown before the directories are read again.
const quarantineKept = time.Minute

// scrape is what is kept between two scrapes.
type scrape struct {
	spaces  *calls.Group[Space]
	bundles *calls.Group[Bundles]

	mu            sync.Mutex
	digests       map[string]digest
	quarantine    map[string]map[string]int
	quarantinedAt time.Time
}

func newScrape() scrape {
	return scrape{
		spaces: calls.New[Space](true), bundles: calls.New[Bundles](true), digests: map[string]digest{},
	}
}

// digest is the MD5 of a file that had this time and size.
type digest struct {
	modified time.Time
	size     int64
	md5      string
}

// Ring is a ring file of the host.
type Ring struct {
	Name, MD5 string
	Modified  time.Time
}

// Rings returns the ring files that can be read.
func (r *Reporter) Rings() []Ring {
	entries, _ := os.ReadDir(r.swiftDir) // without it there are none
	r.scrape.mu.Lock()
	defer r.scrape.mu.Unlock()
	var found []Ring
	for _, entry := range entries {
		if !ringName.MatchString(entry.Name()) {
			continue
		}
		if md5, modified, err := r.scrape.digest(filepath.Join(r.swiftDir, entry.Name())); err == nil {
			found = append(found, Ring{strings.TrimSuffix(entry.Name(), ".ring.gz"), md5, modified})
		}
	}
	return found
}

// digest reads a file if it has changed since it was read.
func (s *scrape) digest(path string) (string, time.Time, error) {
	state, err := os.Stat(path)
	if err != nil {
		return "", time.Time{}, err
	}
	known := s.digests[path]
	if !known.modified.Equal(state.ModTime()) || known.size != state.Size() {
		md5, err := fileDigest(path)
		if err != nil {
			return "", time.Time{}, err
		}
		known = digest{state.ModTime(), state.Size(), md5}
		s.digests[path] = known
	}
	return known.md5, known.modified, nil
}

// Space is the space of one device, zero if its file system cannot be asked.
type Space struct {
	Device                         string
	IsUsable                       bool
	Size, Free, Inodes, InodesFree uint64
	XFSInodeCache                  map[string]uint64 // nil if the file system is not XFS
}

// Spaces returns the space of each device. A device that does not answer is not usable.
func (r *Reporter) Spaces() []Space {
	names, _ := r.entryNames() // without the directory there are none
	found, errs := r.scrape.spaces.DoAll(names, r.spaceOf)
	xfs := xfsDevices("/proc/self/mountinfo", "/sys/dev/block")
	for i, name := range names {
		found[i].Device = name
		found[i].IsUsable = found[i].IsUsable && errs[i] == nil
		found[i].XFSInodeCache = xfsInodeCache("/sys/fs/xfs", xfs[filepath.Join(r.root, name)])
	}
	return found
}

func (r *Reporter) spaceOf(name string) (Space, error) {
	var usage syscall.Statfs_t
	if !r.devices.IsThere(name) || syscall.Statfs(filepath.Join(r.root, name), &usage) != nil {
		return Space{}, nil
	}
	block := uint64(usage.Bsize)
	return Space{
		IsUsable: r.devices.Refusal(name) == nil,
		Size:     usage.Blocks * block, Free: usage.Bavail * block, Inodes: usage.Files, InodesFree: usage.Ffree,
	}, nil
}

// Quarantine returns the numbers of quarantined entries, by kind and policy. Databases have no policy.
func (r *Reporter) Quarantine() map[string]map[string]int {
	r.scrape.mu.Lock()
	defer r.scrape.mu.Unlock()
	if time.Since(r.scrape.quarantinedAt) < quarantineKept {
		return r.scrape.quarantine
	}
	names, _ := r.entryNames()
	counts, _ := r.quarantines.DoAll(names, r.quarantineOf)
	found := map[string]map[string]int{"objects": {"0": 0}}
	for _, one := range counts {
		for folder, count := range one {
			kind, policy := folder, ""
			if match := policyFolder.FindStringSubmatch(folder); match != nil {
				kind, policy = "objects", match[1]
				if policy == "" {
					policy = "0"
				}
			}
			if found[kind] == nil {
				found[kind] = map[string]int{}
			}
			found[kind][policy] += count
		}
	}
	r.scrape.quarantine, r.scrape.quarantinedAt = found, time.Now()
	return found
}

// Pass is the last pass of a background job.
type Pass struct {
	Job            string
	Ended, Seconds float64
	Items          map[string]float64 // by what has come of them
}

// passes are the jobs, with the keys of their figures. Durations of the replicator are in minutes, as in Swift.
var passes = []struct {
	job, ended, took, stats string
	unit                    float64
	items                   map[string]string // name in the figures -> label
}{
	{"object-replicator", "replication_last", "replication_time", "replication_stats", 60,
		map[string]string{"attempted": "attempted", "in_sync": "in_sync", "failure": "failed", "handoffs": "handoffs"}},
	{"object-auditor", "", "", "object_auditor_stats_ALL", 1,
		map[string]string{"passes": "passed", "quarantined": "damaged", "errors": "failed"}},
	{"object-lifecycle", "", "", "object_lifecycle", 1, map[string]string{
		"expired": "expired", "removed": "removed", "aborted": "aborted", "refused": "refused", "changed": "changed", "failures": "failed",
	}},
	{"object-expirer", "", "object_expiration_pass", "", 1, nil},
}

// Passes returns the last passes of the jobs that have written figures.
func (r *Reporter) Passes() []Pass {
	var found []Pass
	for _, one := range passes {
		values := reconcache.Values(r.cache, "object", []string{one.ended, one.took, one.stats})
		pass := Pass{Job: one.job, Items: map[string]float64{}}
		pass.Ended, _ = values[one.ended].(float64)
		minutes, _ := values[one.took].(float64)
		pass.Seconds = minutes * one.unit
		stats, _ := values[one.stats].(map[string]any)
		for name, label := range one.items {
			if count, ok := stats[name].(float64); ok {
				pass.Items[label] = count
			}
		}
		found = append(found, pass)
	}
	return found
}

// Bundles are the figures of the bundles of one device, and of the updates that wait there.
type Bundles struct {
	Device    string
	Stats     device.Stats
	Pending   int
	Unsaved   int     // of those that wait, in memory alone
	OldestAge float64 // seconds
	Damaged   int     // files of updates with damage
}

// Bundles returns the figures of the open devices that answer.
func (r *Reporter) Bundles() []Bundles {
	all := r.devices.All()
	byName, names := map[string]*devices.Mount{}, make([]string, 0, len(all))
	for _, one := range all {
		byName[one.Name] = one
		names = append(names, one.Name)
	}
	found, errs := r.scrape.bundles.DoAll(names, func(name string) (Bundles, error) {
		one := byName[name]
		pending := one.Pending.Figures()
		return Bundles{name, one.Store.Stats(), pending.Rows, pending.Unsaved, pending.OldestAge, pending.Damaged}, nil
	})
	answered := found[:0]
	for i := range found {
		if errs[i] == nil {
			answered = append(answered, found[i])
		}
	}
	return answered
}
