package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"martlet/object-server/background"
	"martlet/object-server/bundle"
	"martlet/object-server/bundle/format"
	"martlet/object-server/bundle/inspect"
	"martlet/object-server/grid"
	"martlet/object-server/replicator/wire"
	"martlet/object-server/ring"
	"martlet/object-server/vfs"
)

// device is one of this host. One goroutine at a time makes its passes; it starts others for names.
type device struct {
	*Lifecycle
	name    string
	root    string
	address string
	peer    *grid.Peer // its server
	bytes   *background.Rate
	objects *background.Rate

	state   *cursor            // nil: not read yet
	noted   time.Time          // when it was written last
	buckets map[string]*bucket // of this pass, by account/container
	seen    map[string]sight   // other devices, by address/device
	isAway  bool               // the server did not have it the last time

	counting sync.Mutex
	report   Report  // since counted was called; guarded by counting
	waiting  []parts // uploads whose parts go; guarded by counting
}

func (d *device) setRates(rates *Rates) {
	d.bytes.Set(rates.BytesPerSecond)
	d.objects.Set(rates.ObjectsPerSecond)
}

func (d *device) count(add func(r *Report)) {
	d.counting.Lock()
	defer d.counting.Unlock()
	add(&d.report)
}

// counted takes what was counted since the last call.
func (d *device) counted() (r Report) {
	d.counting.Lock()
	defer d.counting.Unlock()
	r, d.report = d.report, Report{}
	return r
}

// unit is a partition of a policy, in the order of a pass.
type unit struct {
	Policy    int    `json:"policy"`
	Partition uint32 `json:"partition"`
}

func (u unit) isAfter(o unit) bool {
	return u.Policy > o.Policy || u.Policy == o.Policy && u.Partition > o.Partition
}

// units lists the bundles of the device behind one, in order; nil: all.
func (d *device) units(after *unit) (all []unit, err error) {
	for _, policy := range d.config.Policies {
		entries, unread := d.config.Files.ReadDir(filepath.Join(d.root, bundle.PolicyDirectory(policy)))
		if unread != nil && !errors.Is(unread, fs.ErrNotExist) {
			err = errors.Join(err, unread)
		}
		var some []unit
		for _, entry := range entries {
			n, err := strconv.ParseUint(entry.Name(), 10, 32)
			if u := (unit{policy, uint32(n)}); err == nil && entry.IsDir() && (after == nil || u.isAfter(*after)) {
				some = append(some, u)
			}
		}
		slices.SortFunc(some, func(x, y unit) int { return int(int64(x.Partition) - int64(y.Partition)) })
		all = append(all, some...)
	}
	return all, err
}

// pass does what is due on the device: parts that wait, and a pass from where the last one was, if its time has come. A pass
// that is made once begins at the first partition.
func (d *device) pass(ctx context.Context, isOnce bool, report *Report) {
	if d.state == nil {
		d.state = d.readCursor()
		d.waiting = d.state.Waiting
	}
	p := &d.state.Pass
	if isOnce {
		*p = progress{Began: time.Now()}
	}
	isDue := p.Ended.IsZero() || time.Since(p.Began) >= d.config.Interval
	if !isDue && !d.hasDue() {
		return
	}
	if err := d.present(ctx, d.peer, unit{}, d.name); err != nil {
		if !d.isAway && ctx.Err() == nil {
			d.config.Logger.Warn("a device is left out", "device", d.name, "error", err)
			report.Failures++
		}
		d.isAway = true
		return
	}
	d.isAway = false
	d.dropDue(ctx)
	defer func() {
		done := d.counted()
		report.add(&done)
		p.Report.add(&done)
		d.note(true)
	}()
	if !isDue {
		return
	}
	if !p.Ended.IsZero() || p.Began.IsZero() {
		*p = progress{Began: time.Now()}
	}
	d.goOn(ctx, p, report)
}

// goOn goes through the partitions behind the cursor.
func (d *device) goOn(ctx context.Context, p *progress, report *Report) {
	d.buckets, d.seen = map[string]*bucket{}, map[string]sight{}
	all, err := d.units(p.After)
	if err != nil {
		d.config.Logger.Warn("a folder cannot be listed", "device", d.name, "error", err)
		d.count(func(r *Report) { r.Failures++ })
	}
	d.walk(ctx, all, p, report)
	if ctx.Err() != nil {
		return
	}
	p.Ended, d.buckets = time.Now(), nil
	done := d.counted()
	report.add(&done)
	p.Report.add(&done)
	r := &p.Report
	d.config.Logger.Info("lifecycle pass", "device", d.name, "seconds", time.Since(p.Began).Seconds(), "partitions", r.Partitions,
		"names", r.Names, "expired", r.Expired, "removed", r.Removed, "markers", r.Markers, "aborted", r.Aborted, "parts", r.Parts,
		"refused", r.Refused, "changed", r.Changed, "damaged", r.Damaged, "failures", r.Failures)
}

// present asks a server whether it has a device.
func (d *device) present(ctx context.Context, peer *grid.Peer, u unit, name string) error {
	_, err := d.stateOf(ctx, peer, u, name)
	return err
}

