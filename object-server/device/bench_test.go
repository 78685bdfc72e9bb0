package device

import (
	"fmt"
	"io"
	"sync/atomic"
	"testing"

	"martlet/object-server/bundle/format"
	"martlet/object-server/vfs"
)

const benchPartitionBits = 8

// benchClients is the parallelism per processor: 64 clients on two.
const benchClients = 32

// BenchmarkPut stores new 4 KiB objects in 256 partitions of a real directory,
// from many clients at once. It reports PUTs per flush.
func BenchmarkPut(b *testing.B) {
	d := open(b, vfs.OS{}, b.TempDir(), Options{})
	defer d.Close()
	data := body(1, 4096)
	var n atomic.Uint64
	b.SetParallelism(benchClients)
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			name := fmt.Sprintf("/a/c/%d", n.Add(1))
			if _, err := put(d, locate(name, benchPartitionBits), name, 1, data); err != nil {
				b.Error(err)
			}
		}
	})
	s := d.Stats()
	b.ReportMetric(float64(s.Puts)/float64(s.Flushes), "PUT/flush")
	b.ReportMetric(float64(s.BytesWritten)/float64(s.Puts), "written/PUT")
}

// BenchmarkGet reads 4 KiB objects from the page cache.
func BenchmarkGet(b *testing.B) {
	d := open(b, vfs.OS{}, b.TempDir(), Options{})
	defer d.Close()
	const objects = 5000
	fill(b, d, objects)
	var n atomic.Uint64
	b.SetParallelism(benchClients)
	b.SetBytes(4096)
	b.ReportAllocs()
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			o, err := d.Open(locate(fmt.Sprintf("/a/c/%d", n.Add(1)%objects), benchPartitionBits))
			if err == nil {
				err = o.WriteRange(io.Discard, 0, o.Metadata().Size)
				o.Close()
			}
			if err != nil {
				b.Error(err)
			}
		}
	})
}

// BenchmarkMiss looks for names that do not exist.
func BenchmarkMiss(b *testing.B) {
	d := open(b, vfs.OS{}, b.TempDir(), Options{})
	defer d.Close()
	fill(b, d, 100)
	locations := make([]Location, 1024)
	for i := range locations {
		locations[i] = locate(fmt.Sprintf("/none/%d", i), benchPartitionBits)
	}
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		if _, err := d.Head(locations[i%len(locations)]); err == nil {
			b.Fatal("found")
		}
	}
}

// BenchmarkCommit is a PUT without a disk: the processor time of the engine.
func BenchmarkCommit(b *testing.B) {
	d := open(b, vfs.NewMem("/d"), "/d", Options{SegmentBytes: 1 << 20})
	defer d.Close()
	data := body(1, 4096)
	loc := locate("x", 1)
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		u, err := d.NewUpload(loc, 4096)
		if err != nil {
			b.Fatal(err)
		}
		u.Write(data)
		if _, err := u.Commit(&format.Metadata{Name: "/a/c/x", Size: 4096, Timestamp: at(uint64(i + 1))}); err != nil {
			b.Fatal(err)
		}
	}
}

func fill(b *testing.B, d *Device, objects int) {
	b.Helper()
	b.SetParallelism(benchClients)
	done := make(chan error, benchClients)
	for worker := range benchClients {
		go func() {
			var err error
			for i := worker; i < objects && err == nil; i += benchClients {
				name := fmt.Sprintf("/a/c/%d", i)
				_, err = put(d, locate(name, benchPartitionBits), name, 1, body(1, 4096))
			}
			done <- err
		}()
	}
	for range benchClients {
		if err := <-done; err != nil {
			b.Fatal(err)
		}
	}
}
