package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"time"

	"martlet/object-server/bundle/format"
	"martlet/object-server/device"
)

// Of the first and the last removalsMeasured removals of a name the median of
// what removalsStep of them cost is told: compaction begins in between.
const (
	removalsMeasured = 1000
	removalsStep     = 50
)

// removals compares removals and reads of old versions of a name, by id, with
// what they cost before, and with reads of the current version.
func removals(s *settings, d *device.Device, r *report) error {
	count := max(s.objects/5, 2*removalsMeasured)
	order := make([]int, count)
	for i := range order {
		order[i] = i + 1
	}
	for i, name := range []string{"oldest first", "newest first", "random"} {
		v := versioned{s, d, 3_000_000 + i, 0}
		if err := v.grow(count); err != nil {
			return err
		}
		switch i {
		case 0:
			if err := readsByID(&v, r); err != nil {
				return err
			}
		case 1:
			slices.Reverse(order)
		case 2:
			order = rand.New(rand.NewPCG(1, 2)).Perm(count)
			for i := range order {
				order[i]++
			}
		}
		if err := v.removeAll(name, order, r); err != nil {
			return err
		}
	}
	return batches(s, d, count, r)
}

func idOf(number int) (id format.VersionID) {
	binary.BigEndian.PutUint64(id[:], uint64(number))
	return id
}

// removeAll removes the versions of a name one by one.
func (v *versioned) removeAll(name string, order []int, r *report) error {
	var costs []time.Duration
	for at := 0; at < len(order); at += removalsStep {
		part := order[at:min(at+removalsStep, len(order))]
		before := cpuTime()
		for i, n := range part {
			t := format.Timestamp{Ticks: 188000000000000 + uint64(at+i)}
			if _, err := v.device.DeleteVersion(v.s.place(nameOf(v.number)), idOf(n), t, nameOf(v.number)); err != nil {
				return err
			}
		}
		costs = append(costs, (cpuTime()-before)/time.Duration(len(part)))
	}
	const steps = removalsMeasured / removalsStep
	middle := (len(costs) - steps) / 2
	first, last := median(costs[:steps]), median(costs[len(costs)-steps:])
	r.add(fmt.Sprintf("removing %d versions one by one, %s: the first %d", len(order), name, removalsMeasured), microseconds(first), "us CPU", "")
	r.add("  those in the middle", microseconds(median(costs[middle:middle+steps])), "us CPU", "")
	r.add(fmt.Sprintf("  the last %d", removalsMeasured), microseconds(last), "us CPU", "")
	r.add("  ratio of the last to the first", float64(last)/float64(first), "", "<= 1.2")
	return nil
}

// readsByID compares GETs of versions by id with those of the current one.
func readsByID(v *versioned, r *report) error {
	at := v.s.place(nameOf(v.number))
	id := idOf(1 + v.count/8)
	before := cpuTime()
	if err := readAll(v.device.OpenVersion(at, id)); err != nil {
		return err
	}
	r.add(fmt.Sprintf("first GET by id, behind seven eighths of %d versions", v.count), microseconds(cpuTime()-before), "us CPU", "")
	var current, old []time.Duration
	rng := rand.New(rand.NewPCG(3, 4))
	for range v.s.rounds {
		for i, costs := range []*[]time.Duration{&current, &old} {
			before := cpuTime()
			for range headsOfOne {
				var err error
				if i == 0 {
					err = readAll(v.device.Open(at))
				} else {
					err = readAll(v.device.OpenVersion(at, idOf(1+rng.IntN(v.count))))
				}
				if err != nil {
					return err
				}
			}
			*costs = append(*costs, (cpuTime()-before)/headsOfOne)
		}
	}
	r.add("GET of a version by id", microseconds(median(old)), "us CPU", "")
	r.add("  of the current one", microseconds(median(current)), "us CPU", "")
	r.add("  ratio", ratio(old, current), "", "<= 1.5 of a server's")
	r.add("  memory of what was looked up", float64(v.device.Stats().VersionBytes)/float64(v.count), "B a version", "")
	return nil
}

func readAll(o *device.Object, err error) error {
	if err != nil {
		return err
	}
	defer o.Close()
	return o.WriteRange(io.Discard, 0, o.Metadata().Size)
}

// batches removes the versions of a name many at a time.
func batches(s *settings, d *device.Device, count int, r *report) error {
	v := versioned{s, d, 3_000_100, 0}
	if err := v.grow(count); err != nil {
		return err
	}
	ids := make([]format.VersionID, count)
	for i := range ids {
		ids[i] = idOf(i + 1)
	}
	before, flushed := cpuTime(), d.Stats().Batches
	all, err := d.DeleteVersions(s.place(nameOf(v.number)), ids, format.Timestamp{Ticks: 188000000000000}, nameOf(v.number))
	for i := range all {
		err = errors.Join(err, all[i].Err)
	}
	if err != nil {
		return err
	}
	r.add(fmt.Sprintf("removing %d versions at once, each", count), microseconds(cpuTime()-before)/float64(count), "us CPU", "")
	r.add("  flushes", float64(d.Stats().Batches-flushed), "", "")
	return nil
}
