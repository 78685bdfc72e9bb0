package device

import (
	"cmp"
	"errors"
	"io/fs"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"martlet/object-server/bundle"
	"martlet/object-server/bundle/format"
)

// compactionLook is how often all open bundles are looked at. Those that change
// much are looked at whenever one of their segments is full.
const compactionLook = 10 * time.Second

// shortLook is how often where room is short.
const shortLook = time.Second

// eagerShare of a run of segments must be dead for it to be rewritten when the
// device is nearly full.
const eagerShare = 0.25

// shortShare is that share where free room is below twice the reserve.
const shortShare = 1.0 / 16

// lowLeast dead bytes are worth a rewrite where room is short: what a new segment
// with little in it takes is less.
const lowLeast = 16 << 10

// errStopping ends a compaction when the device is closed.
var errStopping = errors.New("device: stopping")

// compactor gives back the room of what was overwritten and deleted. One
// goroutine, one bundle at a time, at a pace that leaves the disk to others. What
// it does not come to is found again later.
type compactor struct {
	device   *Device
	pace     pacer
	wake     chan struct{}
	stopping chan struct{}
	stopped  chan struct{}
	working  sync.Mutex // held while a bundle is compacted, or split
	opened   time.Time  // when all partitions were; the goroutine's

	mu     sync.Mutex
	wanted bool                   // a DELETE waits for room; guarded by mu
	gained chan struct{}          // closed when there is room, or none to be had; guarded by mu
	gains  uint64                 // guarded by mu
	queue  []*bundle.Bundle       // guarded by mu
	peers  map[bundle.ID][]string // guarded by mu; see Replica.SetPeers
}

func (c *compactor) start(d *Device) {
	c.device = d
	c.wake, c.stopping, c.stopped = make(chan struct{}, 1), make(chan struct{}), make(chan struct{})
	c.gained = make(chan struct{})
	c.peers = make(map[bundle.ID][]string)
	c.pace = pacer{rate: float64(max(d.options.CompactionRate, 0)), written: &d.counters.bytesWritten, stopping: c.stopping}
	if d.options.compactByHand {
		close(c.stopped)
		return
	}
	go c.run()
}

// stop ends the goroutine, also in the middle of a segment. Nothing is left of it.
func (c *compactor) stop() {
	close(c.stopping)
	<-c.stopped
}

