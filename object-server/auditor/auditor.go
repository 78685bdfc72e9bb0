package auditor

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

// Config says what an Auditor works on.
type Config struct {
	Rings    *ring.Files
	Policies []int                   // indexes of the storage policies
	IsOwn    func(*ring.Device) bool // whether a device of a ring is to be worked on: it is of this host's object server
	Hasher   ring.Hasher             // of names
	Devices  string                  // directory of the devices
	Files    vfs.FS                  // the devices are read through it

	Grid        *grid.Grid
	NodeTimeout time.Duration // for one request to the server
	Concurrency int           // devices at once; 0: all
	Stall       time.Duration // a device that does not answer for so long leaves its place to another one
	Rates       Rates
	Intervals   [kinds]time.Duration // from the end of a pass to the start of the next one

	ReconCachePath string // directory for the figures; empty: they are not written
	Logger         *slog.Logger
}

// Rates bound the work on each device; 0: no limit.
type Rates struct {
	BytesPerSecond int64
	Objects        [kinds]int64 // a second
}

// Kind is that of a pass.
type Kind int

// The kinds of passes.
const (
	Full  Kind = iota // reads every byte
	Fast              // reads no bytes of objects
	kinds = 2
)

func (k Kind) String() string { return [kinds]string{"full", "fast"}[k] }

// Auditor audits the devices of one host. Safe for concurrent use.
type Auditor struct {
	config Config
	passes *background.Passes[string, Report]
	places chan struct{} // one for each device that is worked on; nil: no bound

	mu      sync.Mutex
	devices map[string]*device         // guarded by mu
	shown   map[string][kinds]progress // of each device, for recon; guarded by mu
}

// New returns an Auditor.
func New(config Config) *Auditor {
	a := &Auditor{config: config, passes: background.NewPasses[string]((*Report).add), devices: map[string]*device{}, shown: map[string][kinds]progress{}}
	if config.Concurrency > 0 {
		a.places = make(chan struct{}, config.Concurrency)
	}
	return a
}

// SetRates changes the rates.
func (a *Auditor) SetRates(rates Rates) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.config.Rates = rates
	for _, d := range a.devices {
		d.setRates(&rates)
	}
}

// Report is what passes did.
type Report struct {
	Partitions int   `json:"partitions"`
	Segments   int   `json:"segments"`
	Objects    int   `json:"objects"`     // records of bundles, and files of OpenStack Swift
	LargeFiles int   `json:"large_files"` // of these objects
	Bytes      int64 `json:"bytes"`       // that were read
	Damages    int   `json:"damages"`     // that the server has confirmed, and damaged files of OpenStack Swift
	Refuted    int   `json:"refuted"`     // partitions that seemed damaged, and were being changed
	Failures   int   `json:"failures"`    // partitions that could not be audited; a device that is away counts once
	Running    int   `json:"running"`     // devices that are not finished yet
}

func (p *Report) add(o *Report) {
	p.Partitions += o.Partitions
	p.Segments += o.Segments
	p.Objects += o.Objects
	p.LargeFiles += o.LargeFiles
	p.Bytes += o.Bytes
	p.Damages += o.Damages
	p.Refuted += o.Refuted
	p.Failures += o.Failures
}

// Once audits all devices from their first partition on, whatever other processes have audited. The only error is that of the
// context.
func (a *Auditor) Once(ctx context.Context, kind Kind) (*Report, error) {
	began := time.Now()
	a.begin(func(d *device, report *Report) {
		leave, err := d.enter(ctx)
		if err != nil {
			return
		}
		defer leave()
		d.pass(ctx, &progress{Kind: kind, Began: began}, report, nil)
	})
	var total Report
	for ctx.Err() == nil {
		report, running := a.passes.Await(ctx, turnsEvery)
		total.add(&report)
		if total.Running = running; running == 0 || a.areStuck() {
			break
		}
	}
	return &total, ctx.Err()
}

// areStuck tells whether the disks of all devices that are still worked on have not answered for too long.
func (a *Auditor) areStuck() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, d := range a.devices {
		if d.isWorking.Load() && !d.isStuck() {
			return false
		}
	}
	return true
}

// turnsEvery is how often it is looked which devices have something to do.
const turnsEvery = time.Second

// Run audits until the context ends: each device goes on where its cursors are.
func (a *Auditor) Run(ctx context.Context) {
	next := time.NewTicker(turnsEvery)
	defer next.Stop()
	for ctx.Err() == nil {
		a.begin(func(d *device, report *Report) { d.turn(ctx, report) })
		select {
		case <-next.C:
		case <-ctx.Done():
		}
	}
	a.passes.Await(ctx, 0)
}

// begin starts work on each device that none is done on.
func (a *Auditor) begin(work func(d *device, report *Report)) {
	found := map[string]*ring.Device{}
	err := a.config.Rings.Each(a.config.Policies, a.config.IsOwn, func(_ *ring.Ring, _ int, d *ring.Device) { found[d.Name] = d })
	if err != nil { // the rings have logged it
		a.passes.Add(&Report{Failures: 1})
	}
	for name, of := range found {
		d := a.deviceOf(name, net.JoinHostPort(of.IP, strconv.Itoa(of.Port)))
		a.passes.Begin(name, func(report *Report) {
			d.touch()
			d.isWorking.Store(true)
			defer d.isWorking.Store(false)
			work(d, report)
		})
	}
}

func (a *Auditor) deviceOf(name, address string) *device {
	a.mu.Lock()
	defer a.mu.Unlock()
	d := a.devices[name]
	if d == nil {
		d = &device{Auditor: a, name: name, root: filepath.Join(a.config.Devices, name), bytes: background.NewRate(0)}
		for kind := range d.objects {
			d.objects[kind] = background.NewRate(0)
		}
		d.setRates(&a.config.Rates)
		a.devices[name] = d
	}
	d.peer = a.config.Grid.Peer(address)
	return d
}
