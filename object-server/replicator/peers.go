package replicator

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/tinylib/msgp/msgp"

	"martlet/object-server/bundle/format"
	"martlet/object-server/device"
	"martlet/object-server/grid"
	"martlet/object-server/replicator/wire"
	"martlet/object-server/ring"
)

// remote is one device of an object server.
type remote struct {
	peer    *grid.Peer
	address string // host:port
	device  string
	policy  int
	power   uint8 // part power of the ring
	timeout time.Duration

	directory string // of a device of this host, which this process may read; else empty
}

func (r *Replicator) remote(d *ring.Device, policy int) *remote {
	address := net.JoinHostPort(d.IP, strconv.Itoa(d.Port))
	return &remote{peer: r.grid.Peer(address), address: address, device: d.Name, policy: policy, timeout: r.config.NodeTimeout}
}

func (s *remote) String() string { return s.address + "/" + s.device }

// named is the name under which the device is known to have what a partition has. A bundle that was wiped has another name.
// Empty for no bundle: of what is not there nothing may be known.
func (s *remote) named(identity format.Identity) string {
	if identity == (format.Identity{}) {
		return ""
	}
	name := fmt.Sprintf("%s %x", s, identity)
	if len(name) > device.PeerMax { // the name of the host is long
		name = fmt.Sprintf("%x", sha256.Sum256([]byte(name)))
	}
	return name
}

func (s *remote) partition(number uint32) wire.Partition {
	return wire.Partition{Device: s.device, Policy: s.policy, Number: number}
}

// call sends a request and waits for its answer.
func (s *remote) call(ctx context.Context, name string, q msgp.Marshaler, a msgp.Unmarshaler) error {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	if err := grid.Call(ctx, s.peer, name, q, a); err != nil {
		return fmt.Errorf("%s %s: %w", s, name, err)
	}
	return nil
}

func (s *remote) partitions(ctx context.Context) ([]uint32, error) {
	var a wire.Partitions
	err := s.call(ctx, wire.NamePartitions, &wire.PartitionsRequest{Device: s.device, Policy: s.policy, Power: s.power}, &a)
	return a.Numbers, err
}

// states asks for the states of partitions, each from its horizon on.
func (s *remote) states(ctx context.Context, asked []wire.Asked) ([]wire.State, error) {
	q := wire.DigestsRequest{Device: s.device, Policy: s.policy, Power: s.power}
	for _, one := range asked {
		q.Asked = wire.AppendAsked(q.Asked, one)
	}
	var a wire.Digests
	if err := s.call(ctx, wire.NameDigests, &q, &a); err != nil {
		return nil, err
	}
	states, err := wire.ParseStates(a.States, len(asked))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s, err)
	}
	return states, nil
}

// hold asks to keep a partition, which must be in the bundle of that identity, because own removes its replica by this ring.
func (s *remote) hold(ctx context.Context, partition uint32, identity format.Identity, own *remote, ring int64) error {
	q := wire.HoldRequest{Partition: s.partition(partition), Bundle: identity[:], For: own.String(), Ring: ring}
	return s.call(ctx, wire.NameHold, &q, &wire.Done{})
}

// promises asks to which devices a partition was promised to be kept.
func (s *remote) promises(ctx context.Context, partition uint32) ([]wire.Promise, error) {
	var a wire.Promises
	err := s.call(ctx, wire.NamePromises, &wire.PromisesRequest{Partition: s.partition(partition)}, &a)
	return a.Promises, err
}

func (s *remote) state(ctx context.Context, partition uint32, horizon uint64) (wire.State, error) {
	states, err := s.states(ctx, []wire.Asked{{Partition: partition, Horizon: horizon}})
	if err != nil {
		return wire.State{}, err
	}
	return states[0], nil
}
