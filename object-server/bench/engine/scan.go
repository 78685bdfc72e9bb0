package main

import (
	"errors"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"martlet/object-server/vfs"
)

// scanBuffer is what one read asks for.
const scanBuffer = 1 << 20

// scan reads all segments in order, and lets cat read the same bytes.
func scan(s *settings, r *report) error {
	files := &counted{FS: vfs.OS{}}
	d, err := s.open(files)
	if err != nil {
		return err
	}
	if err := s.fill(d, files, 0, s.objects); err != nil {
		return err
	}
	if err := d.Close(); err != nil {
		return err
	}
	names, err := segments(s.dir)
	if err != nil {
		return err
	}
	var scanned, peer []time.Duration
	var bytes int64
	for range s.rounds {
		cacheErr := dropCaches()
		start := time.Now()
		if bytes, err = readAll(names); err != nil {
			return err
		}
		scanned = append(scanned, time.Since(start))
		cacheErr = errors.Join(cacheErr, dropCaches())
		start = time.Now()
		if err := readWithCat(names); err != nil {
			return err
		}
		peer = append(peer, time.Since(start))
		if cacheErr != nil && len(peer) == 1 {
			r.note("the page cache is warm: %v", cacheErr)
		}
	}
	r.add("bare scan with CRC32C / cat", median(peer).Seconds()/median(scanned).Seconds(), "", ">= 0.8 with all checksums")
	r.add("  bare scan", float64(bytes)/1e6/median(scanned).Seconds(), "MB/s", "")
	r.add("  cat", float64(bytes)/1e6/median(peer).Seconds(), "MB/s", "")
	r.note("the engine has no scan yet: this reads the segments and computes CRC32C of all bytes, without looking at records")
	return nil
}

// segments lists the segment files below a device, partition by partition.
func segments(root string) (names []string, err error) {
	err = filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
		if strings.HasSuffix(path, ".bundle") {
			names = append(names, path)
		}
		return err
	})
	return names, err
}

func readAll(names []string) (bytes int64, err error) {
	buffer := make([]byte, scanBuffer)
	table := crc32.MakeTable(crc32.Castagnoli)
	for _, name := range names {
		f, err := os.Open(name)
		if err != nil {
			return bytes, err
		}
		for crc := uint32(0); err == nil; {
			var n int
			n, err = f.Read(buffer)
			crc = crc32.Update(crc, table, buffer[:n])
			bytes += int64(n)
		}
		_ = f.Close()
		if err != io.EOF {
			return bytes, err
		}
	}
	return bytes, nil
}

// readWithCat lets cat read the files, one after the other: dd takes one file,
// and one dd per file would spend its time on starting.
func readWithCat(names []string) error {
	cat := exec.Command("xargs", "-d", "\\n", "cat")
	cat.Stdin = strings.NewReader(strings.Join(names, "\n") + "\n")
	cat.Stderr = os.Stderr // its output goes to /dev/null
	return cat.Run()
}
