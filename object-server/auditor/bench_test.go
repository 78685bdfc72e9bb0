package auditor

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// BenchmarkFullPass reads all that a device stores, in turn as an auditor and as plain files, each time from the disk. It
// reports the rate of the auditor, and what share it is of that of the plain reader.
func BenchmarkFullPass(b *testing.B) {
	for what, size := range map[string]int{"4KiB": 4 << 10, "64KiB": 64 << 10, "1MiB": 1 << 20} {
		b.Run(what, func(b *testing.B) { benchmarkFullPass(b, size) })
	}
}

// benchBytes are stored, in objects of one size.
const benchBytes = 128 << 20

func benchmarkFullPass(b *testing.B, size int) {
	h := newHost(b, 1, "")
	for i := range benchBytes / size {
		h.put(fmt.Sprint("o", i), 1, size)
	}
	var audited, plain time.Duration
	var bytes int64
	for b.Loop() {
		h.evict()
		began := time.Now()
		read := h.readPlain()
		plain += time.Since(began)
		h.evict()
		a, _ := h.auditor()
		began = time.Now()
		report, err := a.Once(b.Context(), Full)
		audited += time.Since(began)
		check(b, err)
		if report.Objects != benchBytes/size || report.Damages+report.Failures > 0 || report.Bytes < read*9/10 {
			b.Fatalf("%+v, and %d bytes of files", report, read)
		}
		bytes += read
	}
	b.ReportMetric(float64(bytes)/audited.Seconds()/1e6, "MB/s")
	b.ReportMetric(plain.Seconds()/audited.Seconds(), "of-plain")
}

// each calls do with each file of the first device that has objects.
func (h *host) each(do func(file *os.File)) {
	check(h.t, filepath.WalkDir(filepath.Join(h.device(1), "bundles"), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		file, err := os.Open(path)
		if err != nil {
			return err
		}
		do(file)
		return file.Close()
	}))
}

// evict takes the files out of the page cache.
func (h *host) evict() {
	h.each(func(file *os.File) {
		check(h.t, file.Sync())
		check(h.t, unix.Fadvise(int(file.Fd()), 0, 0, unix.FADV_DONTNEED))
	})
}

func (h *host) readPlain() (bytes int64) {
	buffer := make([]byte, 1<<20)
	h.each(func(file *os.File) {
		for {
			n, err := file.Read(buffer)
			bytes += int64(n)
			if err == io.EOF {
				return
			}
			check(h.t, err)
		}
	})
	return bytes
}
