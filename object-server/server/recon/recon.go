package recon

import (
	"cmp"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"martlet/object-server/device"
	"martlet/object-server/reconcache"
	"martlet/object-server/server/calls"
	"martlet/object-server/server/devices"
	"martlet/object-server/updates"
)

// Reporter has the figures of one server. Safe for concurrent use.
type Reporter struct {
	version  string
	root     string // of the devices
	swiftDir string
	cache    string // of the figures of background programs
	devices  *devices.Set

	// Figures that devices are asked for; a device may not answer.
	disks       *calls.Group[diskFigures]
	quarantines *calls.Group[quarantine]
	stats       *calls.Group[deviceFigures]

	scrape scrape
}

// New returns a reporter for the devices below root, the rings and martlet.conf in swiftDir, and the figures of background
// programs in cache.
func New(version, root, swiftDir, cache string, all *devices.Set) *Reporter {
	return &Reporter{
		version: version, root: root, swiftDir: swiftDir, cache: cache, devices: all,
		disks: calls.New[diskFigures](true), quarantines: calls.New[quarantine](true), stats: calls.New[deviceFigures](true),
		scrape: newScrape(),
	}
}

// Figures returns the figures under a name below /recon/, nil if there are none of that name.
func (r *Reporter) Figures(name string) (any, error) {
	switch name {
	case "version":
		return map[string]string{"version": r.version}, nil
	case "time":
		return secondsNow(), nil
	case "mem":
		return readMemory()
	case "load":
		return readLoad()
	case "sockstat":
		return readSockets()
	case "mounted":
		return readMounts()
	case "devices":
		return r.deviceNames()
	case "unmounted":
		return r.unmounted()
	case "diskusage":
		return r.diskUsage()
	case "quarantined":
		return r.quarantined()
	case "ringmd5":
		return r.ringDigests()
	case "swiftconfmd5":
		return r.confDigest()
	case "async":
		return r.pendingUpdates(), nil
	case "bundles":
		return r.bundleStats(), nil
	case "replication":
		name = "replication/object"
	}
	if one, ok := reported[name]; ok {
		return reconcache.Read(r.cache, one.kind, one.keys), nil
	}
	return nil, nil
}

// diskFigures is the space of one device in bytes, in the form that swift-recon reads.
type diskFigures struct {
	Device  string `json:"device"`
	Mounted bool   `json:"mounted"`
	Size    uint64 `json:"size"`
	Used    uint64 `json:"used"`
	Free    uint64 `json:"avail"`
}

func (r *Reporter) diskUsage() ([]diskFigures, error) {
	names, err := r.entryNames()
	if err != nil {
		return nil, err
	}
	figures, errs := r.disks.DoAll(names, r.usageOf)
	for i, err := range errs {
		figures[i].Device = names[i]
		figures[i].Mounted = err == nil && figures[i].Mounted // without an answer it cannot be used; its last size is shown
	}
	return figures, nil
}

// entryNames lists all entries of the devices directory; links to devices are among them.
func (r *Reporter) entryNames() ([]string, error) {
	entries, err := os.ReadDir(r.root)
	names := make([]string, 0, len(entries))
	for _, entry := range entries {
		if devices.IsName(entry.Name()) {
			names = append(names, entry.Name())
		}
	}
	return names, err
}

func (r *Reporter) usageOf(name string) (diskFigures, error) {
	one := diskFigures{Device: name}
	var usage syscall.Statfs_t
	if r.devices.IsThere(name) && syscall.Statfs(filepath.Join(r.root, name), &usage) == nil {
		block := uint64(usage.Bsize)
		one.Mounted, one.Size, one.Free = true, usage.Blocks*block, usage.Bavail*block
		one.Used = (usage.Blocks - usage.Bfree) * block
		one.Mounted = r.devices.Refusal(name) == nil // a refused device is shown like a missing one
	}
	return one, nil
}

// asyncContainersMax bounds the containers in the figures; those with the oldest writes come first.
const asyncContainersMax = 100

// asyncFigures are the container updates that wait. The first name is what swift-recon reads.
type asyncFigures struct {
	Pending    int               `json:"async_pending"`
	Unsaved    int               `json:"unsaved"`    // of them, in memory alone
	Damaged    int               `json:"damaged"`    // files of updates with damage, kept for inspection
	OldestAge  float64           `json:"oldest_age"` // seconds since the oldest write that waits
	Containers []updates.Waiting `json:"containers"`
}

