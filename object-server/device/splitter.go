package device

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"martlet/object-server/bundle"
	"martlet/object-server/device/partpower"
)

// splitter raises the part power of a device: it makes two of each partition, one
// after the other, from the last to the first, while they are in use. See
// doc/decisions/0005-splitting-partitions.md.
type splitter struct {
	device   *Device
	powers   atomic.Pointer[map[int]partpower.State] // by policy; replaced, never changed
	expected sync.Map                                // by policy, the power of its ring; see RingPower

	marking  sync.Mutex              // held while the part power of a policy changes
	files    map[int]*partpower.File // guarded by marking
	found    map[int][]uint32        // partitions still to be split, as found on the disk; guarded by marking
	rests    map[int]bool            // policies in which files of a partition that was split are left; guarded by marking
	mu       sync.Mutex              // guards what follows
	progress map[int]*SplitProgress  // since the device was opened
	wake     chan struct{}
	stopping chan struct{}
	stopped  chan struct{} // nil until started
}

// SplitProgress tells how far a policy is.
type SplitProgress struct {
	partpower.State
	Split int    // partitions that were split since the device was opened
	Left  int    // partitions still to be split, about; -1: not known yet
	Error string // why the last attempt failed, which is repeated; empty if it did not
}

// splitRetry is when a split that has failed is tried again.
const splitRetry = time.Minute

func (s *splitter) prepare(d *Device) {
	s.device = d
	s.files, s.found, s.progress = map[int]*partpower.File{}, map[int][]uint32{}, map[int]*SplitProgress{}
	s.rests = map[int]bool{}
	s.wake, s.stopping = make(chan struct{}, 1), make(chan struct{})
	s.powers.Store(&map[int]partpower.State{})
}

// power is that of a policy; false if it was never written down.
func (s *splitter) power(policy int) (partpower.State, bool) {
	p, ok := (*s.powers.Load())[policy]
	return p, ok
}

// show publishes the current power of a policy to all readers.
func (s *splitter) show(policy int, p partpower.State) {
	powers := maps.Clone(*s.powers.Load())
	powers[policy] = p
	s.powers.Store(&powers)
}

// load reads what is written down, and removes what a crash has left of splits.
func (s *splitter) load() error {
	d := s.device
	entries, err := d.fs.ReadDir(d.root)
	if err != nil {
		return fmt.Errorf("device: %w", err)
	}
	for _, entry := range entries {
		name, isPower := partpower.TrimSuffix(entry.Name())
		policy, ok := parsePolicyName(name)
		if !isPower || !ok {
			continue
		}
		f, err := partpower.Open(d.fs, d.root, policy)
		if err != nil || f == nil {
			return err
		}
		s.files[policy] = f
		if err := f.Mend(); err != nil {
			return err
		}
		s.show(policy, f.State)
		if err := s.sweep(policy); err != nil {
			return err
		}
	}
	return nil
}

// sweep removes what is left of partitions that were split, and of a split that
// was not completed. That there is the other side of it is looked for: nothing is
// removed of which no copy is known.
func (s *splitter) sweep(policy int) error {
	d := s.device
	p, _ := s.power(policy)
	if p.Next == 0 {
		return nil
	}
	partitions, err := d.partitions(policy)
	if err != nil {
		return err
	}
	for _, n := range partitions {
		if uint64(n) < p.From || uint64(n) >= 2*p.From {
			continue
		}
		id := bundle.ID{Policy: policy, Partition: n}
		isRest, err := s.holdsAny(policy, uint64(n)/2, 2*uint64(n), 2*uint64(n)+1)
		if err != nil {
			return err
		}
		holds, err := d.files.Holds(id)
		if err != nil {
			return err
		}
		switch {
		case !holds:
		case !isRest:
			d.options.Logger.Error("a partition is neither of the part power before the split nor of that after it; it is left alone",
				"device", d.root, "policy", policy, "partition", n)
		default:
			if err := d.files.Discard(id); err != nil {
				return err
			}
		}
	}
	delete(s.rests, policy)
	return nil
}

func (s *splitter) holdsAny(policy int, partitions ...uint64) (bool, error) {
	p, _ := s.power(policy)
	for _, n := range partitions {
		if n >= p.From && n < 2*p.From || n >= 1<<partpower.Max {
			continue
		}
		if holds, err := s.device.files.Holds(bundle.ID{Policy: policy, Partition: uint32(n)}); holds || err != nil {
			return holds, err
		}
	}
	return false, nil
}

func (s *splitter) start() {
	s.stopped = make(chan struct{})
	if s.device.options.splitByHand {
		close(s.stopped)
		return
	}
	go s.run()
}

func (s *splitter) stop() {
	close(s.stopping)
	<-s.stopped
	for _, f := range s.files {
		_ = f.Close() // all of it is durable
	}
}

func (s *splitter) run() {
	defer close(s.stopped)
	retry := time.NewTicker(splitRetry)
	defer retry.Stop()
	for {
		for policy := range *s.powers.Load() {
			if err := s.split(policy); err != nil {
				s.note(policy, func(n *SplitProgress) { n.Error = err.Error() })
				s.device.options.Logger.Error("splitting of partitions failed; it is tried again", "device", s.device.root, "policy", policy, "error", err)
			}
		}
		select {
		case <-s.stopping:
			return
		case <-s.wake:
		case <-retry.C:
		}
	}
}

