package auditor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"

	"martlet/object-server/bundle"
	"martlet/object-server/bundle/format"
	"martlet/object-server/bundle/inspect"
	"martlet/object-server/replicator/wire"
)

// unit is what is audited at once: a partition's bundle, or its files of OpenStack Swift.
type unit struct {
	Policy    int    `json:"policy"`
	IsSwift   bool   `json:"swift,omitempty"`
	Partition uint32 `json:"partition"`
}

func (u unit) compare(o unit) int {
	return cmp.Or(cmp.Compare(u.Policy, o.Policy), cmp.Compare(u.rank(), o.rank()), cmp.Compare(u.Partition, o.Partition))
}

// rank puts bundles before the files of OpenStack Swift.
func (u unit) rank() int {
	if u.IsSwift {
		return 1
	}
	return 0
}

func (u unit) wire(device string) wire.Partition {
	return wire.Partition{Device: device, Policy: u.Policy, Number: u.Partition}
}

// folder is that of the units of a policy, below the device.
func folder(policy int, isSwift bool) string {
	if isSwift {
		return bundle.SwiftDirectory(policy)
	}
	return bundle.PolicyDirectory(policy)
}

// units lists what is on the device after a unit, in order; nil: all. What cannot be listed is a failure.
func (d *device) units(after *unit, report *Report) (all []unit) {
	for _, policy := range d.config.Policies {
		for _, isSwift := range []bool{false, true} {
			entries, err := d.config.Files.ReadDir(filepath.Join(d.root, folder(policy, isSwift)))
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				d.failed(report, "a folder cannot be listed", unit{Policy: policy, IsSwift: isSwift}, err)
			}
			for _, entry := range entries {
				n, err := strconv.ParseUint(entry.Name(), 10, 32)
				u := unit{policy, isSwift, uint32(n)}
				if err == nil && entry.IsDir() && (after == nil || u.compare(*after) > 0) {
					all = append(all, u)
				}
			}
		}
	}
	slices.SortFunc(all, unit.compare)
	return all
}

// pass audits the device from where p is. It tells whether it has come to the end: not if the context ends, the device is
// away, or something else is due. What is done is in report, too.
func (d *device) pass(ctx context.Context, p *progress, report *Report, isDue func() bool) (isEnded bool) {
	if err := d.present(ctx); err != nil {
		if !d.away && ctx.Err() == nil {
			d.failed(report, "a device is not audited", unit{}, err)
		}
		d.away = true
		return false
	}
	d.away = false
	all := d.units(p.After, report)
	for i, u := range all {
		if i+1 < len(all) {
			d.prefetch(all[i+1])
		}
		var done Report
		err := d.unit(ctx, p.Kind, u, &done)
		if ctx.Err() != nil { // the next pass begins with it
			return false
		}
		d.touch()
		if errors.Is(err, errAway) {
			d.failed(&done, "a device is not audited", u, err)
			d.away = true
			report.add(&done)
			return false
		}
		if err != nil {
			d.failed(&done, "a partition is not audited", u, err)
		}
		report.add(&done)
		p.Report.add(&done)
		p.After = &u
		d.note(false)
		if isDue != nil && isDue() {
			return false
		}
	}
	return true
}

// prefetch has the kernel read the start of a bundle before its turn.
func (d *device) prefetch(u unit) {
	files, ok := d.config.Files.(interface{ Prefetch(name string) })
	if !ok || u.IsSwift {
		return
	}
	directory := filepath.Join(d.root, folder(u.Policy, false), strconv.FormatUint(uint64(u.Partition), 10))
	entries, err := d.config.Files.ReadDir(directory)
	if err != nil { // told when it is its turn
		return
	}
	for _, entry := range entries {
		if _, _, isSegment := format.ParseSegmentName(entry.Name()); isSegment {
			files.Prefetch(filepath.Join(directory, entry.Name()))
			return
		}
	}
}

func (d *device) failed(report *Report, what string, u unit, err error) {
	report.Failures++
	d.config.Logger.Warn(what, "device", d.name, "policy", u.Policy, "partition", u.Partition, "swift", u.IsSwift, "error", err)
}

// present is errAway if the server does not have the device: the mount point may be empty, or of another disk.
func (d *device) present(ctx context.Context) error {
	_, err := d.stateOf(ctx, unit{})
	return err
}

func (d *device) stateOf(ctx context.Context, u unit) (state wire.AuditState, err error) {
	q := u.wire(d.name)
	if err = d.call(ctx, d.config.NodeTimeout, wire.NameAuditState, &q, &state); err != nil {
		err = fmt.Errorf("%w: %w", errAway, err)
	}
	return state, err
}

// unit audits one.
func (d *device) unit(ctx context.Context, kind Kind, u unit, done *Report) error {
	state, err := d.stateOf(ctx, u)
	if err != nil {
		return err
	}
	if u.IsSwift {
		return d.swift(ctx, kind, u, done)
	}
	if !state.IsThere { // removed meanwhile, or what is left of a split
		return nil
	}
	id := bundle.ID{Policy: u.Policy, Partition: u.Partition, Power: state.Power}
	verdict, err := d.verify(ctx, kind, id, state.Position.Engine(), done)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	done.Partitions++
	if err == nil {
		done.Segments, done.Objects, done.LargeFiles = verdict.Segments, verdict.Records, verdict.LargeFiles
		if err := d.waitFor(ctx, kind, verdict.Records); err != nil {
			return err
		}
		if len(verdict.Damages) == 0 {
			return nil
		}
	}
	return d.suspect(ctx, u, done)
}

// suspect asks the server whether a partition is damaged.
func (d *device) suspect(ctx context.Context, u unit, done *Report) error {
	found, err := d.examine(ctx, u)
	if err != nil {
		return err
	}
	if len(found) == 0 {
		done.Refuted++
	}
	done.Damages += len(found)
	for _, damage := range found {
		d.config.Logger.Error("damage was found", "device", d.name, "policy", u.Policy, "partition", u.Partition, "damage", damage)
	}
	return nil
}

// openMax keeps all segments of a partition open, so that one that is replaced meanwhile can still be read.
const openMax = 1 << 10

// verify reads a bundle of which the server has told the position.
func (d *device) verify(ctx context.Context, kind Kind, id bundle.ID, at bundle.Position, done *Report) (*inspect.Verdict, error) {
	files := bundle.NewFiles(d.files(ctx, done), d.root, openMax)
	files.Floor = func(_ bundle.ID, identity format.Identity) uint64 {
		if identity == at.Bundle || identity == (format.Identity{}) {
			return at.LSN
		}
		return 0 // of a bundle that has come in its place
	}
	var verdict *inspect.Verdict
	var err error
	if kind == Fast {
		verdict, err = inspect.VerifyHeads(files, id)
	} else {
		verdict, err = inspect.Verify(files, id, "")
	}
	return verdict, errors.Join(err, files.Close())
}

// waitFor waits until so many objects may pass.
func (d *device) waitFor(ctx context.Context, kind Kind, objects int) error {
	defer d.pause()()
	return d.objects[kind].Wait(ctx, int64(objects))
}
