package updates

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"sync"
	"time"

	"martlet/object-server/grid"
)

// rowsMax bounds one UPDATE request.
const rowsMax = 500

// fullGroup is how many rows a request had if the next one waits for the whole of BatchDelay.
const fullGroup = 5

// hostPause is how long rows for a server that could not be reached become pending at once, so that not every write
// waits for a connection that will not come.
const hostPause = time.Second

var (
	errTimeout   = errors.New("no answer within container_update_timeout")
	errHostPause = errors.New("container server was unreachable a moment ago")
)

// Options of an Updater.
type Options struct {
	UpdateTimeout time.Duration // how long Deliver waits for container servers
	BatchDelay    time.Duration // how long a request waits for more rows at most while they come in groups; 0: not at all
	ConnTimeout   time.Duration // to connect to a container server
	NodeTimeout   time.Duration // for its answer
	RetryFirst    time.Duration // pause before a pending row is tried again; it doubles with each failure
	Interval      time.Duration // up to this
	Placement     Placement     // finds the primaries of a container
	Logger        *slog.Logger

	Grid *grid.Grid // carries rows to container servers that have a grid; nil: all go over HTTP
	// Dial connects to a container server for HTTP; nil: TCP within ConnTimeout.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// Updater delivers rows to container servers. It is safe for concurrent use.
type Updater struct {
	options Options
	sender  *sender
	backoff *backoff

	ctx    context.Context // ends the background work
	cancel context.CancelFunc
	work   sync.WaitGroup // replay loops

	mu     sync.Mutex
	queues map[Target]*queue    // only targets with rows or a request under way
	paused map[string]time.Time // by host: until then, rows go to the pending file at once
}

// queue holds the rows that wait for the request under way. Guarded by Updater.mu.
type queue struct {
	waiting []*delivery
	wanted  int           // how many rows to wait for; 0: none, or they are there
	enough  chan struct{} // one token when they are
}

// delivery is one row on its way.
type delivery struct {
	row  Row
	done chan struct{} // closed once err is final

	mu       sync.Mutex
	finished bool
	err      error
	saved    func() // marks the saved row as delivered after all; nil unless it was saved
}

// New returns an Updater; Close ends its background work.
func New(options Options) *Updater {
	ctx, cancel := context.WithCancel(context.Background())
	return &Updater{
		options: options,
		sender:  newSender(&options),
		backoff: newBackoff(options.RetryFirst, options.Interval),
		ctx:     ctx,
		cancel:  cancel,
		queues:  map[Target]*queue{},
		paused:  map[string]time.Time{},
	}
}

// Close ends requests under way and the replay of pending rows, and waits for both. Deliver must not be called later.
func (u *Updater) Close() {
	u.cancel()
	u.work.Wait()
	u.sender.client.CloseIdleConnections()
}

// Deliver sends updates and waits until each is delivered or durable in pending, at most the update timeout plus the
// time to make it durable. An update without a host is made durable at once. An error says that rows could be neither
// delivered nor saved: the write that caused them must not be acknowledged. They are kept in memory then, because what was
// written may be found. policy is that of the object.
func (u *Updater) Deliver(pending *Pending, policy int, updates []Update) error {
	deliveries := make([]*delivery, len(updates))
	for i, update := range updates {
		deliveries[i] = &delivery{row: update.Row, done: make(chan struct{})}
		if update.Target.Host == "" {
			deliveries[i].finish(errNoHost)
			continue
		}
		u.enqueue(update.Target, deliveries[i])
	}
	timer := time.NewTimer(u.options.UpdateTimeout)
	defer timer.Stop()
	expired := false
	for _, d := range deliveries {
		if expired {
			break
		}
		select {
		case <-d.done:
		case <-timer.C:
			expired = true
		}
	}
	return u.saveFailed(pending, policy, updates, deliveries)
}

// saveFailed makes durable what was not delivered up to now.
func (u *Updater) saveFailed(pending *Pending, policy int, updates []Update, deliveries []*delivery) error {
	var failed []Update
	var late []*delivery
	for i, d := range deliveries {
		if err := d.outcome(); err != nil {
			failed = append(failed, updates[i])
			late = append(late, d)
			u.options.Logger.Debug("container update becomes pending", "host", updates[i].Target.Host,
				"account", updates[i].Target.Account, "container", updates[i].Target.Container, "error", err)
		}
	}
	if len(failed) == 0 {
		return nil
	}
	ids, err := pending.Append(policy, failed)
	if err != nil {
		ids = pending.hold(policy, failed, err)
	}
	for i, d := range late {
		d.savedAs(func() { pending.Delivered(ids[i]) })
	}
	return err
}

// enqueue adds d to the next request to target and starts it if none is under way.
func (u *Updater) enqueue(target Target, d *delivery) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if until, ok := u.paused[target.Host]; ok {
		if time.Now().Before(until) {
			d.finish(errHostPause)
			return
		}
		delete(u.paused, target.Host)
	}
	if q := u.queues[target]; q != nil {
		q.waiting = append(q.waiting, d)
		if q.wanted > 0 && len(q.waiting) >= q.wanted {
			q.wanted = 0
			q.enough <- struct{}{}
		}
		return
	}
	q := &queue{waiting: []*delivery{d}, enough: make(chan struct{}, 1)}
	u.queues[target] = q
	go u.run(target, q)
}

