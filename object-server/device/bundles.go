package device

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"martlet/object-server/bundle"
)

// bundles holds the partitions opened so far.
type bundles struct {
	mu   sync.RWMutex
	open map[bundle.ID]*partition // guarded by mu
}

// partition lets the first user of a bundle open it while others wait, and keeps it
// as it is while it is in use.
type partition struct {
	use sync.RWMutex // held for reading by each operation on the bundle, for writing to split it

	opening sync.Mutex   // held while the partition is opened, which may take seconds; taken before mu
	waiting atomic.Int32 // operations that want the partition opened

	mu     sync.Mutex     // never held while the disk is waited for
	bundle *bundle.Bundle // guarded by mu; nil until opened. A holder of use has it opened, and may read it
	opened time.Time      // guarded by mu: when the bundle was
	last   uint64         // guarded by mu: the last LSN that the bundle had then
	moved  bool           // guarded by mu: the partition was split

	owing owing // writes of which containers must be told
}

// errMoved says that a partition has just been split: what is looked for is in
// another one.
var errMoved = errors.New("device: partition was split")

// bundleOf is the bundle that a name belongs to, now.
func (d *Device) bundleOf(at Location) bundle.ID {
	if p, ok := d.splitter.power(at.Policy); ok {
		return p.Of(at.Policy, at.Hash)
	}
	return bundle.ID{Policy: at.Policy, Partition: at.Partition}
}

// bundleIn is the bundle that a partition's directory holds; false if it holds
// none.
func (d *Device) bundleIn(policy int, partition uint32) (bundle.ID, bool) {
	if p, ok := d.splitter.power(policy); ok {
		return p.Bundle(policy, partition)
	}
	return bundle.ID{Policy: policy, Partition: partition}, true
}

// partitionOf finds the partition of a bundle, or makes it.
func (d *Device) partitionOf(id bundle.ID) *partition {
	d.bundles.mu.RLock()
	s := d.bundles.open[id]
	d.bundles.mu.RUnlock()
	if s == nil {
		d.bundles.mu.Lock()
		if s = d.bundles.open[id]; s == nil {
			s = new(partition)
			d.bundles.open[id] = s
		}
		d.bundles.mu.Unlock()
	}
	return s
}

// bundle returns a bundle and opens it at its first use. A failure is not
// remembered: the next caller tries again. errMoved if there is no such bundle
// any more.
func (d *Device) bundle(id bundle.ID) (*bundle.Bundle, error) { return d.open(d.partitionOf(id), id) }

func (d *Device) open(s *partition, id bundle.ID) (*bundle.Bundle, error) {
	b, err := d.opened(s, id)
	if b == nil && err == nil {
		b, err = d.openFirst(s, id)
	}
	if errors.Is(err, errMoved) {
		d.bundles.drop(id, s)
	}
	return b, err
}

// opened returns the bundle of a partition, nil before its first use.
func (d *Device) opened(s *partition, id bundle.ID) (*bundle.Bundle, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if found, ok := d.bundleIn(id.Policy, id.Partition); s.moved || !ok || found != id {
		return nil, errMoved
	}
	return s.bundle, nil
}

// openFirst opens a bundle unless another caller was faster. Only those that want the
// same partition wait for it.
//
// They are bounded: otherwise those that wait for one partition would take the places
// of all operations, and open partitions would not be served.
func (d *Device) openFirst(s *partition, id bundle.ID) (*bundle.Bundle, error) {
	defer s.waiting.Add(-1)
	if n := int(s.waiting.Add(1)); n > max(d.options.OperationsMax/8, 1) {
		return nil, fmt.Errorf("%w: %d wait until partition %d is open", ErrBusy, n-1, id.Partition)
	}
	s.opening.Lock()
	defer s.opening.Unlock()
	if b, err := d.opened(s, id); b != nil || err != nil {
		return b, err
	}
	if err := d.longCalls.enter(); err != nil {
		return nil, err
	}
	b, err := bundle.Open(d.files, id, d.bundleConfig())
	d.longCalls.leave()
	if err != nil {
		return nil, err
	}
	d.floors.drop(id)
	d.report(id, b.Report())
	s.mu.Lock()
	s.bundle, s.opened, s.last = b, time.Now(), b.Position().LSN
	s.mu.Unlock()
	d.caretaker.look(b)
	return b, nil
}

