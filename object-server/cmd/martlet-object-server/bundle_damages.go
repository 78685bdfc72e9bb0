package main

import (
	"fmt"
	"path/filepath"
	"strconv"
	"time"

	"martlet/object-server/bundle"
	"martlet/object-server/device"
	"martlet/object-server/vfs"
)

// damages lists the damage that servers have found on devices.
func (f *bundleFlags) damages(arguments []string) error {
	paths, err := f.parse(arguments)
	if err != nil {
		return err
	}
	known := 0
	for _, path := range paths {
		t, err := readTarget(path)
		if err != nil {
			return err
		}
		if !t.isDevice {
			return fmt.Errorf("%s is not a device", path)
		}
		all, err := device.ReadDamages(vfs.ReadOnly{}, t.root)
		if err != nil {
			return err
		}
		known += len(all)
		for i := range all {
			if err := f.showDamage(t.root, &all[i]); err != nil {
				return err
			}
		}
	}
	if known > 0 {
		return errDamage
	}
	if !f.json {
		_, err = fmt.Fprintln(f.stdout, "no damage is known")
	}
	return err
}

func (f *bundleFlags) showDamage(root string, x *device.Damage) error {
	if f.json {
		return f.line(x)
	}
	partition := filepath.Join(root, bundle.PolicyDirectory(x.Policy), strconv.FormatUint(uint64(x.Partition), 10))
	_, err := fmt.Fprintf(f.stdout, "%s %s: %s\n", x.First.Format(time.RFC3339), partition, &x.Damage)
	return err
}