func (r *Reporter) pendingUpdates() asyncFigures {
	figures := asyncFigures{Containers: []updates.Waiting{}}
	for _, found := range r.devices.All() {
		one := found.Pending.Figures()
		figures.Pending += one.Rows
		figures.Unsaved += one.Unsaved
		figures.Damaged += one.Damaged
		figures.OldestAge = max(figures.OldestAge, one.OldestAge)
		figures.Containers = append(figures.Containers, one.Containers...)
	}
	slices.SortStableFunc(figures.Containers, func(a, b updates.Waiting) int {
		return cmp.Compare(b.OldestAge, a.OldestAge)
	})
	figures.Containers = figures.Containers[:min(len(figures.Containers), asyncContainersMax)]
	return figures
}

// deviceFigures are the counters of one device since it was opened.
type deviceFigures struct {
	Device  string       `json:"device"`
	Pending int          `json:"async_pending"`
	Swift   bool         `json:"swift_files"` // the device has files of OpenStack Swift, which are not served
	Stats   device.Stats `json:"stats"`
	Error   string       `json:"error,omitempty"`
}

func (r *Reporter) bundleStats() []deviceFigures {
	byName := map[string]*devices.Mount{}
	for _, found := range r.devices.All() {
		byName[found.Name] = found
	}
	names := slices.Collect(maps.Keys(byName))
	figures, errs := r.stats.DoAll(names, func(name string) (deviceFigures, error) {
		found := byName[name]
		stats := found.Store.Stats()
		return deviceFigures{Device: name, Pending: found.Pending.Count(), Stats: stats, Swift: stats.SwiftFiles}, nil
	})
	for i, name := range names {
		figures[i].Device = name
		if err := errors.Join(errs[i], byName[name].Store.Err()); err != nil {
			figures[i].Error = err.Error()
		}
	}
	slices.SortFunc(figures, func(a, b deviceFigures) int { return strings.Compare(a.Device, b.Device) })
	return figures
}

func (r *Reporter) deviceNames() (map[string][]string, error) {
	figures, err := r.diskUsage()
	if err != nil {
		return nil, err
	}
	names := []string{}
	for _, one := range figures {
		names = append(names, one.Device)
	}
	return map[string][]string{r.root: names}, nil
}

// unmountedDevice is a device that cannot be used.
type unmountedDevice struct {
	Device  string `json:"device"`
	Mounted bool   `json:"mounted"`
}

func (r *Reporter) unmounted() ([]unmountedDevice, error) {
	figures, err := r.diskUsage()
	if err != nil {
		return nil, err
	}
	missing := []unmountedDevice{}
	for _, one := range figures {
		if !one.Mounted {
			missing = append(missing, unmountedDevice{Device: one.Device})
		}
	}
	return missing, nil
}

// quarantine counts the quarantined entries of a device, by the name of their folder.
type quarantine map[string]int

// quarantined counts the quarantined files, folders and records of the devices.
func (r *Reporter) quarantined() (map[string]any, error) {
	names, err := r.entryNames()
	if err != nil {
		return nil, err
	}
	total, policies := map[string]int{}, map[string]map[string]int{}
	counts, _ := r.quarantines.DoAll(names, r.quarantineOf)
	for _, device := range counts {
		for kind, count := range device {
			if match := policyFolder.FindStringSubmatch(kind); match != nil {
				index := match[1]
				if index == "" {
					index = "0"
				}
				if policies[index] == nil {
					policies[index] = map[string]int{}
				}
				policies[index]["objects"] += count
				kind = "objects"
			}
			total[kind] += count
		}
	}
	for _, one := range r.bundleStats() { // records of bundles, since the server was started
		total["objects"] += int(one.Stats.Quarantined)
	}
	return map[string]any{
		"objects": total["objects"], "containers": total["containers"], "accounts": total["accounts"],
		"policies": policies,
	}, nil
}

func (r *Reporter) quarantineOf(name string) (quarantine, error) {
	folders, err := filepath.Glob(filepath.Join(r.root, name, "quarantined", "*"))
	if err != nil {
		return nil, err
	}
	counts := quarantine{}
	for _, folder := range folders {
		if entries, err := os.ReadDir(folder); err == nil { // otherwise it has disappeared, or is a file
			counts[filepath.Base(folder)] += len(entries)
		}
	}
	return counts, nil
}
