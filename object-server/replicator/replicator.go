package replicator

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"golang.org/x/time/rate"

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

// Replicator sends what peers miss. Safe for concurrent use.
type Replicator struct {
	config Config
	grid   *grid.Grid
	rate   *rate.Limiter
}

// New returns a Replicator.
func New(config Config) *Replicator {
	return &Replicator{config, config.Grid, newRate(config.Rate)}
}

// SetRate changes how many bytes a second are sent; 0: no limit.
func (r *Replicator) SetRate(bytes int64) { setRate(r.rate, bytes) }

// Report is what one pass over devices did.
type Report struct {
	Partitions int   `json:"partitions"` // compared with all their peers
	InSync     int   `json:"in_sync"`    // of these, with equal replicas at the end
	Handoffs   int   `json:"handoffs"`   // on devices that are not their place
	GivenBack  int   `json:"given_back"` // hand-offs that were removed
	Sent       int   `json:"sent"`       // records that peers have stored
	Bytes      int64 `json:"bytes"`
	Fetched    int   `json:"fetched"` // records that replaced damaged ones
	Damaged    int   `json:"damaged"` // partitions with damage, before the pass
	Failures   int   `json:"failures"`
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
	p.Failures += o.Failures
}

// Pass goes once over all devices of this host, in parallel. What fails is logged, counted and left to the next pass.
func (r *Replicator) Pass(ctx context.Context) (*Report, error) {
	var total Report
	var mu sync.Mutex
	var all sync.WaitGroup
	err := r.eachDevice(func(current *ring.Ring, policy int, d *ring.Device) {
		all.Add(1)
		go func() {
			defer all.Done()
			x := r.passOf(current, policy, d)
			x.run(ctx)
			mu.Lock()
			defer mu.Unlock()
			total.add(&x.report)
		}()
	})
	all.Wait()
	return &total, errors.Join(err, ctx.Err())
}

// eachDevice calls do for each device of this host in the ring of each policy. A ring that cannot be read is an error, and
// those of the other policies go on.
func (r *Replicator) eachDevice(do func(current *ring.Ring, policy int, d *ring.Device)) (err error) {
	for _, policy := range r.config.Policies {
		current, unread := r.config.Rings.Object(policy)
		if unread != nil {
			err = errors.Join(err, unread)
		}
		if current == nil {
			continue
		}
		for _, d := range current.Devices {
			if d != nil && r.config.IsOwn(d) {
				do(current, policy, d)
			}
		}
	}
	return err
}

// passOf is a pass over a device that has not begun.
func (r *Replicator) passOf(current *ring.Ring, policy int, d *ring.Device) *devicePass {
	x := &devicePass{Replicator: r, ring: current, policy: policy, device: d, own: r.remote(d, policy)}
	x.own.directory = r.config.deviceDirectory(d.Name)
	return x
}

// devicePass is a pass over one device for one policy.
type devicePass struct {
	*Replicator
	ring   *ring.Ring
	policy int
	device *ring.Device
	own    *remote

	mu     sync.Mutex
	report Report
	down   map[string]bool // addresses that could not be reached in this pass
	doubts map[uint32]bool // partitions of which records of unknown names are lost
}

func (x *devicePass) note(change func(report *Report)) {
	x.mu.Lock()
	defer x.mu.Unlock()
	change(&x.report)
}

// failed logs a failure. A peer that cannot be reached is left out of the rest of the pass.
func (x *devicePass) failed(ctx context.Context, what string, partition uint32, peer *remote, err error) {
	if ctx.Err() != nil {
		return
	}
	isDown := errors.Is(err, grid.ErrUnreachable)
	x.mu.Lock()
	x.report.Failures++
	isNew := !x.down[peer.address]
	if isDown && isNew {
		if x.down == nil {
			x.down = map[string]bool{}
		}
		x.down[peer.address] = true
	}
	x.mu.Unlock()
	if !isDown || isNew {
		x.config.Logger.Warn("replication failed", "device", x.device.Name, "policy", x.policy, "partition", partition,
			"peer", peer.String(), "step", what, "error", err)
	}
}

func (x *devicePass) isDown(peer *remote) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.down[peer.address]
}

// batch is how many partitions are compared with one message to each peer.
const batch = 256

func (x *devicePass) run(ctx context.Context) {
	x.mend(ctx)
	numbers, err := x.own.partitions(ctx)
	if err != nil {
		x.failed(ctx, "partitions", 0, x.own, err)
		return
	}
	numbers = slices.DeleteFunc(numbers, func(n uint32) bool {
		return int(n) >= x.ring.PartitionCount()
	})
	for chunk := range slices.Chunk(numbers, batch) {
		if ctx.Err() != nil {
			return
		}
		x.chunk(ctx, chunk)
	}
}
