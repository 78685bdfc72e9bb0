package updates

import (
	"errors"
	"net"
	"os"
	"strconv"
	"sync"
	"time"

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
	path   string
	hasher ring.Hasher

	mu       sync.Mutex
	ring     *ring.Ring
	modified time.Time
}

// NewRingPlacement returns the placement by the ring file at path, which is read when first needed.
func NewRingPlacement(path string, hasher ring.Hasher) *RingPlacement {
	return &RingPlacement{path: path, hasher: hasher}
}

// Primaries implements Placement. It fails when the ring cannot be read.
func (p *RingPlacement) Primaries(target Target) ([]Target, error) {
	r, err := p.current()
	if err != nil {
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

func (p *RingPlacement) current() (*ring.Ring, error) {
	info, err := os.Stat(p.path)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ring != nil && info.ModTime().Equal(p.modified) {
		return p.ring, nil
	}
	r, err := ring.Load(p.path)
	if err != nil {
		if p.ring != nil { // half-written or damaged: the last good one still serves
			return p.ring, nil
		}
		return nil, err
	}
	p.ring, p.modified = r, info.ModTime()
	return r, nil
}
