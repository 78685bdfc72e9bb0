package replicator

import (
	"context"
	"errors"

	"martlet/object-server/bundle/format"
	"martlet/object-server/grid"
	"martlet/object-server/replicator/wire"
)

// rounds bounds how often one pass sends what a peer misses: clients write meanwhile.
const rounds = 3

// settle makes the peers of a partition have what this device has. While records of unknown names are lost here, the server
// gives only what no lost tombstone has deleted.
func (x *devicePass) settle(ctx context.Context, p *replicas) {
	if p.state.Doubt > 0 {
		if err := x.heal(ctx, p); err != nil {
			x.failed(ctx, "heal", p.number, x.own, err)
		}
		if p.state.Doubt > 0 {
			x.note(func(report *Report) { report.Doubtful++ })
		}
	}
	for _, one := range p.peers {
		if !one.hasState || x.isDown(one.remote) || ctx.Err() != nil {
			continue
		}
		send := x.settlePrimary
		if p.isHandoff {
			send = x.settleHandoff
		}
		err := send(ctx, p, one)
		var refused *grid.Error
		if errors.As(err, &refused) && refused.Code == grid.CodeBusy {
			continue // another peer sends the same; the next pass sees what is missing still
		}
		if err != nil {
			x.failed(ctx, "records", p.number, one.remote, err)
		}
	}
}

// settlePrimary compares two primaries, and sends what differs, until the peer misses nothing.
func (x *devicePass) settlePrimary(ctx context.Context, p *replicas, one *pair) error {
	own := p.state
	if err := x.lookAgain(ctx, p.number, one, &own); err != nil {
		return err
	}
	for range rounds {
		found, err := x.compare(ctx, x.own, one.remote, p.number, &own, &one.state)
		if err != nil {
			return err
		}
		switch found {
		case unknown:
			return nil
		case identical:
			one.has, one.isWhole, one.bundle = own.Position, true, one.state.Position.Bundle
			return nil
		case agree: // all but old tombstones, which a peer that has reclaimed them may get again
			one.bundle = one.state.Position.Bundle
			_, err := x.sendRest(ctx, p, one, true)
			one.has = own.Position
			return err
		}
		done, err := x.sendDifference(ctx, p, one, &own)
		if err != nil || done.done.Stored == 0 { // what only the peer has is sent by the peer
			return err
		}
		if own, err = x.own.state(ctx, p.number, 0); err != nil {
			return err
		}
		other, err := one.remote.state(ctx, p.number, 0)
		if err != nil {
			return err
		}
		one.saw(&other)
	}
	return nil
}

// lookAgain looks once more at a peer that had nothing when the pass came to these partitions. Another peer may send it the
// same by now: then it is busy, and nothing need be read here. If it has most by now, only what differs is sent.
func (x *devicePass) lookAgain(ctx context.Context, partition uint32, one *pair, own *wire.State) error {
	if !one.state.Digest.IsEmpty() || own.Digest.IsEmpty() {
		return nil
	}
	if err := one.remote.tryImport(ctx, partition); err != nil {
		return err
	}
	now, err := one.remote.state(ctx, partition, 0)
	if err == nil && 2*elementsIn(&now.Digest) >= elementsIn(&own.Digest) {
		one.saw(&now)
	}
	return err
}

// settleHandoff sends all that a primary is not known to have. It has more than the hand-off, so digests tell little. If
// they are equal, only removals of versions may be missing: these are in no digest.
func (x *devicePass) settleHandoff(ctx context.Context, p *replicas, one *pair) error {
	isEqual := p.state.IsKnown && one.state.IsKnown && p.state.Digest == one.state.Digest && one.bundle != format.Identity{}
	done, err := x.sendRest(ctx, p, one, isEqual)
	one.has = done.end.Position
	return err
}

// sendRest sends what the bundle of a peer is not known to have. Then it has everything, unless the records have gone to
// another bundle: the disk was replaced meanwhile.
func (x *devicePass) sendRest(ctx context.Context, p *replicas, one *pair, tombstones bool) (shipment, error) {
	q := wire.ExportRequest{Peer: one.named(one.bundle), Tombstones: tombstones}
	done, err := x.send(ctx, p, one, q, nil)
	if err != nil {
		return done, err
	}
	if !tombstones && one.bundle == (format.Identity{}) {
		one.bundle = done.bundle // which was made for them
	}
	one.isWhole = done.isWhole() && done.bundle == one.bundle
	return done, nil
}

// sendDifference sends the names that differ; all, if the peer has nothing.
func (x *devicePass) sendDifference(ctx context.Context, p *replicas, one *pair, own *wire.State) (shipment, error) {
	var hashes []byte
	if !one.state.Digest.IsEmpty() {
		var err error
		hashes, err = x.names(ctx, x.own, one.remote, p.number, own, &one.state, x.ring.PartPower())
		if err != nil || len(hashes) == 0 {
			return shipment{}, err
		}
	}
	return x.send(ctx, p, one, wire.ExportRequest{}, hashes)
}

// send sends records to a peer, and counts them.
func (x *devicePass) send(ctx context.Context, p *replicas, one *pair, q wire.ExportRequest, hashes []byte) (shipment, error) {
	q.Partition = x.own.partition(p.number)
	done, err := x.shipNames(ctx, x.own, q, hashes, one.remote)
	var refused *grid.Error
	if errors.As(err, &refused) && refused.Code == grid.CodeFailed && !q.Tombstones { // a full disk takes deletes, which make room
		q.Tombstones = true
		if deletes, alsoFailed := x.shipNames(ctx, x.own, q, hashes, one.remote); alsoFailed == nil {
			done.add(&deletes)
		}
	}
	x.note(func(report *Report) {
		report.Sent += int(done.done.Stored)
		report.Bytes += done.bytes
		if !done.isWhole() {
			report.Failures++
		}
	})
	if err == nil && !done.isWhole() {
		x.config.Logger.Warn("records were not taken", "device", x.device.Name, "policy", x.policy, "partition", p.number,
			"peer", one.String(), "refused", done.done.Refused, "unreadable", done.end.Skipped, "reason", done.done.Reason)
	}
	return done, err
}
