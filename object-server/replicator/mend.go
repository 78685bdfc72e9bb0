package replicator

import (
	"context"
	"errors"
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
		if d.Doubt.LSN > 0 && len(d.Hashes) == 0 { // heal ends it
			continue
		}
		x.note(func(report *Report) { report.Damaged++ })
		isAsked := len(d.Hashes) == 0 || x.mendNames(ctx, d)
		if !isAsked || !x.giveUp(ctx, d.Partition) {
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
// still counts.
func (x *devicePass) giveUp(ctx context.Context, partition uint32) bool {
	var done wire.Mended
	ctx, cancel := context.WithTimeout(ctx, rewriteTimeouts*x.own.timeout)
	defer cancel()
	q := wire.MendRequest{Partition: x.own.partition(partition)}
	if err := grid.Call(ctx, x.own.peer, wire.NameMend, &q, &done); err != nil {
		x.failed(ctx, "rewrite", partition, x.own, err)
		return false
	}
	return done.IsMended
}

// rewriteTimeouts is how much longer the rewrite of a partition may take than another request.
const rewriteTimeouts = 20

// settleDamaged is chunk for partitions of which some have damage that mend has left: that is not in sync. A record with a damaged
// header is left, too, though its name is known: it may be a tombstone that the peers have reclaimed. Without it, what it has
// deleted would count again, and would come back after a restart, which forgets a doubt of Mend.
func (x *devicePass) settleDamaged(ctx context.Context, numbers []uint32) (inSync []bool) {
	inSync = x.chunk(ctx, numbers)
	for i, n := range numbers {
		inSync[i] = inSync[i] && !x.damaged[n]
	}
	return inSync
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
