package replicator

import (
	"context"
	"errors"

	"martlet/object-server/grid"
	"martlet/object-server/replicator/wire"
)

// rounds bounds how often one pass sends what a peer misses: clients write meanwhile.
const rounds = 3

// settle makes the peers of a partition have what this device has.
func (x *devicePass) settle(ctx context.Context, p *replicas) {
	if x.doubts[p.number] {
		return
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
	for range rounds {
		found, err := x.compare(ctx, x.own, one.remote, p.number, &own, &one.state)
		if err != nil {
			return err
		}
		switch found {
		case unknown:
			return nil
		case identical:
			one.has, one.isWhole = own.Position, true
			return nil
		case agree: // all but old tombstones, which a peer that has reclaimed them may get again
			q := wire.ExportRequest{Peer: one.named(&one.state.Position), Tombstones: true}
			done, err := x.send(ctx, p, one, q)
			if one.isWhole = err == nil && done.isWhole(); one.isWhole {
				one.has = own.Position
			}
			return err
		}
		done, err := x.sendDifference(ctx, p, one, &own)
		if err != nil || done.done.Stored == 0 { // what only the peer has is sent by the peer
			return err
		}
		if own, err = x.own.state(ctx, p.number, 0); err != nil {
			return err
		}
		if one.state, err = one.remote.state(ctx, p.number, 0); err != nil {
			return err
		}
	}
	return nil
}

// settleHandoff sends all that a primary is not known to have. It has more than the hand-off, so digests tell nothing.
func (x *devicePass) settleHandoff(ctx context.Context, p *replicas, one *pair) error {
	if p.state.IsKnown && one.state.IsKnown && p.state.Digest == one.state.Digest {
		one.has, one.isWhole = p.state.Position, true
		return nil
	}
	done, err := x.send(ctx, p, one, wire.ExportRequest{Peer: one.named(&one.state.Position)})
	if err != nil {
		return err
	}
	one.has, one.isWhole = done.end.Position, done.isWhole()
	return nil
}

// sendDifference sends the names that differ; all, if the peer has nothing.
func (x *devicePass) sendDifference(ctx context.Context, p *replicas, one *pair, own *wire.State) (shipment, error) {
	var q wire.ExportRequest
	if !one.state.Digest.IsEmpty() {
		hashes, err := x.names(ctx, x.own, one.remote, p.number, own, &one.state, x.ring.PartPower())
		if err != nil || len(hashes) == 0 {
			return shipment{}, err
		}
		q.Hashes = hashes
	}
	return x.send(ctx, p, one, q)
}

// send sends records to a peer, and counts them.
func (x *devicePass) send(ctx context.Context, p *replicas, one *pair, q wire.ExportRequest) (shipment, error) {
	q.Partition = x.own.partition(p.number)
	done, err := x.ship(ctx, x.own, q, one.remote)
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
