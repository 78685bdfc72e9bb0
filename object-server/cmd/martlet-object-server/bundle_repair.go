package main

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"martlet/object-server/bundle"
	"martlet/object-server/bundle/inspect"
	"martlet/object-server/device"
	"martlet/object-server/vfs"
)

// repair rewrites damaged segments, or reports what it would do.
func (f *bundleFlags) repair(arguments []string) error {
	apply := f.set.Bool("apply", false, "")
	conf := f.set.String("conf", relinkerConf, "")
	path, err := f.one(arguments)
	if err != nil {
		return err
	}
	isQuarantined, err := inQuarantine(path)
	if err != nil {
		return err
	}
	if isQuarantined {
		return fmt.Errorf("%s is in quarantine: what is there was damaged, and is kept as it is", path)
	}
	t, err := readTarget(path)
	if err != nil {
		return err
	}
	if t.file != "" {
		return fmt.Errorf("%s is a file; repair takes a partition's directory or a device", path)
	}
	isLocked, err := isLocked(t.root)
	if err != nil {
		return err
	}
	var all []*device.Repaired
	switch {
	case isLocked:
		all, err = f.ask(t, *conf, *apply)
	case *apply:
		if err := settle(t.root, f.stderr); err != nil {
			return err
		}
		all, err = f.apply(t)
	default:
		all, err = f.plan(t)
	}
	if err != nil {
		return err
	}
	if len(all) > 0 && !*apply && !isLocked {
		f.hintJournal(t)
	}
	return f.tell(all, *apply)
}

// isLocked reports whether a server has the device.
func isLocked(root string) (bool, error) {
	lock, err := vfs.OS{}.OpenDir(root)
	if err != nil {
		return false, err
	}
	err = lock.Lock()
	isLocked := errors.Is(err, vfs.ErrLocked)
	if isLocked {
		err = nil
	}
	return isLocked, errors.Join(err, lock.Close())
}

// lockDevice keeps the server from opening the device.
func lockDevice(root string) (vfs.Dir, error) {
	lock, err := vfs.OS{}.OpenDir(root)
	if err != nil {
		return nil, err
	}
	if err = lock.Lock(); err == nil {
		return lock, nil
	}
	return nil, errors.Join(inUse(root, err), lock.Close())
}

func inUse(root string, err error) error {
	if errors.Is(err, vfs.ErrLocked) {
		return fmt.Errorf("an object server has just opened %s: try again", root)
	}
	return err
}

// settle opens the device once, as the server does: this writes records that are only
// in its journal to the bundles.
func settle(root string, stderr io.Writer) error {
	d, err := device.Open(vfs.OS{}, root, device.Options{Logger: slog.New(slog.NewTextHandler(stderr, nil))})
	if err != nil {
		return inUse(root, err)
	}
	return d.Close()
}

// plan reads the partitions and reports what is to be done.
func (f *bundleFlags) plan(t *target) ([]*device.Repaired, error) {
	return f.damaged(t, vfs.ReadOnly{Ahead: true}, func(*device.Repaired) error { return nil })
}

// apply repairs the damaged partitions until no damage is left.
func (f *bundleFlags) apply(t *target) ([]*device.Repaired, error) {
	return f.damaged(t, vfs.OS{}, func(r *device.Repaired) error {
		damages, rewritten, returns := len(r.Damages), len(r.Rewrite), len(r.Returns)
		if err := r.Run(r.Quarantine); err != nil {
			return err
		}
		r.Done = true
		return f.describe(r, r.Damages[damages:], r.Rewrite[rewritten:], r.Returns[returns:])
	})
}

// damaged finds the partitions that need repair, reports each and calls use with it.
// The device is locked meanwhile. If one partition cannot be repaired, it goes on with
// the others.
func (f *bundleFlags) damaged(t *target, fs vfs.FS, use func(*device.Repaired) error) (all []*device.Repaired, err error) {
	lock, err := lockDevice(t.root)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	now := time.Now()
	m := newMeter(fs)
	stop := m.progress(f.stderr, t.bytes())
	defer stop()
	var failed error
	err = t.each(m, func(files *bundle.Files, id bundle.ID) error {
		r := device.NewRepaired(t.root, id, now)
		if r.Repair, err = inspect.PlanRepair(files, id); err == nil && len(r.Damages) > 0 {
			all = append(all, r)
			m.clear()
			if err = f.describe(r, r.Damages, r.Rewrite, r.Returns); err == nil {
				err = use(r)
			}
			if f.json {
				err = errors.Join(err, f.line(r))
			}
		}
		if err != nil {
			f.complain(fmt.Errorf("%s: %w", r.Path, err))
			failed = errTold
		}
		return nil
	})
	return all, errors.Join(err, failed)
}

// describe reports damages, and their repair.
func (f *bundleFlags) describe(r *device.Repaired, damages []bundle.Damage, rewritten []string, returns []inspect.Return) error {
	if f.json { // reported after the repair
		return nil
	}
	var b strings.Builder
	for _, d := range damages {
		fmt.Fprintf(&b, "%s: %s\n", r.Path, &d)
	}
	for _, back := range returns {
		whose := "hash " + back.Hash.String()
		if back.Name != "" {
			whose = strconv.Quote(back.Name)
		}
		fmt.Fprintf(&b, "%s: record %d of %s counts again, because record %d is lost\n", r.Path, back.LSN, whose, back.Lost)
	}
	if n := unnamed(damages); n > 0 {
		fmt.Fprintf(&b, "%s: %s may be lost of which nothing is known: older records of names that are not known may count again\n",
			r.Path, count(n, "record"))
	}
	for _, name := range rewritten {
		fmt.Fprintf(&b, "%s: %s is written anew without what is damaged; the original goes to %s\n", r.Path, name, r.Quarantine)
	}
	_, err := io.WriteString(f.stdout, b.String())
	return err
}

// unnamed counts the lost records whose names are not known.
func unnamed(damages []bundle.Damage) (n uint64) {
	for i := range damages {
		n += damages[i].Unnamed
	}
	return n
}

// tell ends the report. Damage that stays makes the exit status 1.
func (f *bundleFlags) tell(all []*device.Repaired, done bool) error {
	var err error
	switch {
	case f.json:
	case len(all) == 0:
		_, err = fmt.Fprintln(f.stdout, "nothing is damaged")
	case done:
		_, err = fmt.Fprintf(f.stdout, "%s repaired\n", count(len(all), "partition"))
	default:
		_, err = fmt.Fprintf(f.stdout, "%s damaged; nothing was changed: --apply repairs what is damaged\n", count(len(all), "partition"))
	}
	if err == nil && len(all) > 0 && !done {
		err = errDamage
	}
	return err
}
