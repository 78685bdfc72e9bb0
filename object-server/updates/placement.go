package updates

import (
	"errors"
	"net"
	"strconv"

	"martlet/object-server/ring"
)

var errNoHost = errors.New("no container server named in the request")

// Placement finds the databases of a container. Implementations are safe for concurrent use.
type Placement interface {
	// Primaries lists a target for each primary of the container, with the account, container and policy of its argument.
	Primaries(target Target) ([]Target, error)
}

// RingPlacement reads the container ring, and reads it anew when the file changes.
type RingPlacement struct {
	files  *ring.Files
	hasher ring.Hasher
}

// NewRingPlacement returns the placement by the container ring in files, which is read when first needed.
func NewRingPlacement(files *ring.Files, hasher ring.Hasher) *RingPlacement {
	return &RingPlacement{files: files, hasher: hasher}
}

// Primaries implements Placement. It fails while no ring has been read.
func (p *RingPlacement) Primaries(target Target) ([]Target, error) {
	r, err := p.files.Named("container")
	if r == nil { // else an error says that it is the ring from before
		return nil, err
	}
	partition := r.Partition(p.hasher.Container(target.Account, target.Container))
	var targets []Target
	for _, device := range r.PartitionDevices(partition) {
		target.Host = net.JoinHostPort(device.IP, strconv.Itoa(device.Port))
		target.Device = device.Name
		target.Partition = strconv.FormatUint(uint64(partition), 10)
		targets = append(targets, target)
	}
	return targets, nil
}
