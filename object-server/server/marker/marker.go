package marker

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// markerName is the file in the root of a device that says which one it is; see doc/formats/device-marker.md.
const markerName = "martlet-device"

// knownDirectory, beside the devices, has a copy of the marker of each device that was in use.
const knownDirectory = ".martlet-devices"

// marker is the content of both files.
type marker struct {
	Cluster string `json:"cluster"`
	Device  string `json:"device"`
}

// clusterOf is the name of a cluster, the same on all hosts. It is made from the hash prefix and suffix, and does not reveal
// them.
func clusterOf(prefix, suffix string) string {
	sum := sha256.Sum256([]byte("martlet cluster\x00" + prefix + "\x00" + suffix))
	return hex.EncodeToString(sum[:16])
}

func (m marker) encode() []byte {
	text, _ := json.Marshal(m) // two strings always have a form in JSON
	return append(text, '\n')
}

// Checker checks that a directory is the device that its name says.
type Checker struct {
	cluster    string
	mountCheck bool // what is mounted is the device, even if it is a new one
	logger     *slog.Logger
}

// New returns a checker for the cluster with that hash prefix and suffix.
func New(prefix, suffix string, mountCheck bool, logger *slog.Logger) *Checker {
	return &Checker{cluster: clusterOf(prefix, suffix), mountCheck: mountCheck, logger: logger}
}

// Check returns an error if the device at path must not be used. A device without a marker gets one, unless
// it had one before: then path is the mount point of a device that is not mounted. A crash leaves no marker or a whole one.
func (m *Checker) Check(path string) error {
	name := filepath.Base(path)
	own := marker{Cluster: m.cluster, Device: name}
	known := filepath.Join(filepath.Dir(path), knownDirectory, name)
	// Other services check at the same time, and write the marker first. So the copy is read first: if it exists, the
	// marker was written before.
	copied, _ := readMarker(known) // without a copy only an empty mount point passes unnoticed
	isKnown := !m.mountCheck && copied == own
	found, err := readMarker(filepath.Join(path, markerName))
	switch {
	case err != nil:
		return err
	case found == own:
	case found != marker{}:
		return fmt.Errorf("%s is device %s of cluster %s, not %s of %s: mount the right one, or say `martlet device adopt %s`",
			path, found.Device, found.Cluster, name, m.cluster, path)
	default:
		if err := m.mark(path, own, isKnown); errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) {
			return checkAccess(path) // reads and deletes work on a full device; a copy without a marker would refuse it later
		} else if err != nil {
			return err
		}
	}
	if err := checkAccess(path); err != nil {
		return err
	}
	if !m.mountCheck && !isKnown {
		if err := writeMarker(known, own); err != nil {
			m.logger.Warn("the copy of the marker is not written: an empty mount point will be taken for this device", "device", name, "error", err)
		}
	}
	return nil
}

// mark gives a device its marker: to a new device, to one older than markers, and to one whose marker is damaged. A
// directory that had a marker and has none is not the device, even if it has data: writes that ran when the device
// disappeared may have left data in its mount point.
func (m *Checker) mark(path string, own marker, isKnown bool) error {
	at := filepath.Join(path, markerName)
	if isKnown {
		if _, err := os.Lstat(at); errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("%s was in use and has no %s: mount the device, or say `martlet device adopt %s` if it is a new one",
				path, markerName, path)
		}
	}
	return writeMarker(at, own)
}

// readMarker returns an empty marker if there is none, or if its content is damaged.
func readMarker(path string) (marker, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return marker{}, nil
	}
	var found marker
	if err == nil && (json.Unmarshal(text, &found) != nil || found.Cluster == "" || found.Device == "") {
		found = marker{}
	}
	return found, err
}

// writeMarker writes a marker durably. It makes a missing directory, with access for the owner alone.
func writeMarker(path string, content marker) error {
	directory := filepath.Dir(path)
	if err := os.Mkdir(directory, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	file, err := os.CreateTemp(directory, "."+filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	_, err = file.Write(content.encode())
	err = errors.Join(err, file.Sync(), file.Close())
	if err == nil {
		err = os.Rename(file.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(file.Name()))
	}
	opened, err := os.Open(directory)
	if err != nil {
		return err
	}
	return errors.Join(opened.Sync(), opened.Close())
}

// checkAccess returns an error if this process may not write to a device, because a service has run as another user.
func checkAccess(path string) error {
	entries, err := os.ReadDir(path)
	if err != nil {
		return err
	}
	paths := []string{path}
	for _, entry := range entries {
		name := entry.Name()
		if entry.IsDir() && (strings.HasPrefix(name, "bundles") || strings.HasPrefix(name, "async_pending")) {
			paths = append(paths, filepath.Join(path, name))
		}
	}
	for _, one := range paths {
		if err := unix.Faccessat(unix.AT_FDCWD, one, unix.R_OK|unix.W_OK|unix.X_OK, unix.AT_EACCESS); err != nil {
			return fmt.Errorf("user %d may not write to it: %w", os.Geteuid(), &fs.PathError{Op: "access", Path: one, Err: err})
		}
	}
	return nil
}