func (d *device) stateOf(ctx context.Context, peer *grid.Peer, u unit, name string) (state wire.AuditState, err error) {
	ctx, cancel := context.WithTimeout(ctx, d.config.NodeTimeout)
	defer cancel()
	q := wire.Partition{Device: name, Policy: u.Policy, Number: u.Partition}
	err = grid.Call(ctx, peer, wire.NameAuditState, &q, &state)
	return state, err
}

// sight is whether another device was there when it was asked.
type sight struct {
	at      time.Time
	isThere bool
}

// seenFor is how long another device is taken to be there, or not, after it was asked.
const seenFor = 30 * time.Second

// errLeft says that another device works on a partition.
var errLeft = errors.New("lifecycle: another replica is there")

// isFirst tells whether this device is the first replica of a partition that is there.
func (d *device) isFirst(ctx context.Context, policy int, partition uint32, replicas []*ring.Device) bool {
	for _, other := range replicas {
		r := d.remote(other, partition)
		if other.Name == d.name && r.address == d.address {
			return true
		}
		last, ok := d.seen[r.String()]
		if !ok || time.Since(last.at) > seenFor {
			err := d.present(ctx, r.peer, unit{policy, partition}, r.device)
			last = sight{time.Now(), err == nil}
			d.seen[r.String()] = last
		}
		if last.isThere {
			return false
		}
	}
	return false // it has been given the partition for a while, or has it no more
}

// againMax is how often a partition is read once more, because compaction has replaced a segment.
const againMax = 3

// partition reads a partition, and begins what is due for its names.
func (d *device) partition(ctx context.Context, t *task) error {
	u := t.unit
	current, err := d.config.Rings.Object(u.Policy)
	if current == nil { // else an error says that it is the ring from before
		return fmt.Errorf("its ring cannot be read: %w", err)
	}
	state, err := d.stateOf(ctx, d.peer, u, d.name)
	if err != nil || !state.IsThere {
		return err
	}
	id := bundle.ID{Policy: u.Policy, Partition: u.Partition, Power: state.Power}
	for n := 1; ; n++ {
		damaged, err := d.names(ctx, t, id, state.Position.Engine(), current)
		if n < againMax && errors.Is(err, fs.ErrNotExist) {
			t.busy.Wait()
			continue
		}
		if errors.Is(err, errLeft) {
			d.count(func(r *Report) { r.Left++ })
			return nil
		}
		d.count(func(r *Report) { r.Partitions, r.Damaged = r.Partitions+1, r.Damaged+damaged })
		return err
	}
}

// filesMax keeps all segments of a partition open.
const filesMax = 1 << 10

// names begins what is due for the names of a bundle of which the server has told the position.
func (d *device) names(ctx context.Context, t *task, id bundle.ID, at bundle.Position, current *ring.Ring) (damaged int, err error) {
	var read atomic.Int64
	paced := &vfs.Paced{FS: d.config.Files, Read: func(n int) {
		read.Add(int64(n))
		_ = d.bytes.Wait(ctx, int64(n)) // once the context has ended, what was read does not count
	}}
	files := bundle.NewFiles(paced, d.root, filesMax)
	files.Floor = func(_ bundle.ID, identity format.Identity) uint64 {
		if identity == at.Bundle || identity == (format.Identity{}) {
			return at.LSN
		}
		return 0 // of a bundle that has come in its place
	}
	count, isOurs := 0, false
	damaged, err = inspect.Names(files, id, func(n *inspect.Name) error {
		if !isOurs { // all names are on the same devices, even while the partition is being split
			number := current.Partition(n.Head.Hash())
			if isOurs = d.isFirst(ctx, id.Policy, number, current.PartitionDevices(number)); !isOurs {
				return errLeft
			}
		}
		p, err := d.due(ctx, n)
		switch {
		case errors.Is(err, format.ErrQuarantined):
			count++
			return nil
		case err != nil || p == nil:
			return err
		case (p.begun != nil || len(p.uploads) > 0) && !d.hasRoom():
			d.count(func(r *Report) { r.Failures++ })
			return nil
		}
		where := &place{id.Policy, d.replicas(current, p.hash)}
		t.begin(func() { d.carryOut(ctx, p, where) })
		return ctx.Err()
	})
	d.count(func(r *Report) { r.Bytes += read.Load() })
	return damaged + count, errors.Join(err, files.Close())
}

// due finds what is due for a name; nil for nothing.
func (d *device) due(ctx context.Context, n *inspect.Name) (*plan, error) {
	m, err := n.Head.Metadata()
	if err != nil {
		return nil, format.ErrQuarantined
	}
	account, container, key, ok := splitPath(m.Name)
	if !ok || d.config.Hasher.Object(account, container, key) != n.Head.Hash() {
		return nil, nil
	}
	b, err := d.bucketOf(ctx, account, container)
	if err != nil {
		d.count(func(r *Report) { r.Failures++ })
		return nil, nil
	}
	if len(b.rules) == 0 {
		return nil, nil
	}
	d.count(func(r *Report) { r.Names++ })
	e := examiner{bucket: b, now: time.Now(), day: d.config.Day, plan: plan{account: account, container: container, key: key, partsPolicy: b.policy, isLockable: b.isLockable}}
	return e.examine(n, m)
}