// look queues a bundle that may have something to compact.
func (c *compactor) look(b *bundle.Bundle) {
	if c.device.options.compactByHand {
		return
	}
	c.mu.Lock()
	if !slices.Contains(c.queue, b) {
		c.queue = append(c.queue, b)
	}
	c.mu.Unlock()
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

func (c *compactor) run() {
	defer close(c.stopped)
	runtime.LockOSThread() // its I/O priority is its own; the thread ends with the goroutine
	beIdle()
	look, round := time.NewTicker(shortLook), time.NewTicker(c.device.options.CompactionRound)
	defer look.Stop()
	defer round.Stop()
	looked := time.Now()
	for {
		select {
		case <-c.stopping:
			return
		case <-c.wake:
			c.mu.Lock()
			queue := c.queue
			c.queue = nil
			wanted := c.wanted
			c.wanted = false
			c.mu.Unlock()
			if wanted {
				c.relief()
			} else {
				c.work(queue)
			}
		case <-look.C:
			_, _ = c.device.room.look() // others will meet the error
			c.drain()
			if c.device.room.short.Load() || time.Since(looked) >= compactionLook {
				c.work(c.worst())
				looked = time.Now()
			}
		case <-round.C:
			c.openAll()
			c.opened = time.Now()
			c.work(c.worst())
		}
	}
}

// drain gives up the emptied segments where room is short.
func (c *compactor) drain() {
	if c.device.files.Scarce.Load() {
		c.device.files.Drain()
	}
}

// beIdle lets the I/O of this thread wait for that of all others, where the
// scheduler of the disk knows priorities.
func beIdle() {
	const whoProcess, classIdle, classShift = 1, 3, 13
	// It is a courtesy: where it is refused the pace alone holds it back.
	_, _, _ = unix.Syscall(unix.SYS_IOPRIO_SET, whoProcess, 0, classIdle<<classShift)
}

// worst lists the open bundles, those with the most garbage first.
func (c *compactor) worst() []*bundle.Bundle {
	all := c.device.bundles.all()
	garbage := make(map[*bundle.Bundle]int64, len(all))
	for _, b := range all {
		live, bytes := b.Bytes()
		garbage[b] = bytes - live
	}
	slices.SortFunc(all, func(a, b *bundle.Bundle) int { return cmp.Compare(garbage[b], garbage[a]) })
	return all
}

// openAll opens each partition on the disk, so that garbage is found in
// partitions without reads and writes.
func (c *compactor) openAll() {
	entries, err := c.device.fs.ReadDir(c.device.root)
	if err != nil {
		return // others will meet it
	}
	for _, entry := range entries {
		policy, ok := parsePolicyDirectory(entry)
		if !ok {
			continue
		}
		partitions, err := c.device.partitions(policy)
		for i := 0; err == nil && i < len(partitions) && !c.isStopping(); i++ {
			if id, ok := c.device.bundleIn(policy, partitions[i]); ok {
				_, err = c.device.bundle(id)
			}
			if errors.Is(err, errMoved) {
				err = nil
			}
		}
		if err != nil {
			c.device.options.Logger.Error("a partition cannot be looked at", "device", c.device.root, "error", err)
		}
	}
}

// parsePolicyDirectory is the inverse of bundle.PolicyDirectory.
func parsePolicyDirectory(entry fs.DirEntry) (policy int, ok bool) {
	policy, ok = parsePolicyName(entry.Name())
	return policy, ok && entry.IsDir()
}

func parsePolicyName(name string) (policy int, ok bool) {
	number := "0"
	if name != bundle.PolicyDirectory(0) {
		number, _ = strings.CutPrefix(name, bundle.PolicyDirectory(0)+"-")
	}
	policy, err := strconv.Atoi(number)
	return policy, err == nil && policy >= 0 && name == bundle.PolicyDirectory(policy)
}

func (c *compactor) isStopping() bool {
	select {
	case <-c.stopping:
		return true
	default:
		return false
	}
}

// relieve waits until there is more room. It tells whether there may be some.
func (c *compactor) relieve(deadline time.Time) bool {
	if c.device.options.compactByHand {
		return false
	}
	before, isRepeated := uint64(0), false
	for {
		c.mu.Lock()
		if !isRepeated {
			before = c.gains
		}
		c.wanted = true
		gained := c.gained
		c.mu.Unlock()
		select {
		case c.wake <- struct{}{}:
		default:
		}
		timer := time.NewTimer(time.Until(deadline))
		select {
		case <-gained:
			timer.Stop()
		case <-timer.C:
			return false
		case <-c.stopping:
			timer.Stop()
			return false
		}
		c.mu.Lock()
		isMore := c.gains > before
		c.mu.Unlock()
		if isMore || isRepeated {
			return isMore
		}
		isRepeated = true // that round may have begun before
	}
}

// relief compacts what gives back most until there is room, or nothing gives any
// back. Partitions that were not used since the start are opened for that.
func (c *compactor) relief() {
	if time.Since(c.opened) > c.device.options.CompactionRound {
		c.opened = time.Now()
		c.openAll()
	}
	c.work(c.worst())
	c.gain(0)
}

// gain tells the calls that wait for room that so many bytes were given back.
func (c *compactor) gain(bytes int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if bytes > 0 {
		c.gains++
	}
	close(c.gained)
	c.gained = make(chan struct{})
}

// work compacts bundles as far as it is worth it.
func (c *compactor) work(bundles []*bundle.Bundle) {
	for i := 0; i < len(bundles); i++ {
		isGain, err := c.compact(bundles[i])
		if isGain && c.device.room.low.Load() { // others may have more to give by now
			bundles, i = c.worst(), -1
		}
		if errors.Is(err, errStopping) {
			return
		}
		if err != nil && !errors.Is(err, ErrNoSpace) {
			c.device.failed(err)
			c.device.options.Logger.Error("compaction failed", "device", c.device.root, "error", err)
		}
	}
}

// appetite says how much of a run of segments must be dead, as a share and in
// bytes (0: as usual), for it to be rewritten. The less room is left the less.
func (c *compactor) appetite() (share float64, least int64) {
	d := c.device
	switch {
	case d.options.compactShare > 0:
		share = d.options.compactShare
	case d.room.low.Load():
		least = lowLeast
	case d.room.short.Load(): // tombstones would fill the rest
		share, least = shortShare, lowLeast
	case d.room.nearlyFull.Load():
		share, least = eagerShare, lowLeast
	default:
		share = bundle.DeadShare
	}
	return share, least
}

// compact rewrites runs of segments until none is worth it, or one where room is
// low: then the room for the footer of what is closed is there for one bundle
// only.
func (c *compactor) compact(b *bundle.Bundle) (isGain bool, err error) {
	c.working.Lock()
	defer c.working.Unlock()
	d := c.device
	if b.Retired() {
		return false, nil
	}
	for {
		if err := d.Err(); err != nil || c.isStopping() {
			return isGain, errStopping
		}
		free, err := d.room.look()
		if err != nil {
			return isGain, err
		}
		c.drain()
		share, least := c.appetite()
		isLow := d.room.low.Load()
		draft := b.Turn(share, least)
		if draft != nil {
			_ = d.committer.append(b, draft) // the committer deals with its errors
			draft.Free()
		}
		live, before := b.Bytes()
		if isLow && before-live < lowLeast {
			return isGain, nil
		}
		if draft != nil || least > 0 { // what the caretaker left to the compactor may have waited since room was low
			if err := d.caretaker.care(b); err != nil {
				return isGain, err
			}
		}
		c.pace.isUnlimited = d.room.short.Load()
		done, err := c.rewrite(b, bundle.Compaction{Share: share, Least: least, Room: free})
		if err != nil || done.Segments == 0 {
			return isGain, err
		}
		if len(done.Inherited) > 0 {
			if err := c.separate(b.ID(), done.Inherited, least); err != nil {
				return isGain, err
			}
			done.Freed = 1 // about as much as is dead
		}
		if done.Freed > 0 {
			isGain = true
			c.gain(done.Freed)
		}
		if isLow {
			return isGain, nil
		}
	}
}

// rewrite rewrites one run of segments of a bundle.
func (c *compactor) rewrite(b *bundle.Bundle, how bundle.Compaction) (bundle.Compacted, error) {
	d := c.device
	how.Lock, how.Unlock, how.Settle = d.locks.lock, d.locks.unlock, c.settle
	how.Reclaim, how.ReclaimThrough = c.aged(), d.heldByAll(b)
	how.Pace = func(bytes int) error {
		d.room.lend(int64(bytes))
		return c.pace.wait(bytes)
	}
	done, err := b.Compact(&how)
	d.room.returned()
	if err == nil && done.Segments > 0 {
		d.counters.compactions.Add(1)
		d.counters.bytesCompacted.Add(uint64(done.Bytes))
		d.counters.segmentsRemoved.Add(uint64(done.Segments))
		d.counters.tombstonesReclaimed.Add(uint64(done.Tombstones))
		d.counters.versionsReclaimed.Add(uint64(done.Versions))
	}
	return done, err
}

// separate rewrites segments that a partition shared with its sibling in the
// sibling, too, so that their room comes back.
func (c *compactor) separate(id bundle.ID, shared []bundle.Inherited, least int64) error {
	sibling, ok := id.Sibling()
	if !ok {
		return nil
	}
	b, err := c.device.bundle(sibling)
	if errors.Is(err, errMoved) {
		return nil
	}
	for err == nil {
		var free int64
		if free, err = c.device.room.look(); err != nil {
			break
		}
		var done bundle.Compacted
		if done, err = c.rewrite(b, bundle.Compaction{Only: shared, Least: least, Room: free}); done.Segments == 0 {
			break
		}
	}
	return err
}

// settle makes sure that no replay of the journal touches a segment again: pieces
// of a removed one would come back.
func (c *compactor) settle() error {
	if j := c.device.committer.journal; j != nil {
		return j.Settle()
	}
	return nil
}

// forget ends what SetPeers has said of a bundle that is gone.
func (c *compactor) forget(id bundle.ID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.peers, id)
}

// ticksPerSecond: ticks are 10 µs.
const ticksPerSecond = 100_000

// aged is the time before which tombstones are old enough to go.
func (c *compactor) aged() format.Timestamp {
	age := int64(c.device.options.ReclaimAge / time.Second * ticksPerSecond)
	return format.Timestamp{Ticks: uint64(max(time.Now().UnixMicro()/10-age, 0))}
}

// Compact does at once what the caretaker and the compactor would come to with
// the partitions of the device that are open. For tests and benchmarks.
func (d *Device) Compact() error {
	if err := d.enter(); err != nil {
		return err
	}
	defer d.leave()
	for _, b := range d.bundles.all() {
		if err := d.caretaker.care(b); err != nil {
			return err
		}
	}
	d.compactor.work(d.compactor.worst())
	return d.Err()
}
