package replicator

import (
	"context"
	"slices"

	"martlet/object-server/grid"
	"martlet/object-server/replicator/wire"
)

// mend gets what this device has lost from the peers, before anything is compared: a damaged record stays in the set as long
// as its header is known, so digests do not show it. Once all that counts is there, the damaged records are given up. Nil
// takes all partitions.
func (x *devicePass) mend(ctx context.Context, only []uint32) {
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
		if int(d.Partition) >= x.ring.PartitionCount() || only != nil && !slices.Contains(only, d.Partition) {
			continue
		}
		x.lost[d.Partition] = d.Hashes
		x.note(func(report *Report) { report.Damaged++ })
		if d.Doubt.LSN > 0 { // heal ends it
			continue
		}
		isAsked := len(d.Hashes) == 0 || x.mendNames(ctx, d)
		if !isAsked || !x.giveUp(ctx, d.Partition, false) {
			x.damaged[d.Partition] = true
		}
	}
}

// mendNames asks each peer for the names with a damaged record, and tells whether all have answered.
func (x *devicePass) mendNames(ctx context.Context, d *wire.Damaged) (isAsked bool) {
	isAsked = true
	for _, node := range x.ring.PartitionDevices(d.Partition) {
		peer := x.remoteOf(node)
		if x.isHere(node) {
			continue
		}
		if x.isDown(peer) {
			isAsked = false
			continue
		}
		if _, err := x.fetch(ctx, peer, d.Partition, d.Hashes); err != nil {
			isAsked = false
			x.failed(ctx, "mend", d.Partition, peer, err)
		}
	}
	return isAsked
}

// giveUp has a partition written anew without its damaged records, and tells whether that was done. Nothing is given up that
// still counts. If it is not known what some of them were, and mayDoubt, they are lost then: heal ends that.
func (x *devicePass) giveUp(ctx context.Context, partition uint32, mayDoubt bool) bool {
	var done wire.Mended
	ctx, cancel := context.WithTimeout(ctx, rewriteTimeouts*x.own.timeout)
	defer cancel()
	q := wire.MendRequest{Partition: x.own.partition(partition), MayDoubt: mayDoubt}
	if err := grid.Call(ctx, x.own.peer, wire.NameMend, &q, &done); err != nil {
		x.failed(ctx, "rewrite", partition, x.own, err)
		return false
	}
	return done.IsMended
}

// rewriteTimeouts is how much longer the rewrite of a partition may take than another request.
const rewriteTimeouts = 20

// settleDamaged is chunk for partitions of which some have damage that mend has left: records with a damaged header. If all
// peers can be asked for what these were, they are lost from now on, and heal gets what they were.
func (x *devicePass) settleDamaged(ctx context.Context, numbers []uint32) (inSync []bool) {
	for _, n := range numbers {
		if x.damaged[n] && x.canAsk(ctx, n) && x.giveUp(ctx, n, true) {
			delete(x.damaged, n)
		}
	}
	inSync = x.chunk(ctx, numbers)
	for i, n := range numbers {
		inSync[i] = inSync[i] && !x.damaged[n]
	}
	return inSync
}

// canAsk tells whether all peers say what they have of a partition.
func (x *devicePass) canAsk(ctx context.Context, number uint32) bool {
	all, err := x.look(ctx, []uint32{number})
	if err != nil {
		x.failed(ctx, "digests", number, x.own, err)
		return false
	}
	return len(all[0].peers) > 0 && !slices.ContainsFunc(all[0].peers, func(one *pair) bool {
		return !one.hasState || !one.state.IsKnown || x.isDown(one.remote)
	})
}
