package device

import (
	"fmt"
	"math"
	"slices"

	"martlet/object-server/bundle"
	"martlet/object-server/bundle/format"
)

// SyncedThrough is a position through which a peer is known to have all that the
// partition has: each record up to there, or a newer one of its name. It is zero where
// nothing is known. It may be from before the last one that was set, never later.
func (r Replica) SyncedThrough(peer string) (p bundle.Position, err error) {
	err = r.during(func(b *bundle.Bundle) error {
		p = r.device.synced.of(b, peer)
		return nil
	})
	return p, err
}

// SetSyncedThrough notes that a peer has all that the partition has up to a position
// that Digest, Slices, Elements or Export returned. That digests are equal proves it for
// the zero horizon alone: a later one leaves out tombstones, and a peer that lacks one
// may yet get what it deletes. An earlier position than is known changes nothing. The name of the peer is the caller's, of 1 to PeerMax bytes; a peer that was
// wiped must get another one, so the identity of its bundle belongs in there.
//
// Nothing is noted while the device owes rows, see OweRows.
//
// It survives a crash some seconds later, and a clean stop. A full device, or one on
// which the write fails, tells an error, and may have noted it. Errors beside:
// ErrChanged where the position is not of this bundle, and ErrQuarantined while records
// of unknown names are lost or hidden: should they be read again, the peer may not have
// them.
func (r Replica) SetSyncedThrough(peer string, position bundle.Position) error {
	if len(peer) == 0 || len(peer) > PeerMax {
		return fmt.Errorf("%w: a peer with a name of %d bytes", ErrInvalid, len(peer))
	}
	isThere := false
	err := r.during(func(b *bundle.Bundle) error {
		isThere = true
		now := b.Position()
		if doubt := b.Doubt(); doubt.LSN > 0 {
			return fmt.Errorf("%w: records up to %d are lost", ErrQuarantined, doubt.LSN)
		}
		if b.IsPartial() {
			return fmt.Errorf("%w: digests leave out what damage hides", ErrQuarantined)
		}
		if position.Bundle != now.Bundle || position.LSN > now.LSN {
			return fmt.Errorf("%w: it is at LSN %d of %x", ErrChanged, now.LSN, now.Bundle)
		}
		position.LSN = min(position.LSN, b.Acknowledged()) // LSNs that were only given up may come again
		if position.LSN == 0 || position.Bundle == (format.Identity{}) || r.device.owesRows.Load() {
			return nil
		}
		return r.device.call(func() error { return r.device.synced.set(placeOf(b.ID()), peer, position) })
	})
	if err == nil && !isThere && position != (bundle.Position{}) {
		return fmt.Errorf("%w: it is empty", ErrChanged)
	}
	return err
}

// SetPeers names the peers that have the other replicas of the partition, until the device
// is closed. Compaction drops old tombstones only after this call, and only those that each
// peer has, as SyncedThrough says. What is known of other peers is forgotten.
func (r Replica) SetPeers(peers []string) error {
	return r.during(func(b *bundle.Bundle) error {
		c := &r.device.compactor
		c.mu.Lock()
		c.peers[b.ID()] = peers
		c.mu.Unlock()
		stay := append(slices.Clone(peers), toldPeer, deliveredPeer)
		return r.device.call(func() error { return r.device.synced.keep(placeOf(b.ID()), stay) })
	})
}

// UnsetPeers takes back SetPeers, because it is not known which peers there are. Compaction
// drops no tombstone until the next SetPeers. What is known of peers stays known.
func (r Replica) UnsetPeers() error {
	return r.during(func(b *bundle.Bundle) error {
		r.device.compactor.forget(b.ID())
		return nil
	})
}

// heldByAll is the LSN up to which all replicas of a bundle have what it has.
func (d *Device) heldByAll(b *bundle.Bundle) uint64 {
	d.compactor.mu.Lock()
	peers, ok := d.compactor.peers[b.ID()]
	d.compactor.mu.Unlock()
	if !ok {
		return 0
	}
	through := uint64(math.MaxUint64)
	for _, peer := range peers {
		through = min(through, d.synced.of(b, peer).LSN)
	}
	return through
}
