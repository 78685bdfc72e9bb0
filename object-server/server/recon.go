package server

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"martlet/object-server/device"
	"martlet/object-server/updates"
)

// healthcheck answers 200 as long as the process serves.
func (s *Server) healthcheck(x *exchange) error {
	if x.r.Method != http.MethodGet && x.r.Method != http.MethodHead {
		return fail(http.StatusMethodNotAllowed, "The method is not allowed for this resource.").with("Allow", "GET, HEAD")
	}
	x.set("Content-Type", "text/plain; charset=UTF-8")
	return x.answerBytes([]byte("OK"))
}

// whoAmI answers OPTIONS: monitoring asks of which kind a server is.
func (s *Server) whoAmI(x *exchange) error {
	x.set("Allow", "DELETE, GET, HEAD, OPTIONS, POST, PUT")
	x.set("Server", "object-server/"+s.version)
	x.set("Content-Type", "text/plain; charset=UTF-8")
	return x.answerBytes(nil)
}

// orders are what a POST below /recon makes the server do, for commands on the same host.
var orders = map[string]func(s *Server, x *exchange) (any, error){
	"relinker": (*Server).takeStep,
	"repair":   (*Server).repair,
}

// recon answers with figures about this server, as JSON.
func (s *Server) recon(x *exchange) error {
	name := strings.TrimSuffix(strings.TrimPrefix(x.r.URL.Path, "/recon/"), "/")
	order := orders[name]
	if x.r.Method != http.MethodPost {
		order = nil
	}
	if x.r.Method != http.MethodGet && order == nil {
		return fail(http.StatusMethodNotAllowed, "The method is not allowed for this resource.").with("Allow", "GET")
	}
	var figures any
	var err error
	if order != nil {
		figures, err = order(s, x)
	} else {
		figures, err = s.figures(name)
	}
	if err != nil {
		return err
	}
	if figures == nil {
		return fail(http.StatusNotFound, "Invalid path: %s", x.r.URL.Path)
	}
	body, err := json.Marshal(figures)
	if err != nil {
		return err
	}
	x.set("Content-Type", "application/json")
	return x.answerBytes(body)
}

// figures returns what is told under the path name, nil if there is no such path.
func (s *Server) figures(name string) (any, error) {
	switch name {
	case "version":
		return map[string]string{"version": s.version}, nil
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
		return s.deviceNames()
	case "unmounted":
		return s.unmounted()
	case "diskusage":
		return s.diskUsage()
	case "quarantined":
		return s.quarantined()
	case "ringmd5":
		return s.ringDigests()
	case "swiftconfmd5":
		return s.confDigest()
	case "async":
		return s.pendingUpdates(), nil
	case "bundles":
		return s.bundleStats(), nil
	case "damages":
		return s.knownDamages(), nil
	case "backend_ratelimit":
		return map[string]any{"refused": s.limiter.refusals()}, nil
	case "relinker":
		return s.Relinked(), nil
	case "replication":
		name = "replication/object"
	}
	if keys, ok := reported[name]; ok {
		return nothingReported(keys), nil
	}
	return nil, nil
}

func (x *exchange) answerBytes(body []byte) error {
	x.set("Content-Length", strconv.Itoa(len(body)))
	x.answer(http.StatusOK)
	if x.r.Method != http.MethodHead {
		n, _ := x.w.Write(body) // the client is gone if this fails
		x.bytesOut = int64(n)
	}
	return nil
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

// diskFigures is the room on one device in bytes, as swift-recon reads it.
type diskFigures struct {
	Device  string `json:"device"`
	Mounted bool   `json:"mounted"`
	Size    uint64 `json:"size"`
	Used    uint64 `json:"used"`
	Free    uint64 `json:"avail"`
}

func (s *Server) diskUsage() ([]diskFigures, error) {
	names, err := s.entryNames()
	if err != nil {
		return nil, err
	}
	figures, errs := s.asked.disks.askAll(names, s.usageOf)
	for i, err := range errs {
		figures[i].Device = names[i]
		figures[i].Mounted = err == nil && figures[i].Mounted // what does not answer cannot be used; its size is as it was
	}
	return figures, nil
}

// entryNames lists what is where the devices are, which may be links to them.
func (s *Server) entryNames() ([]string, error) {
	entries, err := os.ReadDir(s.config.Devices)
	names := make([]string, 0, len(entries))
	for _, entry := range entries {
		if isDeviceName(entry.Name()) {
			names = append(names, entry.Name())
		}
	}
	return names, err
}

func (s *Server) usageOf(name string) (diskFigures, error) {
	path := s.config.Devices + "/" + name
	one := diskFigures{Device: name}
	var usage syscall.Statfs_t
	if _, err := s.devices.examine(path); err == nil && syscall.Statfs(path, &usage) == nil {
		block := uint64(usage.Bsize)
		one.Mounted, one.Size, one.Free = true, usage.Blocks*block, usage.Bavail*block
		one.Used = (usage.Blocks - usage.Bfree) * block
		one.Mounted = s.devices.refusal(name) == nil // what is refused is of no more use than what is not there
	}
	return one, nil
}

// asked are the figures that devices must be asked for, some of which may not answer.
type asked struct {
	disks       *asker[diskFigures]
	quarantines *asker[quarantine]
	stats       *asker[deviceFigures]
}

func newAsked() asked {
	return asked{newAsker[diskFigures](true), newAsker[quarantine](true), newAsker[deviceFigures](true)}
}

// asyncContainersMax bounds the containers that are told of, those with the oldest writes first.
const asyncContainersMax = 100

// asyncFigures are the container updates that wait. The first name is what swift-recon reads.
type asyncFigures struct {
	Pending    int               `json:"async_pending"`
	OldestAge  float64           `json:"oldest_age"` // seconds since the oldest write that waits
	Containers []updates.Waiting `json:"containers"`
}

func (s *Server) pendingUpdates() asyncFigures {
	figures := asyncFigures{Containers: []updates.Waiting{}}
	for _, found := range s.devices.all() {
		one := found.pending.Figures()
		figures.Pending += one.Rows
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
	Swift   bool         `json:"swift_files"` // of OpenStack Swift are there, which are not served
	Stats   device.Stats `json:"stats"`
	Error   string       `json:"error,omitempty"`
}

func (s *Server) bundleStats() []deviceFigures {
	byName := map[string]*mount{}
	for _, found := range s.devices.all() {
		byName[found.name] = found
	}
	names := slices.Collect(maps.Keys(byName))
	figures, errs := s.asked.stats.askAll(names, func(name string) (deviceFigures, error) {
		found := byName[name]
		stats := found.store.Stats()
		return deviceFigures{Device: name, Pending: found.pending.Count(), Stats: stats, Swift: stats.SwiftFiles}, nil
	})
	for i, name := range names {
		figures[i].Device = name
		if err := errors.Join(errs[i], byName[name].store.Err()); err != nil {
			figures[i].Error = err.Error()
		}
	}
	slices.SortFunc(figures, func(a, b deviceFigures) int { return strings.Compare(a.Device, b.Device) })
	return figures
}
