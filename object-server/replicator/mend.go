package replicator

import (
	"context"

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
		x.note(func(report *Report) { report.Damaged++ })
		x.mendPartition(ctx, d)
	}
}

// mendPartition asks each peer for the damaged names; for all, if the names of lost records are not known.
func (x *devicePass) mendPartition(ctx context.Context, d *wire.Damaged) {
	isDoubt := d.Doubt.LSN > 0
	if !isDoubt && len(d.Hashes) == 0 {
		return
	}
	isWhole := true
	var peers []*remote
	for _, node := range x.ring.PartitionDevices(d.Partition) {
		if node.ID == x.device.ID {
			continue
		}
		peer := x.remote(node, x.policy)
		peers = append(peers, peer)
		if x.isDown(peer) {
			isWhole = false
			continue
		}
		q := wire.ExportRequest{Partition: peer.partition(d.Partition), Hashes: d.Hashes}
		if isDoubt {
			q.Hashes = nil
		}
		done, err := x.ship(ctx, peer, q, x.own)
		if err != nil {
			x.failed(ctx, "mend", d.Partition, peer, err)
		}
		isWhole = isWhole && err == nil && done.isWhole()
		x.note(func(report *Report) {
			report.Fetched += int(done.done.Stored)
			report.Bytes += done.bytes
		})
	}
	if isDoubt {
		x.heal(ctx, d, peers, isWhole)
	}
}

// heal ends a doubt once all peers have given what they have, and have the same now. If this device has more than its peers,
// some of it may have been deleted: that the tombstone is lost here, and reclaimed there, cannot be told from a write that
// the peers have missed. The doubt stays then, and nothing is sent from this partition.
func (x *devicePass) heal(ctx context.Context, d *wire.Damaged, peers []*remote, isWhole bool) {
	for _, peer := range peers {
		if !isWhole {
			break
		}
		own, err := x.own.state(ctx, d.Partition, 0)
		if err != nil {
			x.failed(ctx, "heal", d.Partition, x.own, err)
			break
		}
		other, err := peer.state(ctx, d.Partition, 0)
		var found agreement
		if err == nil {
			found, err = x.compare(ctx, x.own, peer, d.Partition, &own, &other)
		}
		if err != nil {
			x.failed(ctx, "heal", d.Partition, peer, err)
		}
		isWhole = err == nil && (found == identical || found == agree)
	}
	if isWhole {
		q := wire.HealRequest{Partition: x.own.partition(d.Partition), Doubt: d.Doubt}
		err := x.own.call(ctx, wire.NameHeal, &q, &wire.Done{})
		if err == nil {
			return
		}
		x.failed(ctx, "heal", d.Partition, x.own, err)
	}
	if x.doubts == nil {
		x.doubts = map[uint32]bool{}
	}
	x.doubts[d.Partition] = true
}
