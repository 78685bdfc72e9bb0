package replicator

import (
	"context"
	"slices"
	"sync"

	"martlet/object-server/bundle"
	"martlet/object-server/bundle/format"
	"martlet/object-server/replicator/wire"
	"martlet/object-server/ring"
)

// replicas is a partition, and how far its peers are.
type replicas struct {
	number    uint32
	state     wire.State
	isHandoff bool
	peers     []*pair
}

// pair is a partition at one peer.
type pair struct {
	*remote
	state    wire.State
	hasState bool
	bundle   format.Identity // of the peer's bundle; zero: it had none
	has      bundle.Position // of this device: up to there that bundle has everything, if isWhole
	isWhole  bool
}

// saw takes a new state of the peer.
func (p *pair) saw(state *wire.State) { p.state, p.bundle = *state, state.Position.Bundle }

// isHere tells whether a device of the ring is the one that is worked on. Two entries of a ring may be of the same place.
func (x *devicePass) isHere(d *ring.Device) bool {
	return d.ID == x.device.ID || d.Name == x.device.Name && x.config.IsOwn(d)
}

// chunk compares some partitions with all their peers, and sends what differs. It returns which of them are in sync with all
// peers.
func (x *devicePass) chunk(ctx context.Context, numbers []uint32) (inSync []bool) {
	inSync = make([]bool, len(numbers))
	all, err := x.look(ctx, numbers)
	if err != nil {
		x.failed(ctx, "digests", numbers[0], x.own, err)
		return inSync
	}
	var wait sync.WaitGroup
	places := make(chan struct{}, max(1, x.config.Concurrency))
	for _, p := range all {
		places <- struct{}{}
		wait.Add(1)
		go func() {
			defer wait.Done()
			defer func() { <-places }()
			x.settle(ctx, p)
		}()
	}
	wait.Wait()
	for i, p := range all {
		inSync[i] = p.isInSync()
	}
	x.conclude(ctx, all)
	return inSync
}

// isInSync tells whether all peers have everything.
func (p *replicas) isInSync() bool {
	return p.state.IsKnown && p.state.Doubt == 0 && !slices.ContainsFunc(p.peers, func(one *pair) bool { return !one.isWhole })
}

// look asks this device and all peers for the states of partitions.
func (x *devicePass) look(ctx context.Context, numbers []uint32) ([]*replicas, error) {
	asked := make([]wire.Asked, len(numbers))
	for i, n := range numbers {
		asked[i].Partition = n
	}
	states, err := x.own.states(ctx, asked)
	if err != nil {
		return nil, err
	}
	all := make([]*replicas, len(numbers))
	byPeer := map[*ring.Device][]*pair{}
	of := map[*ring.Device][]wire.Asked{}
	for i, n := range numbers {
		p := &replicas{number: n, state: states[i], isHandoff: true}
		all[i] = p
		for _, d := range x.ring.PartitionDevices(n) {
			if x.isHere(d) {
				p.isHandoff = false
				continue
			}
			one := &pair{remote: x.remoteOf(d)}
			p.peers = append(p.peers, one)
			byPeer[d], of[d] = append(byPeer[d], one), append(of[d], asked[i])
		}
	}
	var wait sync.WaitGroup
	for d, pairs := range byPeer {
		wait.Add(1)
		go func() {
			defer wait.Done()
			x.lookAt(ctx, pairs, of[d])
		}()
	}
	wait.Wait()
	return all, nil
}

// lookAt asks one peer.
func (x *devicePass) lookAt(ctx context.Context, pairs []*pair, asked []wire.Asked) {
	peer := pairs[0].remote
	if x.isDown(peer) {
		return
	}
	states, err := peer.states(ctx, asked)
	if err != nil {
		x.failed(ctx, "digests", asked[0].Partition, peer, err)
		return
	}
	for i, one := range pairs {
		one.saw(&states[i])
		one.hasState = true
	}
}

// conclude tells this device what its peers have, and gives back hand-offs that all of them have.
func (x *devicePass) conclude(ctx context.Context, all []*replicas) {
	q := wire.SyncedRequest{Device: x.device.Name, Policy: x.policy}
	for _, p := range all {
		one := wire.Synced{Partition: p.number}
		isInSync := p.isInSync()
		for _, peer := range p.peers {
			one.IsPartial = one.IsPartial || !peer.hasState
			name := peer.named(peer.bundle)
			if name == "" { // nothing is known of it, so no tombstone may be reclaimed
				one.Peers = append(one.Peers, peer.String())
				continue
			}
			one.Peers = append(one.Peers, name)
			if peer.isWhole {
				one.Has = append(one.Has, wire.Holding{Peer: name, Position: wire.PositionOf(peer.has)})
			}
		}
		x.note(func(report *Report) {
			report.Partitions++
			if isInSync {
				report.InSync++
			}
			if p.isHandoff {
				report.Handoffs++
			}
		})
		if p.isHandoff && isInSync && len(p.peers) > 0 {
			x.giveBack(ctx, p)
			continue
		}
		q.Synced = append(q.Synced, one)
	}
	if len(q.Synced) == 0 {
		return
	}
	if err := x.own.call(ctx, wire.NameSynced, &q, &wire.Done{}); err != nil {
		x.failed(ctx, "synced", q.Synced[0].Partition, x.own, err)
	}
}

// giveBack removes a hand-off, unless it has been written to since its peers got it, or the ring is another one by now. The
// peers promise to keep what they have.
func (x *devicePass) giveBack(ctx context.Context, p *replicas) {
	at := p.peers[0].has
	if now, err := x.config.Rings.Intact(x.policy); err != nil || now != x.ring {
		return
	}
	for _, peer := range p.peers {
		if peer.has != at {
			return // the next pass sees what was written meanwhile
		}
	}
	// Before the peers are asked: what is promised after that stands.
	promises, err := x.own.promises(ctx, p.number)
	if err == nil {
		err = x.askToKeep(ctx, p)
	}
	if err == nil {
		err = x.drop(ctx, p, promises)
	}
	if err != nil {
		x.failed(ctx, "give back", p.number, x.own, err)
		return
	}
	x.note(func(report *Report) { report.GivenBack++ })
}

// askToKeep has all peers promise to keep a partition.
func (x *devicePass) askToKeep(ctx context.Context, p *replicas) error {
	for _, peer := range p.peers {
		if peer.bundle == (format.Identity{}) {
			continue // it got nothing, because there is nothing
		}
		if err := peer.hold(ctx, p.number, peer.bundle, x.own, x.ring.Version); err != nil {
			return err
		}
	}
	return nil
}

// drop removes a partition that all peers have promised to keep after those promises were made. They are released, also those
// to devices that are none of the peers: these relied on what the peers keep now. Only a peer without promise is not released.
func (x *devicePass) drop(ctx context.Context, p *replicas, promises []wire.Promise) error {
	q := wire.DropRequest{
		Partition: x.own.partition(p.number), Position: wire.PositionOf(p.peers[0].has), Ring: x.ring.Version,
	}
	silent := map[string]bool{}
	for _, peer := range p.peers {
		silent[peer.String()] = peer.bundle == format.Identity{}
	}
	for _, promise := range promises {
		if !silent[promise.For] {
			q.Released = append(q.Released, promise)
		}
	}
	return x.own.call(ctx, wire.NameDrop, &q, &wire.Done{})
}
