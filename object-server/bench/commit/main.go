// Command commit measures what storing small objects costs the disk under each
// way to make them durable (bundle_sync_method): bytes, requests, flushes and,
// where the kernel lets it trace the block device, seeks. It counts at the block
// device; the time that a flush takes says little on a virtual disk.
//
//	commit -device /mnt/scratch/d -method journal -writers 64 -partitions 1024 -size 4096 -puts 20000
package main

import (
	"crypto/md5"
	"encoding/binary"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"martlet/object-server/bench/blockstat"
	"martlet/object-server/bundle/format"
	"martlet/object-server/device"
	"martlet/object-server/vfs"
)

// load is what is measured.
type load struct {
	Method     string  `json:"method"`
	Writers    int     `json:"writers"`
	Partitions uint64  `json:"partitions"`
	Size       int     `json:"size"`
	Puts       int     `json:"puts"`
	Delay      float64 `json:"commit_delay_seconds"`
	Journal    int64   `json:"journal_bytes"`  // 0: the default
	Recycled   int64   `json:"recycled_bytes"` // of emptied segments that may wait; 0: the default
	Fill       int     `json:"fill"`           // objects stored, replaced and compacted before
}

// result is what it took. Bytes are those that reached the block device, Close
// of the device included, per byte of the objects.
type result struct {
	load
	BytesPerByte  float64  `json:"device_bytes_per_byte"`
	WritesPerPut  float64  `json:"device_writes_per_put"`
	ReadsPerPut   float64  `json:"device_reads_per_put"`
	FlushesPerPut float64  `json:"device_flushes_per_put"`
	SeeksPerPut   *float64 `json:"seeks_per_put"` // writes that do not follow the one before; null: not traced
	SeekMiB       *float64 `json:"seek_mean_mib"` // mean distance
	PutsPerBatch  float64  `json:"puts_per_batch"`
	PutsPerSecond float64  `json:"puts_per_second"`
}

func main() {
	log.SetFlags(0)
	var l load
	var delay time.Duration
	root := flag.String("device", "", "empty `directory` on the file system to measure")
	flag.StringVar(&l.Method, "method", "auto", "bundle_sync_method")
	flag.IntVar(&l.Writers, "writers", 64, "concurrent clients")
	flag.Uint64Var(&l.Partitions, "partitions", 1024, "partitions written to")
	flag.IntVar(&l.Size, "size", 4096, "bytes of an object")
	flag.IntVar(&l.Puts, "puts", 20000, "objects stored")
	flag.DurationVar(&delay, "delay", 3*time.Millisecond, "bundle_commit_delay")
	flag.Int64Var(&l.Journal, "journal", 0, "bundle_journal_size in `bytes`; 0 is the default")
	flag.IntVar(&l.Fill, "fill", 0, "objects that are stored, replaced and compacted before, so that there are emptied segments")
	flag.Int64Var(&l.Recycled, "recycled", 0, "`bytes` of emptied segments that may wait to be used again; 0 is the default")
	asOpening := flag.Bool("open", false, "only open the partitions that an earlier run has made, and print what it took")
	asJSON := flag.Bool("json", false, "print JSON instead of a table")
	flag.Parse()
	l.Delay = delay.Seconds()
	if *asOpening {
		if err := l.openAll(*root); err != nil {
			log.Fatal("commit: ", err)
		}
		return
	}
	r, err := l.run(*root)
	if err == nil && *asJSON {
		err = json.NewEncoder(os.Stdout).Encode(r)
	}
	if err != nil {
		log.Fatal("commit: ", err)
	}
	if !*asJSON {
		r.print()
	}
}

// run stores one object in each partition, so that all of them exist, and
// measures the rest.
func (l load) run(root string) (result, error) {
	block, err := blockstat.Of(root)
	if err != nil {
		return result{}, err
	}
	d, err := device.Open(vfs.OS{}, root, device.Options{
		SyncMethod: device.SyncMethod(l.Method), CommitDelay: time.Duration(l.Delay * float64(time.Second)),
		JournalBytes: l.Journal, CompactionRate: -1, RecycledBytes: l.Recycled,
	})
	if err != nil {
		return result{}, err
	}
	if err := l.fill(d); err != nil {
		return result{}, err
	}
	if err = l.puts(d, 0, int(l.Partitions), 3); err != nil {
		return result{}, err
	}
	before, err := quiet(root, block)
	if err != nil {
		return result{}, err
	}
	t := startTrace(root)
	stats, start := d.Stats(), time.Now()
	if err := l.puts(d, max(int(l.Partitions), l.Fill), l.Puts, 3); err != nil {
		return result{}, err
	}
	elapsed := time.Since(start)
	batches := d.Stats().Batches - stats.Batches
	if err := d.Close(); err != nil {
		return result{}, err
	}
	after, err := quiet(root, block)
	if err != nil {
		return result{}, err
	}
	return l.result(after.Since(before), t.stop(), elapsed, batches), nil
}

