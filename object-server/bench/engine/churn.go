package main

import (
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"martlet/object-server/bench/blockstat"
	"martlet/object-server/device"
	"martlet/object-server/vfs"
)

const (
	// churnFactor times the live data is written.
	churnFactor = 10
	// churnSample is how often the device use is taken.
	churnSample = 250 * time.Millisecond
)

// churn overwrites objects chosen at random, half of the operations, and reads
// others, until the live data were written ten times over.
func churn(s *settings, r *report) error {
	d, err := s.open(vfs.OS{})
	if err != nil {
		return err
	}
	defer d.Close()
	if err := parallel(s.writers, s.objects, func(i int) error { return s.put(d, i, 1) }); err != nil {
		return err
	}
	live := float64(s.objects) * float64(s.size)
	_, start, err := usage(s.dir)
	if err != nil {
		return err
	}
	c := churning{settings: s, device: d, peak: start}
	// A device without counters reads as zero, and is not reported.
	block, _ := blockstat.Of(s.dir)
	if err := syncDirectory(s.dir); err != nil {
		return err
	}
	before, _ := block.Read()
	if err := c.run(); err != nil {
		return err
	}
	if err := syncDirectory(s.dir); err != nil {
		return err
	}
	after, _ := block.Read()
	_, end, err := usage(s.dir)
	if err != nil {
		return err
	}
	c.peak = max(c.peak, end)
	r.add("device use / live data, peak", float64(c.peak)/live, "", "<= 2.2")
	r.add("  at the start", float64(start)/live, "", "")
	r.add("  at the end", float64(end)/live, "", "")
	if written := after.Since(before).WrittenBytes; written > 0 {
		r.add("device bytes per byte written, compaction included", float64(written)/float64(c.written.Load())/float64(s.size), "", "")
	}
	reportLatency(r, "PUT", c.puts, "<= 100")
	reportLatency(r, "GET", c.gets, "<= 100")
	r.add("  PUT and GET", float64(len(c.puts)+len(c.gets))/c.elapsed.Seconds(), "/s", "")
	return nil
}

func reportLatency(r *report, what string, all []time.Duration, toReach string) {
	slices.Sort(all)
	r.add(what+" latency p99.9", milliseconds(quantile(all, 0.999)), "ms", toReach)
	r.add("  p50", milliseconds(quantile(all, 0.5)), "ms", "")
	r.add("  p99", milliseconds(quantile(all, 0.99)), "ms", "")
	r.add("  max", milliseconds(all[len(all)-1]), "ms", "")
}

type churning struct {
	*settings
	device  *device.Device
	written atomic.Int64
	elapsed time.Duration
	peak    int64

	mu         sync.Mutex
	puts, gets []time.Duration // guarded by mu
}

func (c *churning) run() error {
	stop, sampled := make(chan struct{}), make(chan error)
	go func() { sampled <- c.sample(stop) }()
	start := time.Now()
	err := parallel(c.writers, c.writers, c.worker)
	c.elapsed = time.Since(start)
	close(stop)
	if sampleErr := <-sampled; err == nil {
		err = sampleErr
	}
	return err
}

// worker owns the objects whose number is its own modulo the workers, so that
// its timestamps of an object ascend.
func (c *churning) worker(w int) error {
	random := rand.New(rand.NewPCG(3, uint64(w)))
	own := (c.objects - w + c.writers - 1) / c.writers
	var puts, gets []time.Duration
	for version := uint64(2); own > 0 && c.written.Load() < churnFactor*int64(c.objects); version++ {
		start := time.Now()
		if random.IntN(2) == 0 {
			if err := c.get(c.device, random.IntN(c.objects)); err != nil {
				return err
			}
			gets = append(gets, time.Since(start))
			continue
		}
		if err := c.put(c.device, w+random.IntN(own)*c.writers, version); err != nil {
			return err
		}
		puts = append(puts, time.Since(start))
		c.written.Add(1)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.puts, c.gets = append(c.puts, puts...), append(c.gets, gets...)
	return nil
}

// sample notes the greatest device use until stopped. Files may vanish while
// it walks; the next walk is good then.
func (c *churning) sample(stop chan struct{}) error {
	tick := time.NewTicker(churnSample)
	defer tick.Stop()
	for {
		select {
		case <-stop:
			return nil
		case <-tick.C:
			if _, bytes, err := usage(c.dir); err == nil {
				c.peak = max(c.peak, bytes)
			}
		}
	}
}
