package device

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"martlet/object-server/bundle"
	"martlet/object-server/bundle/format"
	"martlet/object-server/vfs"
)

// floor is how far a bundle was acknowledged for certain. It is bundle.Files.Floor.
func (d *Device) floor(id bundle.ID, identity format.Identity) uint64 {
	return max(d.floors.of(id), d.synced.floor(id, identity))
}

// ReadFloor reads what Open would know of how far each bundle of a device was
// acknowledged: from its clean stop, and from what peers have. It is for
// bundle.Files.Floor, and changes nothing. The device may be in use. What is torn or
// damaged says nothing.
func ReadFloor(files vfs.FS, root string) (func(bundle.ID, format.Identity) uint64, error) {
	stopped, err := ReadCleanStop(files, root)
	if err != nil {
		return nil, err
	}
	known := synced{peers: make(map[place][]holding)}
	known.file, err = files.Open(filepath.Join(root, SyncedFile))
	switch {
	case err == nil:
		if known.read() != nil {
			clear(known.peers)
		}
		err = known.file.Close()
	case errors.Is(err, fs.ErrNotExist):
		err = nil
	}
	if err != nil {
		return nil, fmt.Errorf("device: %w", err)
	}
	return func(id bundle.ID, identity format.Identity) uint64 {
		return max(stopped[id], known.floor(id, identity))
	}, nil
}
