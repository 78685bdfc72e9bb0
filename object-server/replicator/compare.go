package replicator

import (
	"context"
	"fmt"

	"martlet/object-server/bundle/sethash"
	"martlet/object-server/replicator/wire"
)

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

// slices returns the digests of the slices of a partition, in ascending order of their prefixes.
func (s *remote) slices(ctx context.Context, partition uint32, power int, level uint8, horizon uint64) ([]sethash.Slice, error) {
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
	for i := range found {
		if found[i].Prefix>>(level-uint8(power)) != partition {
			return nil, fmt.Errorf("%s: %w: slice %#x of level %d is not of partition %d", s, wire.ErrMalformed, found[i].Prefix, level, partition)
		}
	}
	return found, nil
}

// elements returns the elements of a slice, without tombstones from before the horizon, and whether damage hides some.
func (s *remote) elements(ctx context.Context, partition uint32, level uint8, prefix uint32, horizon uint64) (all map[sethash.Element]bool, isPartial bool, err error) {
	var a wire.Elements
	q := wire.ElementsRequest{Partition: s.partition(partition), Level: level, Prefix: prefix}
	if err := s.call(ctx, wire.NameElements, &q, &a); err != nil {
		return nil, false, err
	}
	found, err := wire.ParseElements(a.Elements)
	if err != nil {
		return nil, false, fmt.Errorf("%s: %w", s, err)
	}
	all = make(map[sethash.Element]bool, len(found))
	for _, e := range found {
		if e.Deleted == 0 || e.Deleted >= horizon {
			all[e] = true
		}
	}
	return all, a.IsPartial, nil
}
