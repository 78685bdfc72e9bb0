package ring

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
)

// Limits of a ring file. They bound what is allocated for a damaged or hostile file; a ring of part power 24 with four
// replicas is half of sizeMax.
const (
	sizeMax    = 256 << 20 // uncompressed bytes of a whole ring
	jsonMax    = 32 << 20  // bytes of one JSON blob
	replicaMax = 64
)

// ErrFormat is wrapped by every error that says a ring file is damaged or of an unknown version.
var ErrFormat = errors.New("bad ring file")

// Device is one device of a ring.
type Device struct {
	ID              int     `json:"id"`
	Region          int     `json:"region"`
	Zone            int     `json:"zone"`
	IP              string  `json:"ip"`
	Port            int     `json:"port"`
	ReplicationIP   string  `json:"replication_ip"`
	ReplicationPort int     `json:"replication_port"`
	Name            string  `json:"device"`
	Weight          float64 `json:"weight"`
}

// Ring maps partitions to devices. It is immutable, hence safe for concurrent use.
type Ring struct {
	FormatVersion int       // 1 or 2
	Version       int64     // counts the ring's changes; 0 if the file does not say
	NextPartPower int       // while the part power is raised: the one to come and, once that has, the present one; else -1
	PartShift     uint      // 32 minus the part power
	ReplicaCount  float64   // may be fractional; the last replica then covers a part of the partitions
	Devices       []*Device // by id; nil where a device was removed
	rows          [][]uint32
}

// PartPower is the number of bits of a hash that choose the partition.
func (r *Ring) PartPower() int { return 32 - int(r.PartShift) }

// PartitionCount is the number of partitions, a power of two.
func (r *Ring) PartitionCount() int { return 1 << (32 - r.PartShift) }

// Partition returns the partition of a hash (see Hasher).
func (r *Ring) Partition(hash [16]byte) uint32 {
	return uint32(uint64(binary.BigEndian.Uint32(hash[:4])) >> r.PartShift)
}

// PartitionDevices lists the primaries of a partition in replica order, each device once. It is empty for a partition
// outside the ring. The caller must not change the devices.
func (r *Ring) PartitionDevices(partition uint32) []*Device {
	devices := make([]*Device, 0, len(r.rows))
	for _, row := range r.rows {
		if uint64(partition) >= uint64(len(row)) || row[partition] == unassigned {
			continue
		}
		device := r.Devices[row[partition]]
		if !contains(devices, device) {
			devices = append(devices, device)
		}
	}
	return devices
}

func contains(devices []*Device, device *Device) bool {
	for _, seen := range devices {
		if seen == device {
			return true
		}
	}
	return false
}

// Load reads the ring file at path. The errors of a damaged file wrap ErrFormat.
func Load(path string) (*Ring, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	r, err := Read(file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return r, nil
}
