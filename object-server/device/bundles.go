package device

import (
	"errors"
	"io/fs"
	"path/filepath"
	"strconv"
	"sync"

	"martlet/object-server/bundle"
)

// bundles holds the partitions opened so far.
type bundles struct {
	mu   sync.RWMutex
	open map[bundle.ID]*slot // guarded by mu
}

// slot lets the first user of a partition open it while others wait.
type slot struct {
	mu     sync.Mutex
	bundle *bundle.Bundle // guarded by mu; nil until opened
}

// bundle returns the bundle of a partition and opens it at its first use. A
// failure is not remembered: the next caller tries again.
func (d *Device) bundle(id bundle.ID) (*bundle.Bundle, error) {
	d.bundles.mu.RLock()
	s := d.bundles.open[id]
	d.bundles.mu.RUnlock()
	if s == nil {
		d.bundles.mu.Lock()
		if s = d.bundles.open[id]; s == nil {
			s = new(slot)
			d.bundles.open[id] = s
		}
		d.bundles.mu.Unlock()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.bundle != nil {
		return s.bundle, nil
	}
	b, err := bundle.Open(d.files, id, bundle.Config{
		SegmentBytes: d.options.SegmentBytes, CheckpointBytes: d.options.CheckpointBytes, IndexOnDisk: d.options.IndexOnDisk,
		Damaged: d.damaged,
	})
	if err != nil {
		return nil, err
	}
	d.report(id, b.Report())
	s.bundle = b
	d.caretaker.look(b)
	return b, nil
}

// existing is bundle for what changes nothing where there is no object. A
// partition without a directory leaves nothing in memory: proxies that look for
// objects on hand-off devices ask for all there are. *NotFoundError then.
func (d *Device) existing(id bundle.ID) (*bundle.Bundle, error) {
	d.bundles.mu.RLock()
	isKnown := d.bundles.open[id] != nil
	d.bundles.mu.RUnlock()
	if !isKnown {
		partition := strconv.FormatUint(uint64(id.Partition), 10)
		_, err := d.fs.ReadDir(filepath.Join(d.root, bundle.PolicyDirectory(id.Policy), partition))
		if errors.Is(err, fs.ErrNotExist) {
			return nil, &NotFoundError{}
		}
	}
	return d.bundle(id)
}

// report logs what is not as it should be in a bundle just opened.
func (d *Device) report(id bundle.ID, r bundle.Report) {
	log := d.options.Logger.With("device", d.root, "policy", id.Policy, "partition", id.Partition)
	if r.TornTails > 0 {
		log.Info("unacknowledged end of a bundle is void", "segments", r.TornTails)
	}
	for _, footer := range r.Footers {
		log.Warn("footer of a segment is torn or damaged; its records are read instead", "footer", footer)
	}
	for _, extent := range r.Damaged {
		d.counters.quarantined.Add(1)
		log.Error("damaged data in quarantine", "extent", extent)
	}
}

// damaged counts and logs a record that is found damaged.
func (d *Device) damaged(err error) {
	d.counters.quarantined.Add(1)
	d.options.Logger.Error("damaged data in quarantine", "device", d.root, "error", err)
}

// all returns the bundles that are open.
func (s *bundles) all() []*bundle.Bundle {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var all []*bundle.Bundle
	for _, slot := range s.open {
		slot.mu.Lock()
		if slot.bundle != nil {
			all = append(all, slot.bundle)
		}
		slot.mu.Unlock()
	}
	return all
}
