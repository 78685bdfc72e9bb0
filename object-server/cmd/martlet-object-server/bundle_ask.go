package main

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"

	"martlet/object-server/device"
	"martlet/object-server/server/conf"
)

// ask lets the server that has the device repair the partitions, one after the
// other, or report what it would do. If one partition cannot be repaired, it goes on
// with the others.
func (f *bundleFlags) ask(t *target, path string, apply bool) (all []*device.Repaired, err error) {
	running, err := findServer(t.root, path)
	if err != nil {
		return nil, err
	}
	var failed error
	for _, id := range t.partitions {
		r := &device.Repaired{}
		err := running.request(http.MethodPost, url.Values{
			"device": {filepath.Base(t.root)}, "policy": {strconv.Itoa(id.Policy)},
			"partition": {strconv.FormatUint(uint64(id.Partition), 10)}, "apply": {strconv.FormatBool(apply)},
		}, r)
		if err == nil && len(r.Damages) > 0 {
			all = append(all, r)
			err = f.describe(r, r.Damages, r.Rewrite, r.Returns)
			if f.json {
				err = errors.Join(err, f.line(r))
			}
		}
		if err != nil {
			f.complain(fmt.Errorf("%s: %w", t.directory(id), err))
			failed = errTold
		}
	}
	return all, failed
}

// findServer finds the server that has a device by its conf.
func findServer(root, path string) (*runningServer, error) {
	hint := "name the conf of its server with --conf, or stop it; \"bundle verify\" may be used meanwhile"
	config, err := conf.Read(path)
	if err != nil {
		return nil, fmt.Errorf("%s is in use: %s: %w", root, hint, err)
	}
	ours, err := os.Stat(filepath.Dir(root))
	if err != nil {
		return nil, err
	}
	theirs, err := os.Stat(config.Devices)
	if err != nil || !os.SameFile(ours, theirs) {
		return nil, fmt.Errorf("%s is in use, but not below the devices of %s: %s", root, path, hint)
	}
	return newRunningServer(config, "/recon/repair")
}
