package device

import (
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"martlet/object-server/bundle"
	"martlet/object-server/bundle/format"
	"martlet/object-server/bundle/inspect"
)

// Repaired is what repair did with a partition, or would do.
type Repaired struct {
	Path       string `json:"path"`
	Quarantine string `json:"quarantine"`
	Done       bool   `json:"done"`
	*inspect.Repair
}

// NewRepaired names the places of a repair of a partition on a device, which has
// found nothing yet.
func NewRepaired(root string, id bundle.ID, now time.Time) *Repaired {
	partition := fmt.Sprint(id.Partition)
	return &Repaired{
		Path: filepath.Join(root, bundle.PolicyDirectory(id.Policy), partition),
		Quarantine: filepath.Join(root, bundle.QuarantineFolder, bundle.QuarantineDirectory(id.Policy),
			partition+"-"+now.UTC().Format(bundle.QuarantineTime)),
		Repair: &inspect.Repair{Damages: []bundle.Damage{}, Rewrite: []string{}, Returns: []inspect.Return{}},
	}
}

// newMended is NewRepaired for a repair that no operator has asked for: what it takes away is
// removed from quarantine by age.
func newMended(root string, id bundle.ID) *Repaired {
	r := NewRepaired(root, id, time.Now())
	r.Quarantine += bundle.MendedSuffix
	return r
}

// repairFilesMax keeps all segments of a partition open while it is read.
const repairFilesMax = 1 << 10

// Repair makes a damaged partition open clean while all others are in use, as
// inspect.Repair says; without apply it only says what is to be done. A partition
// without damage is read, and stays in use, unless it is in doubt: what began the doubt may
// have been compacted away since, and then the partition is opened anew. Requests to a damaged one wait until
// it was read once more and its damaged segments are written anew. A crash leaves
// each segment as it was or repaired.
//
// It waits for what the compactor is doing, and for the partition that is being
// split. Errors: ErrNoSpace, ErrOut, ErrClosed, ErrInvalid for what is left of a
// split.
func (d *Device) Repair(policy int, partition uint32, apply bool) (*Repaired, error) {
	if err := d.enter(); err != nil {
		return nil, err
	}
	defer d.leave()
	d.splitter.marking.Lock() // the partition stays what it is
	defer d.splitter.marking.Unlock()
	id, ok := d.bundleIn(policy, partition)
	if !ok {
		return nil, fmt.Errorf("%w: %s is what is left of a split", ErrInvalid, d.pathOf(policy, partition))
	}
	r := NewRepaired(d.root, id, time.Now())
	if holds, err := d.files.Holds(id); err != nil || !holds {
		return r, err
	}
	s := d.partitionOf(id)
	b, err := d.open(s, id)
	if err != nil {
		return nil, err
	}
	found, err := verify(d.fs, d.root, id, b.Acknowledged())
	if err == nil && (len(found) > 0 || b.Doubt().LSN > 0) {
		err = d.repair(s, id, r, apply, nil)
	}
	return r, err
}

// permit refuses to repair damages, or says of which names the records are to be erased with
// them, each up to an LSN.
type permit func(b *bundle.Bundle, damages []bundle.Damage) (erased map[format.Hash]uint64, err error)

// repair takes a partition out of use, and repairs it, unless permit, if given, refuses.
func (d *Device) repair(s *partition, id bundle.ID, r *Repaired, apply bool, permit permit) error {
	return d.alone(s, id, apply, func(b *bundle.Bundle) error {
		// What was opened before is not read: a repair replaces files by others of their names.
		files := bundle.NewFiles(d.fs, d.root, repairFilesMax)
		floor := b.Acknowledged()
		files.Floor = func(bundle.ID, format.Identity) uint64 { return floor }
		return errors.Join(d.repairAlone(s, b, r, files, apply, permit), files.Close())
	})
}

// repairAlone is repair of a bundle that nothing else uses.
func (d *Device) repairAlone(s *partition, b *bundle.Bundle, r *Repaired, files *bundle.Files, apply bool, permit permit) error {
	id := b.ID()
	plan, err := inspect.PlanRepair(files, id)
	if err != nil {
		return err
	}
	r.Repair = plan
	for i := range plan.Damages {
		d.damages.note(id, plan.Damages[i], true)
	}
	if permit != nil {
		erased, err := permit(b, plan.Damages)
		if err != nil {
			return err
		}
		r.Erase(erased)
	}
	if !apply || len(r.Damages) == 0 && permit == nil && b.Doubt().LSN == 0 {
		return nil
	}
	leave := func() {}
	if permit != nil {
		if leave, err = d.roomToRewrite(files.Directory(id), r.Rewrite); err != nil {
			return err
		}
	}
	err = r.Run(r.Quarantine)
	leave()
	if r.Done = err == nil; r.Done {
		d.damages.repaired(id)
	}
	d.renew(s, id, nil)
	d.options.Logger.Info("repair of a partition", "device", d.root, "policy", id.Policy, "partition", id.Partition,
		"damages", len(r.Damages), "rewritten", len(r.Rewrite), "quarantine", r.Quarantine, "error", err)
	return err
}

// roomToRewrite asks for the room of segments that are written anew: the old ones keep theirs
// in quarantine. leave must follow.
func (d *Device) roomToRewrite(directory string, segments []string) (leave func(), err error) {
	var bytes int64
	for _, name := range segments {
		file, err := d.fs.Open(filepath.Join(directory, name))
		if err != nil {
			return nil, fmt.Errorf("device: %w", err)
		}
		size, err := file.Size()
		if err = errors.Join(err, file.Close()); err != nil {
			return nil, fmt.Errorf("device: %w", err)
		}
		bytes += size
	}
	if err := d.room.enter(bytes); err != nil {
		return nil, err
	}
	return func() { d.room.leave(bytes) }, nil
}

// alone calls do with a bundle that nothing else uses. If it is to be changed all of it is
// durable, and closed. The caretaker and the compactor keep off, as they do while it is split.
func (d *Device) alone(s *partition, id bundle.ID, changes bool, do func(b *bundle.Bundle) error) error {
	if changes && d.failures.Load() > 0 {
		return errors.New("device: a write or flush has failed since it was opened, so what is read may not be on the disk: restart the object server")
	}
	d.compactor.working.Lock()
	defer d.compactor.working.Unlock()
	d.caretaker.working.Lock()
	defer d.caretaker.working.Unlock()
	s.use.Lock()
	defer s.use.Unlock()
	b, err := d.open(s, id)
	if err != nil {
		return err
	}
	if changes {
		if err := d.settle(b); err != nil {
			return err
		}
	}
	return do(b)
}

// renew puts a bundle that is opened anew in the place of the one whose files were
// replaced, or of which damages were met since: their records count as lost. If it cannot be
// opened the next user tries again. s.use is held.
func (d *Device) renew(s *partition, id bundle.ID, lost []bundle.Damage) {
	s.opening.Lock() // the next user of the partition waits here; a list of the bundles does not
	defer s.opening.Unlock()
	s.mu.Lock()
	old := s.bundle
	s.bundle = nil
	s.mu.Unlock()
	old.Retire()
	d.committer.forget(old)
	b, err := bundle.Reopen(d.files, id, d.bundleConfig())
	if err != nil {
		d.options.Logger.Error("a repaired partition cannot be opened", "device", d.root, "policy", id.Policy, "partition", id.Partition, "error", err)
		return
	}
	b.Distrust(lost)
	d.report(id, b.Report())
	s.mu.Lock()
	s.bundle, s.opened = b, time.Now()
	s.mu.Unlock()
	d.caretaker.look(b)
}