func (s *splitter) wakeUp() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// split splits all partitions of a policy, if that was asked for. It takes as long
// a rest after each as that has taken, so that others get at the disk.
func (s *splitter) split(policy int) error {
	if p, _ := s.power(policy); !p.Splitting {
		return nil
	}
	for isFirst := true; ; isFirst = false {
		begin := time.Now()
		isDone, err := s.step(policy, isFirst)
		if isDone || err != nil {
			return err
		}
		rest := time.NewTimer(time.Since(begin))
		select {
		case <-s.stopping:
			rest.Stop()
			return nil
		case <-rest.C:
		}
	}
}

// step splits one partition, or ends the splitting when there is none left.
func (s *splitter) step(policy int, isFirst bool) (isDone bool, err error) {
	d := s.device
	if err := d.Err(); err != nil {
		return false, err
	}
	if d.failures.Load() > 0 {
		return false, errors.New("a write or flush of the device has failed since it was opened, so what is read may not be on the disk: restart the object server")
	}
	s.marking.Lock()
	defer s.marking.Unlock()
	p, _ := s.power(policy)
	if !p.Splitting {
		return true, nil
	}
	if isFirst { // the last attempt may have ended anywhere
		if err := s.sweep(policy); err != nil {
			return false, err
		}
		if s.found[policy], err = s.list(policy); err != nil {
			return false, err
		}
	}
	next, ok, err := s.advance(policy)
	if err != nil {
		return false, err
	}
	if !ok {
		err := s.finish(policy)
		return err == nil, err
	}
	if err := s.splitOne(policy, next); err != nil {
		return false, fmt.Errorf("partition %d: %w", next, err)
	}
	s.note(policy, func(n *SplitProgress) { n.Split++; n.Left = len(s.found[policy]); n.Error = "" })
	return false, nil
}

// list lists the partitions that are still to be split, in order.
func (s *splitter) list(policy int) ([]uint32, error) {
	p, _ := s.power(policy)
	all, err := s.device.partitions(policy)
	all = slices.DeleteFunc(all, func(n uint32) bool { return uint64(n) >= p.From })
	slices.Sort(all)
	s.note(policy, func(n *SplitProgress) { n.Left = len(all) })
	return all, err
}

// advance finds the last partition that is still to be split, and says so on the
// disk that there is none behind it. Until then no new one may begin there.
func (s *splitter) advance(policy int) (next uint32, ok bool, err error) {
	d := s.device
	p, _ := s.power(policy)
	for found := s.found[policy]; len(found) > 0 && !ok; found = s.found[policy] {
		last := found[len(found)-1]
		if uint64(last) < p.From {
			if ok, err = d.files.Holds(bundle.ID{Policy: policy, Partition: last}); err != nil {
				return 0, false, err
			}
		}
		if next = last; !ok {
			s.found[policy] = found[:len(found)-1]
		}
	}
	d.bundles.mu.Lock()
	defer d.bundles.mu.Unlock()
	for id := range d.bundles.open {
		if id.Policy == policy && id.Power == p.Tag(p.Power) && uint64(id.Partition) < p.From && (!ok || id.Partition > next) {
			next, ok = id.Partition, true
		}
	}
	to := uint64(0)
	if ok {
		to = uint64(next) + 1
	}
	if to == p.From {
		return next, ok, nil
	}
	p.From = to
	if err := s.files[policy].Write(p); err != nil {
		d.takeOut(err) // a restart may find either
		return 0, false, err
	}
	s.show(policy, p)
	return next, ok, nil
}

// finish ends the splitting.
func (s *splitter) finish(policy int) error {
	p, _ := s.power(policy)
	done := partpower.State{Power: p.Next, First: p.First}
	if err := s.files[policy].Write(done); err != nil {
		s.device.takeOut(err)
		return err
	}
	s.show(policy, done)
	s.note(policy, func(n *SplitProgress) { n.Left, n.Error = 0, "" })
	s.device.options.Logger.Info("part power raised", "device", s.device.root, "policy", policy, "part_power", done.Power)
	return nil
}

// note changes what is said of the progress.
func (s *splitter) note(policy int, change func(n *SplitProgress)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.progress[policy] == nil {
		s.progress[policy] = &SplitProgress{Left: -1}
	}
	change(s.progress[policy])
}

// Progress tells of each policy whose part power was written down how far it is.
func (d *Device) Progress() map[int]SplitProgress {
	all := map[int]SplitProgress{}
	d.splitter.mu.Lock()
	defer d.splitter.mu.Unlock()
	for policy, p := range *d.splitter.powers.Load() {
		one := SplitProgress{Left: -1}
		if known := d.splitter.progress[policy]; known != nil {
			one = *known
		}
		one.State = p
		all[policy] = one
	}
	return all
}

// pathOf is for messages.
func (d *Device) pathOf(policy int, partition uint32) string {
	return filepath.Join(d.root, bundle.PolicyDirectory(policy), fmt.Sprint(partition))
}

// Split does at once what the splitter would come to, or one step of it. For
// tests.
func (d *Device) Split(policy int, isOne bool) (isDone bool, err error) {
	if err := d.enter(); err != nil {
		return false, err
	}
	defer d.leave()
	for isFirst := true; ; isFirst = false {
		if isDone, err = d.splitter.step(policy, isFirst); isDone || err != nil || isOne {
			return isDone, err
		}
	}
}
