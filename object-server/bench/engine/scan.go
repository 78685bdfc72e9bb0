package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"martlet/object-server/bundle/inspect"
	"martlet/object-server/vfs"
)

// scan lets the engine read all segments in order with every checksum, as bundle
// verify does, and cat read the same bytes.
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
		if bytes, err = scanAll(names); err != nil {
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
	r.add("scan, all checksums / cat", median(peer).Seconds()/median(scanned).Seconds(), "", ">= 0.8")
	r.add("  scan", float64(bytes)/1e6/median(scanned).Seconds(), "MB/s", "")
	r.add("  cat", float64(bytes)/1e6/median(peer).Seconds(), "MB/s", "")
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

// scanAll scans segments one after the other. Damage is an error.
func scanAll(names []string) (bytes int64, err error) {
	files := vfs.ReadOnly{Ahead: true}
	for i, name := range names {
		if i+1 < len(names) {
			files.Prefetch(names[i+1])
		}
		s, err := inspect.OpenScan(files, name, true)
		if err != nil {
			return bytes, err
		}
		for {
			e, err := s.Next()
			if err == io.EOF {
				break
			}
			if err == nil && e.Damage != nil {
				err = fmt.Errorf("%s: %s", name, e.Damage)
			}
			if err != nil {
				return bytes, errors.Join(err, s.Close())
			}
		}
		bytes += s.Segment().Bytes
		if err := s.Close(); err != nil {
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
