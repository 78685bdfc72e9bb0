package server

import (
	"fmt"
	"log/slog"

	"golang.org/x/sys/unix"
)

const (
	// openFilesMost is what a device gets where descriptors are plenty: a segment for each of 8192 partitions, twice.
	openFilesMost = 16384
	// openFilesLeast is what a device needs.
	openFilesLeast = 16
	// descriptorsOfRequest are its connection, and a large file.
	descriptorsOfRequest = 2
	// descriptorsBeside are those of logs, rings, connections to container servers and the devices themselves.
	descriptorsBeside = 256
)

// shareDescriptors divides the file descriptors that the process may have (ulimit -n) among the devices, unless the
// conf says how many segments each keeps open.
func (c *Config) shareDescriptors(devices int, logger *slog.Logger) error {
	limit, err := raiseDescriptors()
	if err != nil {
		return err
	}
	share, err := c.descriptorsOfDevice(limit, max(devices, 1))
	if err != nil {
		return err
	}
	if wanted := c.Device.OpenFilesMax; wanted > share {
		logger.Warn("ulimit -n is too small for bundle_open_files, which is lowered", "ulimit", limit, "devices", devices,
			"bundle_open_files", wanted, "lowered_to", share)
		c.Device.OpenFilesMax = share
	}
	if c.Device.OpenFilesMax == 0 {
		c.Device.OpenFilesMax = min(share, openFilesMost)
	}
	if c.Device.OpenFilesMax < openFilesFew {
		logger.Warn("ulimit -n leaves few open files for each device: segments are opened again and again", "ulimit", limit,
			"devices", devices, "bundle_open_files", c.Device.OpenFilesMax)
	}
	return nil
}

// openFilesFew is less than a busy device should have.
const openFilesFew = 256

// descriptorsOfDevice is how many segments each device can keep open beside what requests need, which is at most half of all.
func (c *Config) descriptorsOfDevice(limit, devices int) (int, error) {
	beside := min(descriptorsBeside+descriptorsOfRequest*c.MaxClients, limit/2)
	share := (limit - beside) / devices
	if share < openFilesLeast {
		return 0, fmt.Errorf("ulimit -n of %d is too small for %d devices: raise it to %d or more", limit, devices,
			descriptorsBeside+descriptorsOfRequest*c.MaxClients+openFilesFew*devices)
	}
	return share, nil
}

// raiseDescriptors takes all descriptors that the process is allowed, and tells how many.
func raiseDescriptors() (int, error) {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return 0, fmt.Errorf("ulimit -n: %w", err)
	}
	if limit.Cur < limit.Max {
		raised := unix.Rlimit{Cur: limit.Max, Max: limit.Max}
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &raised); err == nil { // else what there is must do
			limit = raised
		}
	}
	return int(min(limit.Cur, 1<<30)), nil
}
