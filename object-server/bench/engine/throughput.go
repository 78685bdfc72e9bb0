package main

import (
	"errors"
	"fmt"
	"time"

	"martlet/object-server/bench/blockstat"
	"martlet/object-server/device"
	"martlet/object-server/vfs"
)

// contender is one way of storing objects. A round stores or reads
// s.objects of them.
type contender struct {
	name                 string
	put, get             func(round int) error
	puts, gets, coldGets []time.Duration
	device               blockstat.Counters // of the PUTs
	putCPU, getCPU       time.Duration      // of this process; GETs from the page cache
}

// throughput lets the contenders take turns, so that whatever else the machine
// does meets all of them, and compares medians.
func throughput(s *settings, r *report) error {
	d, err := s.open(vfs.OS{})
	if err != nil {
		return err
	}
	defer d.Close()
	bare, err := newBareLoop(s)
	if err != nil {
		return err
	}
	defer bare.close()
	each, err := newFilePerObject(s)
	if err != nil {
		return err
	}
	engine := &contender{name: "engine", put: s.enginePut(d), get: s.engineGet(d)}
	loop := &contender{name: "bare loop", put: bare.put, get: bare.get}
	files := &contender{name: "file per object", put: each.put, get: each.get}
	before := d.Stats()
	// Round 0 makes partitions and files, and does not count.
	for round := range s.rounds + 1 {
		for _, c := range []*contender{engine, loop, files} {
			if err := c.play(s, r, round); err != nil {
				return err
			}
		}
	}
	stats := d.Stats()
	s.compare(r, engine, loop, files)
	r.add("engine, PUTs per flush", float64(stats.Puts-before.Puts)/float64(stats.Flushes-before.Flushes), "", ">= 20")
	return nil
}

func (s *settings) compare(r *report, engine, loop, files *contender) {
	rate := func(times []time.Duration) float64 { return float64(s.objects) / median(times).Seconds() }
	r.add("PUT, engine / bare loop", rate(engine.puts)/rate(loop.puts), "", ">= 0.6")
	if len(engine.coldGets) > 0 {
		r.add("GET from the device, engine / bare loop", rate(engine.coldGets)/rate(loop.coldGets), "", ">= 0.7")
	}
	r.add("GET from the page cache, engine / bare loop", rate(engine.gets)/rate(loop.gets), "", ">= 0.7")
	r.add("PUT, engine / file per object", rate(engine.puts)/rate(files.puts), "", ">= 5")
	for _, c := range []*contender{engine, loop, files} {
		r.add("  PUT, "+c.name, rate(c.puts), "/s", "")
		if len(c.coldGets) > 0 {
			r.add("  GET from the device, "+c.name, rate(c.coldGets), "/s", "")
		}
		r.add("  GET from the page cache, "+c.name, rate(c.gets), "/s", "")
		each := func(cpu time.Duration) float64 {
			return float64(cpu.Microseconds()) / float64(s.objects*len(c.puts))
		}
		r.add("  CPU per PUT, "+c.name, each(c.putCPU), "µs", "")
		r.add("  CPU per GET from the page cache, "+c.name, each(c.getCPU), "µs", "")
		if c.device.Writes > 0 {
			puts := float64(s.objects * len(c.puts))
			r.add("  device writes per PUT, "+c.name, float64(c.device.Writes)/puts, "", "")
			r.add("  device flushes per PUT, "+c.name, float64(c.device.Flushes)/puts, "", "")
			r.add("  device bytes per byte, "+c.name, float64(c.device.WrittenBytes)/puts/float64(s.size), "", "")
		}
	}
}

// play does one round. The first GETs come from the device where the caches
// can be emptied; the second, of the same objects, from the page cache.
func (c *contender) play(s *settings, r *report, round int) error {
	// Zeros where the device does not count; then nothing is reported of it.
	block, _ := blockstat.Of(s.dir)
	before, _ := block.Read()
	// A method that leaves something to be written later pays for it here.
	puts, putCPU, err := timed(func(round int) error {
		return errors.Join(c.put(round), syncDirectory(s.dir))
	}, round)
	if err != nil {
		return err
	}
	after, _ := block.Read()
	cacheErr := dropCaches()
	cold, _, err := timed(c.get, round)
	if err != nil {
		return err
	}
	warm, getCPU, err := timed(c.get, round)
	if err != nil || round == 0 {
		return err
	}
	c.puts, c.gets = append(c.puts, puts), append(c.gets, warm)
	c.device = c.device.Plus(after.Since(before))
	c.putCPU, c.getCPU = c.putCPU+putCPU, c.getCPU+getCPU
	if cacheErr == nil {
		c.coldGets = append(c.coldGets, cold)
	} else if round == 1 {
		r.note("no GETs from the device: %v", cacheErr)
	}
	return nil
}

// timed does something, and returns the time and the processor time it took.
func timed(do func(round int) error, round int) (elapsed, cpu time.Duration, err error) {
	start, before := time.Now(), cpuTime()
	err = do(round)
	return time.Since(start), cpuTime() - before, err
}

// enginePut stores new names in each round.
func (s *settings) enginePut(d *device.Device) func(round int) error {
	return func(round int) error {
		return parallel(s.writers, s.objects, func(i int) error {
			return s.put(d, round*s.objects+i, 1)
		})
	}
}

// engineGet reads the objects of all rounds so far in random order, as many as
// a round has.
func (s *settings) engineGet(d *device.Device) func(round int) error {
	return func(round int) error {
		order := s.order(round)
		return parallel(s.writers, s.objects, func(i int) error {
			if err := s.get(d, order[i]); err != nil {
				return fmt.Errorf("object %d: %w", order[i], err)
			}
			return nil
		})
	}
}