func (d *Device) bundleConfig() bundle.Config {
	return bundle.Config{
		SegmentBytes: d.options.SegmentBytes, CheckpointBytes: d.options.CheckpointBytes, IndexOnDisk: d.options.IndexOnDisk,
		Damaged: d.damaged, Versions: d.versions,
	}
}

// drop forgets a partition that belongs to no bundle any more.
func (s *bundles) drop(id bundle.ID, gone *partition) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open[id] == gone {
		delete(s.open, id)
	}
}

// use returns the partition of a name's bundle, which is open and will not be split
// until done is called.
func (d *Device) use(at Location) (*partition, error) {
	if err := d.splitter.heed(at); err != nil {
		return nil, err
	}
	for {
		id := d.bundleOf(at)
		s := d.partitionOf(id)
		s.use.RLock()
		_, err := d.open(s, id)
		if err == nil && d.bundleOf(at) == id {
			return s, nil
		}
		s.use.RUnlock()
		if err != nil && !errors.Is(err, errMoved) {
			return nil, err
		}
	}
}

func (p *partition) done() { p.use.RUnlock() }

// existing is use for what changes nothing where there is no object. A partition
// without a directory leaves nothing in memory: proxies that look for objects on
// hand-off devices ask for all there are. *NotFoundError then.
func (d *Device) existing(at Location) (*partition, error) {
	if err := d.splitter.heed(at); err != nil {
		return nil, err
	}
	for {
		id := d.bundleOf(at)
		d.bundles.mu.RLock()
		isKnown := d.bundles.open[id] != nil
		d.bundles.mu.RUnlock()
		if isKnown {
			return d.use(at)
		}
		hasDirectory, err := d.hasDirectory(id)
		if err != nil {
			return nil, err
		}
		if hasDirectory {
			return d.use(at)
		}
		if d.bundleOf(at) == id { // not split meanwhile
			return nil, &NotFoundError{}
		}
	}
}

// hasDirectory tells whether a partition may have one: what cannot be read is there.
func (d *Device) hasDirectory(id bundle.ID) (bool, error) {
	if err := d.calls.enter(); err != nil {
		return false, err
	}
	defer d.calls.leave()
	partition := strconv.FormatUint(uint64(id.Partition), 10)
	_, err := d.fs.ReadDir(filepath.Join(d.root, bundle.PolicyDirectory(id.Policy), partition))
	return !errors.Is(err, fs.ErrNotExist), nil
}

// report logs what is not as it should be in a bundle just opened.
func (d *Device) report(id bundle.ID, r bundle.Report) {
	log := d.options.Logger.With("device", d.root, "policy", id.Policy, "partition", id.Partition)
	if r.TornTails > 0 {
		log.Info("unacknowledged end of a bundle is void", "segments", r.TornTails)
	}
	if r.LargeAside > 0 {
		log.Warn("large files that no record names are in quarantine: of writes that were not acknowledged, or of records that are lost",
			"files", r.LargeAside, "quarantine", r.Aside)
	}
	if r.Left != "" {
		log.Warn("large files that no record names cannot be put into quarantine", "error", r.Left)
	}
	for _, footer := range r.Footers {
		log.Warn("footer of a segment is torn or damaged; its records are read instead", "footer", footer)
	}
	for i := range r.Extents {
		d.damages.note(id, r.Extents[i], false)
	}
	for _, extent := range r.Damaged {
		d.counters.quarantined.Add(1)
		log.Error("damaged data in quarantine", "extent", extent)
	}
}

// damaged counts and logs a record that is found damaged.
func (d *Device) damaged(err error) {
	d.counters.quarantined.Add(1)
	d.damages.met(err)
	d.options.Logger.Error("damaged data in quarantine", "device", d.root, "error", err)
}

// all returns the bundles that are open.
func (s *bundles) all() []*bundle.Bundle {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var all []*bundle.Bundle
	for _, p := range s.open {
		p.mu.Lock()
		if p.bundle != nil {
			all = append(all, p.bundle)
		}
		p.mu.Unlock()
	}
	return all
}
