package main

import (
	"fmt"
	"io/fs"
	"path/filepath"

	"golang.org/x/sys/unix"

	"martlet/object-server/bundle/format"
	"martlet/object-server/device"
	"martlet/object-server/vfs"
)

// usage counts what lies below a directory: files and directories, without
// itself, and the bytes that the file system gave them.
func usage(root string) (inodes int, bytes int64, err error) {
	err = filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
		if err != nil || path == root {
			return err
		}
		var st unix.Stat_t
		if err := unix.Lstat(path, &st); err != nil {
			return &fs.PathError{Op: "lstat", Path: path, Err: err}
		}
		inodes++
		bytes += st.Blocks * 512
		return nil
	})
	return inodes, bytes, err
}

// inodes writes nine objects into each partition, then a tenth, then the rest.
func inodes(s *settings, r *report) error {
	files := &counted{FS: vfs.OS{}}
	d, err := s.open(files)
	if err != nil {
		return err
	}
	defer d.Close()
	files.skipFlushes.Store(true)
	for i := range 9 {
		if err := s.onePerPartition(d, i); err != nil {
			return err
		}
	}
	nine, _, err := usage(s.dir)
	if err != nil {
		return err
	}
	if err := s.onePerPartition(d, 9); err != nil {
		return err
	}
	ten, _, err := usage(s.dir)
	if err != nil {
		return err
	}
	if err := s.fill(d, files, 0, s.objects-10*s.partitions); err != nil {
		return err
	}
	all, bytes, err := usage(s.dir)
	if err != nil {
		return err
	}
	r.add(fmt.Sprintf("inodes for %d objects", s.objects), float64(all), "", "<= 3000 for 1,000,000")
	r.add("inodes that a tenth object per partition adds", float64(ten-nine), "", "0")
	r.add("device bytes given per byte stored", float64(bytes)/float64(s.objects)/float64(s.size), "", "")
	r.note("written without flushes: they do not change what is counted")
	return nil
}

// onePerPartition stores one more object in each partition, under a hash made
// up for it.
func (s *settings) onePerPartition(d *device.Device, round int) error {
	return parallel(fillWriters, s.partitions, func(partition int) error {
		at := s.place(fmt.Sprintf("/AUTH_bench/%d/%d", partition, round))
		at.Partition = uint32(partition)
		u, err := d.NewUpload(at, int64(s.size))
		if err != nil {
			return err
		}
		defer u.Abort()
		if _, err := u.Write(s.body(round)); err != nil {
			return err
		}
		_, err = u.Commit(&format.Metadata{
			Name: fmt.Sprintf("/AUTH_bench/%d/%d", partition, round), ETag: etag, Size: int64(s.size),
			Timestamp: format.Timestamp{Ticks: 178000000000000},
		})
		return err
	})
}
