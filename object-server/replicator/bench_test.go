package replicator

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"
)

func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// fill writes objects of a size to some hosts.
func (c *cluster) fill(count, size int, hosts ...int) {
	var all sync.WaitGroup
	for worker := range 16 {
		all.Add(1)
		go func() {
			defer all.Done()
			for i := worker; i < count; i += 16 {
				name := fmt.Sprint("o", i)
				for _, at := range hosts {
					if status, _ := c.hosts[at].ask(http.MethodPut, name, 1, content(name, size)); status != 201 {
						panic(status)
					}
				}
			}
		}()
	}
	all.Wait()
}

// BenchmarkRebuild fills an empty device from its two peers, whose passes run together. Servers and replicators are in this
// process. Beside it, the files of a full device are copied one after the other, each flushed at its end, on the same disk.
// MARTLET_REBUILD_OBJECTS is the number of objects, and MARTLET_REBUILD_SIZE their size; the devices are in TMPDIR. The figures
// are those of all rounds together.
func BenchmarkRebuild(b *testing.B) {
	size, count := fromEnvironment(b, "MARTLET_REBUILD_SIZE", 4096), fromEnvironment(b, "MARTLET_REBUILD_OBJECTS", 20_000)
	c := newCluster(b, 3)
	c.fill(count, size, 0)
	c.hosts[0].pass()
	var rounds int
	var took, used, copied time.Duration
	for b.Loop() {
		b.StopTimer()
		c.hosts[1].wipe()
		copied += c.copyTime(filepath.Join(c.hosts[0].device(), "bundles"))
		b.StartTimer()
		began, cpu := time.Now(), cpuTime()
		var all sync.WaitGroup
		var sent [2]int
		for i, at := range []int{0, 2} {
			r, connections, _ := c.hosts[at].replicator()
			all.Add(1)
			go func() {
				defer all.Done()
				defer connections.Close()
				report, err := r.Pass(context.Background(), 0)
				check(b, err)
				sent[i] = report.Sent
			}()
		}
		all.Wait()
		took += time.Since(began)
		used += cpuTime() - cpu
		rounds++
		b.StopTimer()
		if again := c.hosts[0].pass(); sent[0]+sent[1]+again.Sent != count {
			b.Fatalf("%d and %d records, then %d", sent[0], sent[1], again.Sent)
		}
		b.StartTimer()
	}
	all := float64(count * rounds)
	b.ReportMetric(all/took.Seconds(), "objects/s")
	b.ReportMetric(float64(used.Microseconds())/all, "CPU-us/object")
	b.ReportMetric(copied.Seconds()/took.Seconds(), "rate/copy")
}

// fromEnvironment is a number that a variable has, or the standard one.
func fromEnvironment(b *testing.B, name string, standard int) int {
	text := os.Getenv(name)
	if text == "" {
		return standard
	}
	n, err := strconv.Atoi(text)
	check(b, err)
	return n
}

// copyTime copies the files of a directory to an empty one.
func (c *cluster) copyTime(from string) time.Duration {
	c.t.Helper()
	to := c.t.TempDir()
	began := time.Now()
	check(c.t, filepath.WalkDir(from, func(path string, entry os.DirEntry, err error) error {
		relative, _ := filepath.Rel(from, path)
		if err != nil || entry.IsDir() {
			return os.MkdirAll(filepath.Join(to, relative), 0o755)
		}
		source, err := os.Open(path)
		if err != nil {
			return err
		}
		defer source.Close()
		target, err := os.Create(filepath.Join(to, relative))
		if err != nil {
			return err
		}
		defer target.Close()
		if _, err := io.Copy(target, source); err != nil {
			return err
		}
		return target.Sync()
	}))
	return time.Since(began)
}

// BenchmarkInSync is a pass over partitions that are equal everywhere: CPU of replicator and servers for each partition.
func BenchmarkInSync(b *testing.B) {
	c := newCluster(b, 3)
	c.fill(2000, 100, 0, 1, 2)
	r, connections, _ := c.hosts[0].replicator()
	defer connections.Close()
	var partitions int
	cpu := cpuTime()
	for b.Loop() {
		report, err := r.Pass(context.Background(), 0)
		check(b, err)
		partitions += report.Partitions
		if report.InSync != report.Partitions {
			b.Fatalf("%+v", report)
		}
	}
	b.ReportMetric(float64((cpuTime()-cpu).Microseconds())/float64(partitions), "CPU-us/partition")
}
