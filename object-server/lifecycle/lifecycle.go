package lifecycle

import (
	"context"
	"log/slog"
	"net"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"martlet/object-server/background"
	"martlet/object-server/grid"
	"martlet/object-server/ring"
	"martlet/object-server/vfs"
)

// Config says what a Lifecycle works on.
type Config struct {
	Rings    *ring.Files
	Policies []int                   // indexes of the storage policies
	IsOwn    func(*ring.Device) bool // whether a device of a ring is to be worked on: it is of this host's object server
	Hasher   ring.Hasher             // of names
	Devices  string                  // directory of the devices
	Files    vfs.FS                  // the devices are read through it

	Grid        *grid.Grid
	NodeTimeout time.Duration // for one request to a server
	Concurrency int           // names of a device that are worked on at once
	Rates       Rates
	Interval    time.Duration // from the start of a pass to the start of the next one
	Day         time.Duration // that rules count in

	ReconCachePath string // directory for the figures; empty: they are not written
	Logger         *slog.Logger
}

// Rates bound the work on each device; 0: no limit.
type Rates struct {
	BytesPerSecond   int64 // that are read
	ObjectsPerSecond int64 // that are deleted
}

// Lifecycle carries out the rules for the devices of one host. Safe for concurrent use.
type Lifecycle struct {
	config Config
	passes *background.Passes[string, Report]

	mu      sync.Mutex
	devices map[string]*device   // guarded by mu
	shown   map[string]*progress // of each device, for recon; guarded by mu
}

// New returns a Lifecycle.
func New(config Config) *Lifecycle {
	return &Lifecycle{
		config: config, passes: background.NewPasses[string]((*Report).add),
		devices: map[string]*device{}, shown: map[string]*progress{},
	}
}

// SetRates changes the rates.
func (l *Lifecycle) SetRates(rates Rates) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.config.Rates = rates
	for _, d := range l.devices {
		d.setRates(&rates)
	}
}

// Report is what passes did.
type Report struct {
	Partitions int   `json:"partitions"` // that were read
	Left       int   `json:"left"`       // to another replica, which is there
	Names      int   `json:"names"`      // in buckets with rules
	Bytes      int64 `json:"bytes"`      // that were read
	Expired    int   `json:"expired"`    // current versions
	Removed    int   `json:"removed"`    // versions that were not current
	Markers    int   `json:"markers"`    // delete markers without other versions
	Aborted    int   `json:"aborted"`    // uploads
	Parts      int   `json:"parts"`      // of uploads that were aborted, or whose object has expired
	Refused    int   `json:"refused"`    // deletions, because of a lock
	Changed    int   `json:"changed"`    // names that were written meanwhile, or on which the replicas do not agree
	Damaged    int   `json:"damaged"`    // names that cannot be read
	Failures   int   `json:"failures"`   // what is tried again in the next pass
	Running    int   `json:"running"`    // devices that are not finished yet
}

func (p *Report) add(o *Report) {
	for to, more := range map[*int]int{
		&p.Partitions: o.Partitions, &p.Left: o.Left, &p.Names: o.Names, &p.Expired: o.Expired, &p.Removed: o.Removed,
		&p.Markers: o.Markers, &p.Aborted: o.Aborted, &p.Parts: o.Parts, &p.Refused: o.Refused, &p.Changed: o.Changed,
		&p.Damaged: o.Damaged, &p.Failures: o.Failures,
	} {
		*to += more
	}
	p.Bytes += o.Bytes
}

// Once makes one pass over all devices, from their first partition on. The only error is that of the context.
func (l *Lifecycle) Once(ctx context.Context) (*Report, error) {
	l.begin(func(d *device, report *Report) { d.pass(ctx, true, report) })
	report, running := l.passes.Await(ctx, 0)
	report.Running = running
	return &report, ctx.Err()
}

// turnsEvery is how often it is looked which devices have something to do.
const turnsEvery = time.Second

// Run makes passes until the context ends: each device goes on where its cursor is.
func (l *Lifecycle) Run(ctx context.Context) {
	next := time.NewTicker(turnsEvery)
	defer next.Stop()
	for ctx.Err() == nil {
		l.begin(func(d *device, report *Report) { d.pass(ctx, false, report) })
		select {
		case <-next.C:
		case <-ctx.Done():
		}
	}
	l.passes.Await(ctx, 0)
}

// begin starts work on each device that none is done on.
func (l *Lifecycle) begin(work func(d *device, report *Report)) {
	found := map[string]*ring.Device{}
	err := l.config.Rings.Each(l.config.Policies, l.config.IsOwn, func(_ *ring.Ring, _ int, d *ring.Device) { found[d.Name] = d })
	if err != nil { // the rings have logged it
		l.passes.Add(&Report{Failures: 1})
	}
	for name, of := range found {
		d := l.deviceOf(name, net.JoinHostPort(of.IP, strconv.Itoa(of.Port)))
		l.passes.Begin(name, func(report *Report) { work(d, report) })
	}
}

func (l *Lifecycle) deviceOf(name, address string) *device {
	l.mu.Lock()
	defer l.mu.Unlock()
	d := l.devices[name]
	if d == nil {
		d = &device{
			Lifecycle: l, name: name, root: filepath.Join(l.config.Devices, name),
			bytes: background.NewRate(0), objects: background.NewRate(0),
		}
		d.setRates(&l.config.Rates)
		l.devices[name] = d
	}
	d.address, d.peer = address, l.config.Grid.Peer(address)
	return d
}
