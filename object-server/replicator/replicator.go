package replicator

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"martlet/object-server/background"
	"martlet/object-server/grid"
	"martlet/object-server/ring"
)

// Config says what a Replicator works on.
type Config struct {
	Rings    *ring.Files
	Policies []int                   // indexes of the storage policies
	IsOwn    func(*ring.Device) bool // whether a device of a ring is to be worked on: it is of this host's object server

	Devices string // directory of the devices, which the process reads itself; empty: it asks the server

	Grid        *grid.Grid
	NodeTimeout time.Duration // for one request
	Concurrency int           // partitions of a device at once
	Rate        int64         // bytes a second that are sent, by all devices together; 0: no limit
	Logger      *slog.Logger
}

// Replicator sends what peers miss. Safe for concurrent use, but for Pass.
type Replicator struct {
	config Config
	grid   *grid.Grid
	rate   *background.Rate
	passes *background.Passes[work, Report]

	// namesAtOnce bounds the names of one request. elementsAtOnce is how many elements a server is asked for where several slices
	// differ: for each answer it reads what the partition has of all names. Both take half of a payload.
	namesAtOnce, elementsAtOnce int

	mu   sync.Mutex
	last map[work]Finished // the last pass over each device; guarded by mu
}

// work is a device for a policy.
type work struct {
	device string
	policy int
}

// New returns a Replicator.
func New(config Config) *Replicator {
	return &Replicator{
		config: config, grid: config.Grid, rate: background.NewRate(config.Rate), passes: background.NewPasses[work]((*Report).add),
		last:        map[work]Finished{},
		namesAtOnce: 32 << 10, elementsAtOnce: 16 << 10,
	}
}

// SetRate changes how many bytes a second are sent; 0: no limit.
func (r *Replicator) SetRate(bytes int64) { r.rate.Set(bytes) }

// Report is what one pass over devices did.
type Report struct {
	Partitions int   `json:"partitions"` // compared with all their peers
	InSync     int   `json:"in_sync"`    // of these, with equal replicas at the end
	Handoffs   int   `json:"handoffs"`   // on devices that are not their place
	GivenBack  int   `json:"given_back"` // hand-offs that were removed
	Sent       int   `json:"sent"`       // records that peers have stored
	Bytes      int64 `json:"bytes"`
	Fetched    int   `json:"fetched"`  // records that replaced damaged ones
	Damaged    int   `json:"damaged"`  // partitions with damage, before the pass
	Doubtful   int   `json:"doubtful"` // partitions of which records of unknown names are lost, after the pass
	Failures   int   `json:"failures"`
	Running    int   `json:"running"` // devices that are not finished yet: a later report has their figures
}

func (p *Report) add(o *Report) {
	p.Partitions += o.Partitions
	p.InSync += o.InSync
	p.Handoffs += o.Handoffs
	p.GivenBack += o.GivenBack
	p.Sent += o.Sent
	p.Bytes += o.Bytes
	p.Fetched += o.Fetched
	p.Damaged += o.Damaged
	p.Doubtful += o.Doubtful
	p.Failures += o.Failures
}

// eachDevice calls do for each device of this host in the ring of each policy. A ring that cannot be read is an error, and
// those of the other policies go on.
func (r *Replicator) eachDevice(do func(current *ring.Ring, policy int, d *ring.Device)) error {
	return r.config.Rings.Each(r.config.Policies, r.config.IsOwn, do)
}

// passOf is a pass over a device that has not begun.
func (r *Replicator) passOf(current *ring.Ring, policy int, d *ring.Device) *devicePass {
	x := &devicePass{Replicator: r, ring: current, policy: policy, device: d, damaged: map[uint32]bool{}, lost: map[uint32][]byte{}}
	x.own = x.remoteOf(d)
	x.own.directory = r.config.deviceDirectory(d.Name)
	return x
}

// remoteOf is a device of the ring.
func (x *devicePass) remoteOf(d *ring.Device) *remote {
	s := x.remote(d, x.policy)
	s.power = uint8(x.ring.PartPower())
	return s
}

// devicePass is a pass over one device for one policy.
type devicePass struct {
	*Replicator
	ring   *ring.Ring
	policy int
	device *ring.Device
	own    *remote

	damaged map[uint32]bool   // partitions with damage that mend could not end
	lost    map[uint32][]byte // names of damaged records, by partition

	mu     sync.Mutex
	report Report
	down   map[string]bool // addresses that could not be reached in this pass, and devices that did not answer
}

func (x *devicePass) note(change func(report *Report)) {
	x.mu.Lock()
	defer x.mu.Unlock()
	change(&x.report)
}

// failed logs a failure. A peer that cannot be reached, or does not answer, is left out of the rest of the pass.
func (x *devicePass) failed(ctx context.Context, what string, partition uint32, peer *remote, err error) {
	if ctx.Err() != nil {
		return
	}
	down := ""
	switch {
	case errors.Is(err, grid.ErrUnreachable):
		down = peer.address
	case errors.Is(err, errStalled), errors.Is(err, context.DeadlineExceeded):
		down = peer.String()
	}
	x.mu.Lock()
	x.report.Failures++
	isNew := !x.down[down]
	if down != "" && isNew {
		if x.down == nil {
			x.down = map[string]bool{}
		}
		x.down[down] = true
	}
	x.mu.Unlock()
	if isNew {
		x.config.Logger.Warn("replication failed", "device", x.device.Name, "policy", x.policy, "partition", partition,
			"peer", peer.String(), "step", what, "error", err)
	}
}

func (x *devicePass) isDown(peer *remote) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.down[peer.address] || x.down[peer.String()]
}

// batch is how many partitions are compared with one message to each peer.
const batch = 256

func (x *devicePass) run(ctx context.Context) {
	numbers, err := x.own.partitions(ctx)
	if err != nil {
		x.failed(ctx, "partitions", 0, x.own, err)
		return
	}
	x.mend(ctx, nil)
	numbers = slices.DeleteFunc(numbers, func(n uint32) bool {
		return int(n) >= x.ring.PartitionCount()
	})
	for chunk := range slices.Chunk(numbers, batch) {
		if ctx.Err() != nil || x.isDown(x.own) {
			return
		}
		x.settleDamaged(ctx, chunk)
	}
}
