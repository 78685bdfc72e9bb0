package main

import (
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"martlet/object-server/bundle/format"
	"martlet/object-server/bundle/versions"
	"martlet/object-server/device"
	"martlet/object-server/vfs"
)

const (
	versionsFew  = 10
	versionsStep = 64 // additions measured together: one turn of the lists in the format
	headsOfOne   = 100
)

// versionCosts measures what the number of versions of a name changes. Flushes are
// left out: they cost the same whatever is flushed.
func versionCosts(s *settings, r *report) error {
	fs := &counted{FS: vfs.OS{}}
	fs.skipFlushes.Store(true)
	d, err := s.open(fs)
	if err != nil {
		return err
	}
	defer d.Close()
	many, all := s.objects/10, s.objects
	big := versioned{s, d, 0, 0}
	if err := big.grow(many); err != nil {
		return err
	}
	if err := listing(&big, fs, r); err != nil {
		return err
	}
	if err := heads(&big, r); err != nil {
		return err
	}
	if err := additions(&big, r); err != nil {
		return err
	}
	if err := big.grow(all - big.count); err != nil {
		return err
	}
	cost, err := big.step()
	if err != nil {
		return err
	}
	r.add(fmt.Sprintf("adding a version at %d", all), microseconds(cost), "us CPU", "<= 30")
	if err := removals(s, d, r); err != nil {
		return err
	}
	r.note("one writer, no flushes; CPU of the whole process, median of %d rounds of %d additions", s.rounds, versionsStep)
	return nil
}

// versioned is a name that gets versions.
type versioned struct {
	s      *settings
	device *device.Device
	number int
	count  int
}

func (v *versioned) grow(n int) error {
	for range n {
		if err := v.add(); err != nil {
			return err
		}
	}
	return nil
}

func (v *versioned) add() error {
	name := nameOf(v.number)
	u, err := v.device.NewUpload(v.s.place(name), int64(v.s.size))
	if err != nil {
		return err
	}
	defer u.Abort()
	if _, err := u.Write(v.s.body(v.count)); err != nil {
		return err
	}
	v.count++
	m := format.Metadata{
		Name: name, ContentType: "application/octet-stream", ETag: etag, Size: int64(v.s.size),
		Timestamp: format.Timestamp{Ticks: 178000000000000 + uint64(v.count)},
	}
	binary.BigEndian.PutUint64(m.VersionID[:], uint64(v.count))
	_, err = u.Commit(&m)
	return err
}

// step is the CPU time of one addition, of as many as make the lists come round.
func (v *versioned) step() (time.Duration, error) {
	var costs []time.Duration
	for range v.s.rounds {
		before := cpuTime()
		if err := v.grow(versionsStep); err != nil {
			return 0, err
		}
		costs = append(costs, (cpuTime()-before)/versionsStep)
	}
	return median(costs), nil
}

// ratio is the median of the ratios of what was measured side by side.
func ratio(many, few []time.Duration) float64 {
	all := make([]float64, len(many))
	for i := range many {
		all[i] = float64(many[i]) / float64(few[i])
	}
	slices.Sort(all)
	return all[len(all)/2]
}

func microseconds(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1000 }

// additions compares a name of many versions with others of few, turn by turn.
func additions(big *versioned, r *report) error {
	at := big.count
	var few, many []time.Duration
	for i := range big.s.rounds {
		small := versioned{big.s, big.device, 1_000_000 + i, 0}
		if err := small.grow(versionsFew); err != nil {
			return err
		}
		for _, one := range []*versioned{&small, big} {
			before := cpuTime()
			if err := one.grow(versionsStep); err != nil {
				return err
			}
			cost := (cpuTime() - before) / versionsStep
			if one == big {
				many = append(many, cost)
			} else {
				few = append(few, cost)
			}
		}
	}
	m, f := median(many), median(few)
	r.add(fmt.Sprintf("adding a version at %d", at), microseconds(m), "us CPU", "")
	r.add(fmt.Sprintf("  at %d", versionsFew), microseconds(f), "us CPU", "")
	r.add("  ratio", ratio(many, few), "", "<= 1.05")
	return nil
}

// heads compares HEAD of a name of many versions with that of a name of one.
func heads(big *versioned, r *report) error {
	at := big.count
	var one, many []time.Duration
	for i := range versionsStep { // wherever the lists are
		single := versioned{big.s, big.device, 2_000_000 + i, 0}
		for _, v := range []*versioned{&single, big} {
			if err := v.add(); err != nil {
				return err
			}
			before := cpuTime()
			for range headsOfOne * v.s.rounds {
				if _, err := v.device.Head(v.s.place(nameOf(v.number))); err != nil {
					return err
				}
			}
			cost := (cpuTime() - before) / time.Duration(headsOfOne*v.s.rounds)
			if v == big {
				many = append(many, cost)
			} else {
				one = append(one, cost)
			}
		}
	}
	m, o := median(many), median(one)
	r.add(fmt.Sprintf("HEAD of the newest at %d", at), microseconds(m), "us CPU", "")
	r.add("  at 1", microseconds(o), "us CPU", "")
	r.add("  ratio", ratio(many, one), "", "<= 1.05")
	return nil
}

// listing lists all versions of a name.
func listing(big *versioned, fs *counted, r *report) error {
	var costs []time.Duration
	var reads uint64
	for range big.s.rounds {
		before, counted := cpuTime(), fs.reads.Load()
		page, err := big.device.ListVersions(big.s.place(nameOf(big.number)), versions.Marker{}, big.count+1)
		if err == nil && len(page.Versions) != big.count {
			err = fmt.Errorf("%d of %d versions listed", len(page.Versions), big.count)
		}
		if err != nil {
			return err
		}
		costs = append(costs, cpuTime()-before)
		reads = fs.reads.Load() - counted
	}
	r.add(fmt.Sprintf("listing %d versions", big.count), microseconds(median(costs))/1000, "ms CPU", "<= 10 for 10,000")
	r.add("  reads", float64(reads), "", "<= 200 for 10,000")
	return nil
}
