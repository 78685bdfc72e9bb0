package device

import (
	"errors"
	"fmt"
	"slices"

	"martlet/object-server/bundle"
	"martlet/object-server/failpoint"
)

// splitOne makes two of the partition that From stands behind.
//
//	step                                                a crash after it leaves
//	1 links to all files in both children, durable      the partition, and links to be removed
//	2 From = the partition, in both halves of the file  the children, and the partition's files to be removed
//	3 the partition's files removed, durable            the children
//
// Partition 0 stays where it is: with step 2 its directory is that of child 0.
func (s *splitter) splitOne(policy int, partition uint32) error {
	d := s.device
	p, _ := s.power(policy)
	id, ok := p.Bundle(policy, partition)
	if !ok {
		return errMoved
	}
	parent := d.partitionOf(id)
	b, err := d.open(parent, id)
	if err != nil {
		return err
	}
	children := id.Children(p.Tag(p.Next))
	fresh := children[:]
	if partition == 0 {
		fresh = children[1:]
	}
	if err := s.share(id, fresh, true); err != nil { // most of it while it is in use
		return err
	}
	if err := s.replace(policy, parent, b, children, fresh); err != nil {
		if d.Err() != nil { // the disk may say that the children count
			return err
		}
		for _, child := range fresh {
			err = errors.Join(err, d.files.Discard(child))
		}
		return err
	}
	failpoint.Hit(failpoint.SplitPublished)
	if partition != 0 {
		if err := d.files.Discard(id); err != nil {
			s.rests[policy] = true
			return err
		}
	}
	failpoint.Hit(failpoint.SplitCleaned)
	return nil
}

// share links the files of a bundle into its children, where nothing may be.
func (s *splitter) share(id bundle.ID, fresh []bundle.ID, isFirst bool) error {
	for _, child := range fresh {
		if isFirst {
			if err := s.device.files.Discard(child); err != nil {
				return err
			}
		}
		if err := s.device.files.Share(id, child); err != nil {
			return err
		}
	}
	return nil
}

// replace blocks all use of the bundle, puts its children in its place, and lets
// operations go on there.
func (s *splitter) replace(policy int, parent *partition, b *bundle.Bundle, children [2]bundle.ID, fresh []bundle.ID) error {
	d := s.device
	d.compactor.working.Lock()
	defer d.compactor.working.Unlock()
	d.caretaker.working.Lock()
	defer d.caretaker.working.Unlock()
	parent.use.Lock()
	defer parent.use.Unlock()
	if err := s.link(b, children, fresh); err != nil {
		return err
	}
	failpoint.Hit(failpoint.SplitLinked)
	halves, err := s.openHalves(b, children, fresh)
	if err != nil {
		return err
	}
	for _, h := range halves { // no operation begins before all is tidy
		h.use.Lock()
		defer h.use.Unlock()
	}
	if err := s.publish(policy, parent, b, halves); err != nil {
		for _, h := range halves {
			h.bundle.Retire()
		}
		return err
	}
	for _, h := range halves {
		if err := h.adopt(); err != nil { // large files of no use stay until the partition is next opened
			d.options.Logger.Warn("leftovers of a split partition", "device", d.root, "error", err)
		}
		d.report(h.bundle.ID(), h.bundle.Report())
		d.caretaker.look(h.bundle)
	}
	return nil
}

// half is what a partition becomes one of two of.
type half struct {
	partition
	adopt func() error
}

// openHalves opens the children of a bundle, to which all its files are linked. A
// fresh one in which nothing counts is removed again if the other one stays. One of the
// two tells after a crash that the bundle's own files are left over from the split.
func (s *splitter) openHalves(b *bundle.Bundle, children [2]bundle.ID, fresh []bundle.ID) (halves []*half, err error) {
	var made []*bundle.Bundle
	for _, child := range children {
		h := &half{}
		if h.bundle, h.adopt, err = bundle.Inherit(s.device.files, child, s.device.bundleConfig()); err != nil {
			break
		}
		halves, made = append(halves, h), append(made, h.bundle)
	}
	if err == nil {
		err = complete(b, made)
	}
	if err != nil {
		for _, child := range made {
			child.Retire()
		}
		return nil, err
	}
	left := len(halves)
	return slices.DeleteFunc(halves, func(h *half) bool {
		id := h.bundle.ID()
		if left == 1 || h.bundle.Named() > 0 || len(h.bundle.Report().Damaged) > 0 || !slices.Contains(fresh, id) || s.device.files.Discard(id) != nil {
			return false
		}
		left--
		h.bundle.Retire()
		return true
	}), nil
}

// link closes the bundle and gives its children all of it.
func (s *splitter) link(b *bundle.Bundle, children [2]bundle.ID, fresh []bundle.ID) error {
	d := s.device
	if err := d.settle(b); err != nil {
		return err
	}
	if err := s.share(b.ID(), fresh, false); err != nil {
		return err
	}
	for _, child := range children {
		if err := d.files.SyncAll(child); err != nil {
			d.failed(err)
			return err
		}
	}
	return nil
}

// settle closes a bundle that is not in use: all of it is durable, no file of it
// grows any more, and no replay of the journal touches one.
func (d *Device) settle(b *bundle.Bundle) error {
	if err := b.Close(); err != nil {
		if j := d.committer.journal; j != nil { // as the caretaker does
			j.Repair()
		}
		return err
	}
	return d.compactor.settle()
}

// complete checks that the children have every record of the bundle between them,
// unless they have met damage that was not known.
func complete(b *bundle.Bundle, made []*bundle.Bundle) error {
	have, damage := 0, 0
	for _, child := range made {
		have += child.Named()
		damage = max(damage, len(child.Report().Damaged)+len(child.Report().Footers))
	}
	if have < b.Named() && damage <= len(b.Report().Damaged)+len(b.Report().Footers) {
		return fmt.Errorf("only %d of its %d records are of names that belong there: it holds what is not of its part power, and is not split", have, b.Named())
	}
	return nil
}

// publish makes the children count, on the disk and in memory.
func (s *splitter) publish(policy int, parent *partition, b *bundle.Bundle, halves []*half) error {
	d := s.device
	p, _ := s.power(policy)
	p.From = uint64(b.ID().Partition)
	noted := d.rowsOf(b)
	d.inheritRows(noted, b.ID(), halves, false)
	if err := s.files[policy].Write(p); err != nil {
		d.takeOut(err) // a restart may find either
		return err
	}
	d.inheritRows(noted, b.ID(), halves, true)
	d.bundles.mu.Lock()
	parent.mu.Lock()
	s.show(policy, p)
	delete(d.bundles.open, b.ID())
	parent.moved, parent.bundle = true, nil
	for _, h := range halves {
		h.last = parent.last // Unreported may not have visited it
		d.bundles.open[h.bundle.ID()] = &h.partition
	}
	parent.mu.Unlock()
	d.bundles.mu.Unlock()
	d.compactor.forget(b.ID())
	b.Retire()
	d.committer.forget(b)
	return nil
}