// run sends what waits for target, request after request, until nothing waits. A request costs the container server a
// transaction and a flush however many rows it has, so while rows come in groups it waits for a larger group; a lone
// writer never waits.
func (u *Updater) run(target Target, q *queue) {
	for sent := 0; ; {
		if sent > 1 {
			u.gather(q, sent)
		}
		batch := u.nextBatch(target, q)
		if batch == nil {
			return
		}
		rows := make([]Row, len(batch))
		for i, d := range batch {
			rows[i] = d.row
		}
		sent = len(rows)
		errs := u.sender.send(u.ctx, target, rows)
		u.learn(target.Host, errs)
		for i, d := range batch {
			if errs == nil {
				d.finish(nil)
			} else {
				d.finish(errs[i])
			}
		}
	}
}

// gather waits until nearly as many rows wait as there are writers: those whose rows the last request had may come back
// with the next ones.
func (u *Updater) gather(q *queue, sent int) {
	delay := u.groupDelay(sent)
	if delay == 0 {
		return
	}
	u.mu.Lock()
	wanted := sent + len(q.waiting) // rows that wait already were not in the last request
	wanted = min(wanted-wanted/16, rowsMax)
	isEnough := len(q.waiting) >= wanted
	if !isEnough {
		q.wanted = wanted
	}
	u.mu.Unlock()
	if isEnough {
		return
	}
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-q.enough:
	case <-timer.C:
	case <-u.ctx.Done():
	}
}

// groupDelay is how long a request waits at most after one with so many rows. After a small one it is a part of
// BatchDelay: a larger group would spare less there.
func (u *Updater) groupDelay(sent int) time.Duration {
	return u.options.BatchDelay * time.Duration(min(sent, fullGroup)) / fullGroup
}

// nextBatch takes the rows for the next request; nil, when nothing waits, ends the queue. Rows whose writer has given
// up waiting are on disk already and left to the replay.
func (u *Updater) nextBatch(target Target, q *queue) []*delivery {
	u.mu.Lock()
	defer u.mu.Unlock()
	q.wanted = 0
	select {
	case <-q.enough: // the wait had ended already
	default:
	}
	var batch []*delivery
	taken := 0
	for _, d := range q.waiting {
		if len(batch) == rowsMax {
			break
		}
		taken++
		if !d.isFinished() {
			batch = append(batch, d)
		}
	}
	q.waiting = q.waiting[taken:]
	if len(batch) == 0 {
		delete(u.queues, target)
		return nil
	}
	return batch
}

// learn remembers that a host cannot be reached, or that it can be reached again.
func (u *Updater) learn(host string, errs []error) {
	if errs == nil {
		u.backoff.clear(host)
		return
	}
	if last := errs[len(errs)-1]; last == nil || isAnswer(last) {
		return
	}
	u.options.Logger.Warn("container server unreachable, updates become pending", "host", host,
		"error", errs[len(errs)-1])
	u.mu.Lock()
	u.paused[host] = time.Now().Add(hostPause)
	u.mu.Unlock()
}

// finish sets the outcome. After the writer gave up waiting, a delivery that succeeds nevertheless spares the replay.
func (d *delivery) finish(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.finished {
		d.finished, d.err = true, err
		close(d.done)
		return
	}
	if err == nil && errors.Is(d.err, errTimeout) {
		d.err = nil
		if d.saved != nil {
			d.saved()
		}
	}
}

// outcome is called once the writer stops waiting: nil if the row was delivered, else why not.
func (d *delivery) outcome() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.finished {
		d.finished, d.err = true, errTimeout
		close(d.done)
	}
	return d.err
}

func (d *delivery) isFinished() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.finished
}

// savedAs says how to mark the saved row as delivered, and does so if it was delivered meanwhile.
func (d *delivery) savedAs(mark func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.saved = mark
	if d.err == nil {
		mark()
	}
}