// fill makes emptied segments: it stores objects, replaces each of them, and compacts.
func (l load) fill(d *device.Device) error {
	if l.Fill == 0 {
		return nil
	}
	for version := range uint64(2) {
		if err := l.puts(d, 0, l.Fill, version+1); err != nil {
			return err
		}
	}
	return d.Compact()
}

// openAll opens each partition by looking an object up.
func (l load) openAll(root string) error {
	block, err := blockstat.Of(root)
	if err != nil {
		return err
	}
	before, err := block.Read()
	if err != nil {
		return err
	}
	start := time.Now()
	d, err := device.Open(vfs.OS{}, root, device.Options{SyncMethod: device.SyncMethod(l.Method)})
	if err != nil {
		return err
	}
	for n := range l.Partitions {
		_, loc := l.place(n)
		if _, err := d.Head(loc); err != nil {
			return errors.Join(err, d.Close())
		}
	}
	took := time.Since(start)
	after, err := block.Read()
	if err != nil {
		return errors.Join(err, d.Close())
	}
	read := after.Since(before)
	fmt.Printf("%d partitions opened in %.2f s, %d reads, %.1f MiB read\n", l.Partitions, took.Seconds(), read.Reads, float64(read.ReadBytes)/(1<<20))
	return d.Close()
}

// quiet writes back all that is left and reads the counters.
func quiet(root string, block blockstat.Device) (blockstat.Counters, error) {
	dir, err := vfs.OS{}.OpenDir(root)
	if err != nil {
		return blockstat.Counters{}, err
	}
	defer dir.Close()
	if err := dir.SyncFS(); err != nil {
		return blockstat.Counters{}, err
	}
	return block.Read()
}

// result puts the counters into proportion.
func (l load) result(c blockstat.Counters, t *traced, elapsed time.Duration, batches uint64) result {
	n := float64(l.Puts)
	r := result{
		load: l, BytesPerByte: float64(c.WrittenBytes) / n / float64(l.Size),
		WritesPerPut: float64(c.Writes) / n, ReadsPerPut: float64(c.Reads) / n, FlushesPerPut: float64(c.Flushes) / n,
		PutsPerBatch: n / float64(batches), PutsPerSecond: n / elapsed.Seconds(),
	}
	if t != nil {
		seeks, mean := float64(t.seeks)/n, float64(t.sectors)/float64(max(t.seeks, 1))/2048
		r.SeeksPerPut, r.SeekMiB = &seeks, &mean
	}
	return r
}

// puts stores count objects; those with numbers below Partitions go to one each.
func (l load) puts(d *device.Device, first, count int, version uint64) error {
	data := make([]byte, l.Size)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(data) // never fails
	var next atomic.Int64
	next.Store(int64(first))
	var group sync.WaitGroup
	failed := make(chan error, l.Writers)
	for range l.Writers {
		group.Add(1)
		go func() {
			defer group.Done()
			for n := next.Add(1) - 1; n < int64(first+count); n = next.Add(1) - 1 {
				if err := l.put(d, uint64(n), version, data); err != nil {
					failed <- err
					return
				}
			}
		}()
	}
	group.Wait()
	close(failed)
	return <-failed
}

func (l load) place(n uint64) (name string, loc device.Location) {
	name = fmt.Sprintf("/AUTH_bench/container/object-%08d", n)
	hash := format.Hash(md5.Sum([]byte(name)))
	partition := binary.BigEndian.Uint64(hash[:8]) % l.Partitions
	if n < l.Partitions {
		partition = n
	}
	return name, device.Location{Partition: uint32(partition), Hash: hash}
}

func (l load) put(d *device.Device, n, version uint64, data []byte) error {
	name, loc := l.place(n)
	u, err := d.NewUpload(loc, int64(len(data)))
	if err != nil {
		return err
	}
	defer u.Abort()
	if _, err := u.Write(data); err != nil {
		return err
	}
	_, err = u.Commit(&format.Metadata{
		Name: name, ContentType: "application/octet-stream", ETag: fmt.Sprintf("%x", loc.Hash[:]),
		Size: int64(len(data)), Timestamp: format.Timestamp{Ticks: version<<32 + n + 1},
	})
	return err
}

func (r result) print() {
	fmt.Printf("%s: %d PUTs of %d bytes by %d writers over %d partitions\n",
		r.Method, r.Puts, r.Size, r.Writers, r.Partitions)
	line := func(name string, value float64) { fmt.Printf("  %-34s %10.4f\n", name, value) }
	line("device bytes written per byte", r.BytesPerByte)
	line("device writes per PUT", r.WritesPerPut)
	line("device reads per PUT", r.ReadsPerPut)
	line("device flushes per PUT", r.FlushesPerPut)
	if r.SeeksPerPut != nil {
		line("seeks between writes, per PUT", *r.SeeksPerPut)
		line("mean length of a seek, MiB", *r.SeekMiB)
	} else {
		fmt.Println("  seeks are not counted: no access to the kernel's block trace")
	}
	line("PUTs per batch", r.PutsPerBatch)
	line("PUTs per second", r.PutsPerSecond)
}
