package replicator

import (
	"context"
	"fmt"

	"martlet/object-server/bundle/format"
	"martlet/object-server/bundle/sethash"
	"martlet/object-server/replicator/wire"
)

// namesInSlice is how many names a slice has, about: so many elements are compared where one name differs.
const namesInSlice = 256

// agreement says how two replicas of a partition compare.
type agreement int

const (
	unknown agreement = iota // damage keeps one of them from being known
	differ
	agree     // except for tombstones from before their horizons
	identical // tombstones as well
)

// compare compares replicas of which the states are without a horizon. The states become those of the later horizon, if
// they differ without one.
func (r *Replicator) compare(ctx context.Context, from, to *remote, partition uint32, own, other *wire.State) (agreement, error) {
	horizon := max(own.Horizon, other.Horizon)
	switch {
	case !own.IsKnown || !other.IsKnown:
		return unknown, nil
	case own.Digest == other.Digest:
		return identical, nil
	case horizon == 0:
		return differ, nil
	}
	var err error
	if *own, err = from.state(ctx, partition, horizon); err != nil {
		return unknown, err
	}
	if *other, err = to.state(ctx, partition, horizon); err != nil {
		return unknown, err
	}
	switch {
	case !own.IsKnown || !other.IsKnown:
		return unknown, nil
	case own.Digest == other.Digest && max(own.Horizon, other.Horizon) == horizon:
		return agree, nil
	}
	return differ, nil
}

// names returns the names of which two replicas have different elements.
func (r *Replicator) names(ctx context.Context, from, to *remote, partition uint32, own, other *wire.State, power int) (
	hashes []byte, err error,
) {
	horizon := max(own.Horizon, other.Horizon)
	level := uint8(power)
	for n := own.Digest.Versions.Count + own.Digest.Tombstones.Count; n > namesInSlice && level < sethash.LevelMax &&
		int(level) < power+slicesBitsMax; n /= 2 {
		level++
	}
	ours, err := from.slices(ctx, partition, power, level, horizon)
	if err != nil {
		return nil, err
	}
	theirs, err := to.slices(ctx, partition, power, level, horizon)
	if err != nil {
		return nil, err
	}
	for prefix, digest := range ours {
		if theirs[prefix] == digest {
			delete(theirs, prefix)
			continue
		}
		if hashes, err = r.namesIn(ctx, hashes, from, to, partition, level, prefix, horizon); err != nil {
			return nil, err
		}
		delete(theirs, prefix)
	}
	for prefix := range theirs { // what only the peer has may have been removed here
		if hashes, err = r.namesIn(ctx, hashes, from, to, partition, level, prefix, horizon); err != nil {
			return nil, err
		}
	}
	return hashes, nil
}

// slicesBitsMax bounds the slices of a partition to the number that a message can have.
const slicesBitsMax = 14

func (r *Replicator) namesIn(
	ctx context.Context, hashes []byte, from, to *remote, partition uint32, level uint8, prefix uint32, horizon uint64,
) ([]byte, error) {
	ours, err := from.elements(ctx, partition, level, prefix, horizon)
	if err != nil {
		return nil, err
	}
	theirs, err := to.elements(ctx, partition, level, prefix, horizon)
	if err != nil {
		return nil, err
	}
	found := map[format.Hash]bool{}
	add := func(hash format.Hash) {
		if !found[hash] {
			found[hash] = true
			hashes = wire.AppendHash(hashes, hash)
		}
	}
	for e := range ours {
		if !theirs[e] {
			add(e.Hash)
		}
	}
	for e := range theirs {
		if !ours[e] {
			add(e.Hash)
		}
	}
	return hashes, nil
}

// slices returns the digests of the slices of a partition, by prefix.
func (s *remote) slices(ctx context.Context, partition uint32, power int, level uint8, horizon uint64) (map[uint32]sethash.Digest, error) {
	q := wire.SlicesRequest{
		Partition: s.partition(partition), Above: uint8(power), Prefix: partition, Level: level, Horizon: horizon,
	}
	var a wire.Slices
	if err := s.call(ctx, wire.NameSlices, &q, &a); err != nil {
		return nil, err
	}
	found, err := sethash.ParseSlices(a.Slices, level)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s, err)
	}
	all := make(map[uint32]sethash.Digest, len(found))
	for i := range found {
		all[found[i].Prefix] = found[i].Digest
	}
	return all, nil
}

// elements returns the elements of a slice, without tombstones from before the horizon.
func (s *remote) elements(ctx context.Context, partition uint32, level uint8, prefix uint32, horizon uint64) (map[sethash.Element]bool, error) {
	var a wire.Elements
	q := wire.ElementsRequest{Partition: s.partition(partition), Level: level, Prefix: prefix}
	if err := s.call(ctx, wire.NameElements, &q, &a); err != nil {
		return nil, err
	}
	found, err := wire.ParseElements(a.Elements)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s, err)
	}
	all := make(map[sethash.Element]bool, len(found))
	for _, e := range found {
		if e.Deleted == 0 || e.Deleted >= horizon {
			all[e] = true
		}
	}
	return all, nil
}
