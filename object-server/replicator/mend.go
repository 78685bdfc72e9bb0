package replicator

import (
	"context"
	"errors"

	"martlet/object-server/replicator/wire"
)

// mend gets what this device has lost from the peers, before anything is compared: a damaged record stays in the set as long
// as its header is known, so digests do not show it.
func (x *devicePass) mend(ctx context.Context) {
	var damages wire.Damages
	q := wire.PartitionsRequest{Device: x.device.Name, Policy: x.policy}
	if err := x.own.call(ctx, wire.NameDamages, &q, &damages); err != nil {
		x.failed(ctx, "damages", 0, x.own, err)
		return
	}
	for i := range damages.Partitions {
		d := &damages.Partitions[i]
		if ctx.Err() != nil {
			return
		}
		if int(d.Partition) >= x.ring.PartitionCount() {
			continue
		}
		if d.Doubt.LSN == 0 {
			x.note(func(report *Report) { report.Damaged++ })
		}
		if len(d.Hashes) > 0 {
			x.mendNames(ctx, d)
		}
	}
}

// mendNames asks each peer for the names with a damaged record.
func (x *devicePass) mendNames(ctx context.Context, d *wire.Damaged) {
	for _, node := range x.ring.PartitionDevices(d.Partition) {
		peer := x.remoteOf(node)
		if x.isHere(node) || x.isDown(peer) {
			continue
		}
		if _, err := x.fetch(ctx, peer, d.Partition, d.Hashes); err != nil {
			x.failed(ctx, "mend", d.Partition, peer, err)
		}
	}
}

// fetch gets names from a peer; all, if none are given.
func (x *devicePass) fetch(ctx context.Context, peer *remote, partition uint32, hashes []byte) (shipment, error) {
	done, err := x.shipNames(ctx, peer, wire.ExportRequest{Partition: peer.partition(partition), Doubtful: true}, hashes, x.own)
	x.note(func(report *Report) {
		report.Fetched += int(done.done.Stored)
		report.Bytes += done.bytes
	})
	return done, err
}

// heal ends a doubt once all peers have given what this device lacks, and have the same now. If this device has more than its
// peers, some of it may have been deleted: that the tombstone is lost here, and reclaimed there, cannot be told from a write
// that the peers have missed. The doubt stays then, and nothing is sent from this partition.
func (x *devicePass) heal(ctx context.Context, p *replicas) error {
	x.note(func(report *Report) { report.Damaged++ })
	for _, isLast := range []bool{false, true} {
		for _, one := range p.peers {
			isEqual, err := x.fetchMissing(ctx, p, one, isLast)
			if err != nil {
				x.failed(ctx, "heal", p.number, one.remote, err)
			}
			if err != nil || isLast && !isEqual {
				return nil
			}
		}
	}
	q := wire.HealRequest{Partition: x.own.partition(p.number), Doubt: wire.PositionOf(p.state.DoubtAt())}
	err := x.own.call(ctx, wire.NameHeal, &q, &wire.Done{})
	if err == nil {
		p.state, err = x.own.state(ctx, p.number, 0)
	}
	return err
}

var errNoState = errors.New("its state is not known")

// fetchMissing tells whether a peer has the same as this device. If not, it gets what differs, unless it is only to look.
func (x *devicePass) fetchMissing(ctx context.Context, p *replicas, one *pair, onlyLooks bool) (isEqual bool, err error) {
	if !one.hasState || x.isDown(one.remote) {
		return false, errNoState
	}
	own, err := x.own.state(ctx, p.number, 0)
	if err != nil {
		return false, err
	}
	other, err := one.remote.state(ctx, p.number, 0)
	if err != nil {
		return false, err
	}
	found, err := x.compare(ctx, x.own, one.remote, p.number, &own, &other)
	switch {
	case err != nil:
		return false, err
	case found == identical || found == agree:
		return true, nil
	case found == unknown:
		return false, errNoState
	case onlyLooks:
		return false, nil
	}
	var hashes []byte
	if !own.Digest.IsEmpty() {
		hashes, err = x.names(ctx, x.own, one.remote, p.number, &own, &other, x.ring.PartPower())
		if err == nil && len(hashes) == 0 {
			return false, nil // it has nothing near what differs
		}
		if err != nil { // the slices of what is lost may be unknown as well; then all names are fetched
			hashes = nil
		}
	}
	_, err = x.fetch(ctx, one.remote, p.number, hashes)
	return false, err
}
