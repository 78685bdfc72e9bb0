package device

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"martlet/object-server/bundle"
	"martlet/object-server/bundle/format"
	"martlet/object-server/bundle/segment"
	"martlet/object-server/vfs"
)

const receivedBatch = 8 << 20 // bytes that a replicator sends at once

// BenchmarkReceive compares ways to get all of a partition from a peer: its records by
// Import, and its segment as it is, of which every byte is checked as Import does. The
// peer has no garbage. It reports CPU and bytes written for each record.
func BenchmarkReceive(b *testing.B) {
	for _, size := range []int{300, 4096, 60_000} {
		fs := vfs.NewMem("/d")
		from := open(b, fs, "/d", Options{compactByHand: true})
		records := 20_000 * 300 / (300 + size/20)
		for i := range records {
			name := fmt.Sprint("/AUTH_test/photos/", i)
			must[State](b)(put(from, locate(name, 0), name, 1_780_000_000_00000, body(uint64(i), size)))
		}
		var batches [][]RawRecord
		bytesOf := receivedBatch
		if _, err := from.Replica(0, 0).Export(bundle.Position{}, nil, func(r RawRecord) error {
			if bytesOf+len(r.Bytes) > receivedBatch {
				batches, bytesOf = append(batches, nil), 0
			}
			last := len(batches) - 1
			batches[last], bytesOf = append(batches[last], RawRecord{Bytes: bytes.Clone(r.Bytes)}), bytesOf+len(r.Bytes)
			return nil
		}); err != nil {
			b.Fatal(err)
		}
		if err := from.Close(); err != nil {
			b.Fatal(err)
		}
		whole := wholeSegment(b, fs)
		for what, receive := range map[string]func(root string) int64{
			"records": func(root string) int64 { return receiveRecords(b, root, batches) },
			"segment": func(root string) int64 { return receiveSegment(b, root, whole) },
		} {
			b.Run(fmt.Sprintf("%d/%s", size, what), func(b *testing.B) {
				var cpu time.Duration
				var written int64
				for b.Loop() {
					root := b.TempDir()
					before := cpuTime()
					written += receive(root)
					cpu += cpuTime() - before
				}
				b.ReportMetric(float64(cpu.Nanoseconds())/float64(b.N*records), "CPU-ns/record")
				b.ReportMetric(float64(written)/float64(b.N*records), "written/record")
			})
		}
	}
}

func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func receiveRecords(b *testing.B, root string, batches [][]RawRecord) int64 {
	d := open(b, vfs.OS{}, root, Options{compactByHand: true})
	for _, batch := range batches {
		if err := importAll(d, 0, batch); err != nil {
			b.Fatal(err)
		}
	}
	if err := d.Close(); err != nil {
		b.Fatal(err)
	}
	return int64(d.Stats().BytesWritten)
}

func wholeSegment(b *testing.B, fs vfs.FS) []byte {
	name := "/d/bundles/0/" + format.SegmentName(1, 0)
	f := must[vfs.File](b)(fs.Open(name))
	defer f.Close()
	p := make([]byte, must[int64](b)(f.Size()))
	must[int](b)(f.ReadAt(p, 0))
	return p
}

// receiveSegment writes a segment and opens it.
func receiveSegment(b *testing.B, root string, whole []byte) int64 {
	head := must[format.SegmentHeader](b)(format.ParseSegmentHeader(whole))
	of := segment.Origin{Sequence: 1, Salt: head.Salt(), Base: 1}
	w := segment.NewWalker(segment.NewWindow(bytes.NewReader(whole), int64(len(whole)), segment.WindowSize), of, segment.Place{Offset: format.SegmentHeaderSize, LSN: 1}, segment.NoLimit)
	defer w.Close()
	for {
		h, err := w.Read()
		if err == io.EOF {
			break
		}
		var p []byte
		if err == nil {
			p, err = w.Bytes(w.At(), int(h.Units)*format.UnitSize)
		}
		if err == nil && h.Type.Named() {
			err = (&incoming{raw: &RawRecord{Bytes: p}}).check(Replica{})
		}
		if err != nil {
			b.Fatal(err)
		}
	}
	directory := filepath.Join(root, "bundles", "0")
	must[int](b)(0, os.MkdirAll(directory, 0o700))
	f := must[*os.File](b)(os.Create(filepath.Join(directory, format.SegmentName(1, 0))))
	for p := whole; len(p) > 0; p = p[min(len(p), 1<<20):] {
		must[int](b)(f.Write(p[:min(len(p), 1<<20)]))
	}
	must[int](b)(0, errors.Join(f.Sync(), f.Close()))
	d := open(b, vfs.OS{}, root, Options{compactByHand: true})
	must[bundle.Position](b)(d.Replica(0, 0).Position())
	must[int](b)(0, d.Close())
	return int64(len(whole))
}
