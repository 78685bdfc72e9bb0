package main

import (
	"fmt"
	"math/rand/v2"

	"martlet/object-server/bench/blockstat"
	"martlet/object-server/device"
	"martlet/object-server/vfs"
)

// readOperations are measured of each kind.
const readOperations = 1000

// reads counts the reads of operations in partitions that are open, while the
// page cache is empty.
func reads(s *settings, r *report) error {
	files := &counted{FS: vfs.OS{}}
	d, err := s.open(files)
	if err != nil {
		return err
	}
	if err := s.fill(d, files, 0, s.objects); err != nil {
		return err
	}
	if err := d.Close(); err != nil { // so that all is read from a log on the disk
		return err
	}
	if d, err = s.open(files); err != nil {
		return err
	}
	defer d.Close()
	if err := s.openAll(d); err != nil {
		return err
	}
	block, err := blockstat.Of(s.dir)
	if err != nil {
		r.note("not counted at the block device: %v", err)
	}
	c := readCount{settings: s, report: r, files: files, block: block, hasBlock: err == nil}
	order := rand.New(rand.NewPCG(1, 2)).Perm(s.objects)
	n := min(readOperations, s.objects)
	err = c.measure("cold GET", n, "1.00", true, func(i int) error { return s.get(d, order[i]) })
	if err == nil {
		err = c.measure("absent GET", n, "0", true, func(i int) error {
			return openAbsent(d, s.place(nameOf(s.objects+i)))
		})
	}
	put := func(base int) func(i int) error {
		return func(i int) error { return s.put(d, base+i, 1) }
	}
	if err == nil {
		err = c.measure("new PUT, nothing cached", n, "0", true, put(s.objects))
	}
	if err == nil { // writes have brought the ends of all segments into the page cache
		err = s.onePerPartition(d, 0)
	}
	if err == nil {
		err = c.measure("new PUT, later", n, "0", false, put(s.objects+n))
	}
	return err
}

func openAbsent(d *device.Device, at device.Location) error {
	o, err := d.Open(at)
	if err == nil {
		o.Close()
		return fmt.Errorf("an absent name was found")
	}
	return absent(nil, err)
}

// readCount counts reads at the vfs and, where it can, at the block device.
type readCount struct {
	*settings
	report   *report
	files    *counted
	block    blockstat.Device
	hasBlock bool
}

// measure does n operations, one after the other so that the device cannot
// merge the reads of several.
func (c *readCount) measure(what string, n int, toReach string, cold bool, do func(i int) error) error {
	if cold {
		if err := syncDirectory(c.dir); err != nil {
			return err
		}
		if err := dropCaches(); err != nil {
			c.report.note("%s: the page cache is warm: %v", what, err)
		}
	}
	before, err := c.readBlock()
	if err != nil {
		return err
	}
	reads, bytes, opens := c.files.reads.Load(), c.files.readBytes.Load(), c.files.opens.Load()
	if err := parallel(1, n, do); err != nil {
		return err
	}
	after, err := c.readBlock()
	if err != nil {
		return err
	}
	each := func(count uint64) float64 { return float64(count) / float64(n) }
	c.report.add("reads per "+what+", vfs", each(c.files.reads.Load()-reads), "", toReach)
	if c.hasBlock {
		c.report.add("reads per "+what+", block device", each(after.Since(before).Reads), "", toReach)
		c.report.add("  bytes", each(after.Since(before).ReadBytes), "B", "")
	}
	c.report.add("  bytes, vfs", each(c.files.readBytes.Load()-bytes), "B", "")
	c.report.add("  files opened", each(c.files.opens.Load()-opens), "", "")
	return nil
}

func (c *readCount) readBlock() (blockstat.Counters, error) {
	if !c.hasBlock {
		return blockstat.Counters{}, nil
	}
	return c.block.Read()
}
