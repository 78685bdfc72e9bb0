package replicator

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"martlet/object-server/bundle/format"
	"martlet/object-server/grid"
	"martlet/object-server/replicator/wire"
)

var (
	errNoState = errors.New("its state is not known")
	errLacks   = errors.New("not all that it has could be stored")
	errTooMany = errors.New("too many records are at no peer, and may have been deleted")
)

// heal ends a doubt once all peers have given what this device lacks. What it has and they lack may have been deleted: that
// the tombstone is lost here, and reclaimed there, cannot be told from a write that the peers have missed. The server decides
// by what it knows of the peers.
func (x *devicePass) heal(ctx context.Context, p *replicas) error {
	if _, isCounted := x.lost[p.number]; !isCounted {
		x.note(func(report *Report) { report.Damaged++ })
	}
	if len(p.peers) == 0 { // nothing tells what is lost
		return nil
	}
	for _, one := range p.peers {
		if !one.hasState || !one.state.IsKnown || x.isDown(one.remote) {
			x.failed(ctx, "heal", p.number, one.remote, errNoState)
			return nil
		}
	}
	q := wire.HealRequest{Partition: x.own.partition(p.number), Doubt: wire.PositionOf(p.state.DoubtAt())}
	if err := x.fetchAll(ctx, p); err != nil {
		return err
	}
	if err := x.weigh(ctx, p, &q); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, rewriteTimeouts*x.own.timeout)
	defer cancel()
	err := grid.Call(ctx, x.own.peer, wire.NameHeal, &q, &wire.Done{})
	if err == nil {
		p.state, err = x.own.state(ctx, p.number, 0)
	}
	return err
}

// fetchAll gets what differs from all peers, and the names that are known to be lost. Peers that are in doubt themselves come
// last: they leave out what the others lack because it was deleted there.
func (x *devicePass) fetchAll(ctx context.Context, p *replicas) error {
	ordered := slices.Clone(p.peers)
	slices.SortStableFunc(ordered, func(a, b *pair) int { return int(min(a.state.Doubt, 1)) - int(min(b.state.Doubt, 1)) })
	var sound []wire.ComparedPeer
	for _, one := range ordered {
		c, err := x.difference(ctx, p, one)
		if err != nil {
			return err
		}
		q := wire.ExportRequest{Partition: one.partition(p.number), Doubtful: true, Lacking: sound}
		hashes := appendNames(slices.Clone(x.lost[p.number]), c.ours)
		if !p.isHandoff { // one need not have what the primaries have
			hashes = appendNames(hashes, c.theirs)
		}
		if len(hashes) > 0 {
			if _, err := x.fetchAs(ctx, one.remote, q, hashes); err != nil {
				return fmt.Errorf("%s: %w", one, err)
			}
		}
		if one.isSound(c) {
			sound = append(sound, x.compared(one))
		}
	}
	return nil
}

// isSound tells whether what a peer lacks proves anything: it may have lost it otherwise. Where there is no bundle the disk may
// be new.
func (p *pair) isSound(c *comparison) bool {
	return p.state.Doubt == 0 && !c.isPartial && p.bundle != format.Identity{}
}

// compared is a peer as the server knows it.
func (x *devicePass) compared(one *pair) wire.ComparedPeer {
	return wire.ComparedPeer{Peer: one.named(one.bundle), Horizon: one.state.Horizon}
}

// weigh compares this device with all peers, and notes what decides whether its doubt ends.
func (x *devicePass) weigh(ctx context.Context, p *replicas, q *wire.HealRequest) error {
	var lacked map[format.Hash]bool // by all sound peers
	lost, err := wire.ParseHashes(x.lost[p.number])
	if err != nil {
		return err
	}
	for _, one := range p.peers {
		c, err := x.difference(ctx, p, one)
		if err != nil {
			return err
		}
		if !one.isSound(c) {
			continue
		}
		for hash := range c.theirs {
			if !p.isHandoff && !c.ours[hash] && !lost[hash] {
				return fmt.Errorf("%s: %w", one, errLacks)
			}
		}
		if q.Peers = append(q.Peers, x.compared(one)); lacked == nil {
			lacked = c.ours
			continue
		}
		for hash := range lacked {
			if !c.ours[hash] {
				delete(lacked, hash)
			}
		}
	}
	if len(lacked) > x.namesAtOnce {
		return errTooMany
	}
	if names := appendNames(nil, lacked); len(q.Peers) == len(p.peers) {
		q.Alone = names
	} else {
		q.Doubted = names
	}
	return nil
}

// difference compares this device with a peer, as both are now.
func (x *devicePass) difference(ctx context.Context, p *replicas, one *pair) (*comparison, error) {
	own, err := x.own.state(ctx, p.number, 0)
	if err != nil {
		return nil, err
	}
	other, err := one.remote.state(ctx, p.number, 0)
	if err != nil {
		return nil, err
	}
	one.saw(&other)
	found, err := x.compare(ctx, x.own, one.remote, p.number, &own, &other)
	switch {
	case err != nil:
		return nil, err
	case found == unknown:
		return nil, errNoState
	case found == identical || found == agree:
		return &comparison{}, nil
	}
	return x.differences(ctx, x.own, one.remote, p.number, &own, &other, x.ring.PartPower())
}

// fetch gets names from a peer.
func (x *devicePass) fetch(ctx context.Context, peer *remote, partition uint32, hashes []byte) (shipment, error) {
	return x.fetchAs(ctx, peer, wire.ExportRequest{Partition: peer.partition(partition), Doubtful: true}, hashes)
}

func (x *devicePass) fetchAs(ctx context.Context, peer *remote, q wire.ExportRequest, hashes []byte) (shipment, error) {
	done, err := x.shipNames(ctx, peer, q, hashes, x.own)
	x.note(func(report *Report) {
		report.Fetched += int(done.done.Stored)
		report.Bytes += done.bytes
	})
	return done, err
}
