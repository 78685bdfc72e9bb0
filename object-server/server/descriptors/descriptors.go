package descriptors

import (
	"fmt"
	"log/slog"

	"golang.org/x/sys/unix"
)

// Least is how many segments a device must be able to keep open.
const Least = 16

const (
	// most is the share of a device where descriptors are plenty: a segment for each of 8192 partitions, twice.
	most = 16384
	// few is less than a busy device should have.
	few = 256
	// ofRequest are the connection of a request, and a large file, which has two while it is written past the page cache.
	ofRequest = 3
	// beside are the descriptors of logs, rings, connections to container servers and the devices themselves.
	beside = 256
)

// Share divides the file descriptors of the process (ulimit -n) among the devices. It returns how many segments each
// device keeps open: at most wanted, or the whole share of the device if wanted is 0.
func Share(wanted, maxClients, devices int, logger *slog.Logger) (int, error) {
	limit, err := raise()
	if err != nil {
		return 0, err
	}
	share, err := perDevice(limit, maxClients, max(devices, 1))
	if err != nil {
		return 0, err
	}
	given := wanted
	if wanted > share {
		logger.Warn("ulimit -n is too small for bundle_open_files, which is lowered", "ulimit", limit, "devices", devices,
			"bundle_open_files", wanted, "lowered_to", share)
		given = share
	}
	if given == 0 {
		given = min(share, most)
	}
	if given < few {
		logger.Warn("ulimit -n leaves few open files for each device: segments are opened again and again", "ulimit", limit,
			"devices", devices, "bundle_open_files", given)
	}
	return given, nil
}

// perDevice is how many segments each device can keep open. Requests get their descriptors first, at most half of all.
func perDevice(limit, maxClients, devices int) (int, error) {
	others := min(beside+ofRequest*maxClients, limit/2)
	share := (limit - others) / devices
	if share < Least {
		return 0, fmt.Errorf("ulimit -n of %d is too small for %d devices: raise it to %d or more", limit, devices,
			beside+ofRequest*maxClients+few*devices)
	}
	return share, nil
}

// raise takes all descriptors that the process is allowed, and returns how many.
func raise() (int, error) {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return 0, fmt.Errorf("ulimit -n: %w", err)
	}
	if limit.Cur < limit.Max {
		raised := unix.Rlimit{Cur: limit.Max, Max: limit.Max}
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &raised); err == nil { // on failure the old limit stays
			limit = raised
		}
	}
	return int(min(limit.Cur, 1<<30)), nil
}
