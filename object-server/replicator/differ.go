package replicator

import (
	"context"
	"errors"

	"martlet/object-server/bundle/format"
	"martlet/object-server/bundle/sethash"
	"martlet/object-server/grid"
	"martlet/object-server/replicator/wire"
)

const (
	// namesInSlice is how many names a slice has, about: so many elements are compared where one name differs.
	namesInSlice = 256
	// slicesBitsMax bounds the slices of a partition to the number that a message can have.
	slicesBitsMax = 14
)

// comparison finds the names of which two replicas of a partition have different elements.
type comparison struct {
	from, to  *remote
	partition uint32
	horizon   uint64
	level     uint8 // of the slices
	most      int   // elements that are compared at once

	ours, theirs map[format.Hash]bool // names of which from has an element that to lacks, and the other way round
	isPartial    bool                 // damage hides names of to
}

// slice is one that differs, and about how many elements it has.
type slice struct {
	prefix   uint32
	elements uint64
}

// names returns the names of which two replicas have different elements.
func (r *Replicator) names(ctx context.Context, from, to *remote, partition uint32, own, other *wire.State, power int) ([]byte, error) {
	c, err := r.differences(ctx, from, to, partition, own, other, power)
	if err != nil {
		return nil, err
	}
	return appendNames(appendNames(nil, c.ours), c.theirs), nil
}

// appendNames appends those names that are not there yet.
func appendNames(to []byte, names map[format.Hash]bool) []byte {
	known, err := wire.ParseHashes(to)
	for hash := range names {
		if err == nil && !known[hash] {
			to = wire.AppendHash(to, hash)
		}
	}
	return to
}

// differences compares the elements of two replicas.
func (r *Replicator) differences(ctx context.Context, from, to *remote, partition uint32, own, other *wire.State, power int) (*comparison, error) {
	c := &comparison{
		from: from, to: to, partition: partition, horizon: max(own.Horizon, other.Horizon), level: uint8(power),
		most: r.elementsAtOnce, ours: map[format.Hash]bool{}, theirs: map[format.Hash]bool{},
	}
	for n := max(elementsIn(&own.Digest), elementsIn(&other.Digest)); n > namesInSlice && c.level < sethash.LevelMax &&
		int(c.level) < power+slicesBitsMax; n /= 2 {
		c.level++
	}
	different, err := c.slices(ctx, power)
	if err == nil {
		err = c.compare(ctx, different, uint8(power), partition)
	}
	return c, err
}

func elementsIn(d *sethash.Digest) uint64 { return d.Versions.Count + d.Tombstones.Count }

// slices lists the slices that differ, in ascending order.
func (c *comparison) slices(ctx context.Context, power int) (different []slice, err error) {
	ours, err := c.from.slices(ctx, c.partition, power, c.level, c.horizon)
	if err != nil {
		return nil, err
	}
	theirs, err := c.to.slices(ctx, c.partition, power, c.level, c.horizon)
	if err != nil {
		return nil, err
	}
	for len(ours)+len(theirs) > 0 {
		switch {
		case len(theirs) == 0 || len(ours) > 0 && ours[0].Prefix < theirs[0].Prefix:
			different = append(different, slice{ours[0].Prefix, elementsIn(&ours[0].Digest)})
			ours = ours[1:]
		case len(ours) == 0 || theirs[0].Prefix < ours[0].Prefix: // what only the peer has may have been removed here
			different = append(different, slice{theirs[0].Prefix, elementsIn(&theirs[0].Digest)})
			theirs = theirs[1:]
		default:
			if ours[0].Digest != theirs[0].Digest {
				different = append(different, slice{ours[0].Prefix, max(elementsIn(&ours[0].Digest), elementsIn(&theirs[0].Digest))})
			}
			ours, theirs = ours[1:], theirs[1:]
		}
	}
	return different, nil
}

// compare compares the elements of slices, all of which are in the slice of a level and a prefix. One that differs alone is
// compared alone; several near each other together, as far as an answer has room for all elements around them.
func (c *comparison) compare(ctx context.Context, different []slice, level uint8, prefix uint32) error {
	if len(different) == 0 {
		return nil
	}
	if len(different) == 1 {
		return c.compareIn(ctx, c.level, different[0].prefix)
	}
	total := uint64(0)
	for _, s := range different {
		total += s.elements
	}
	inAll := max(total, uint64(namesInSlice)<<(c.level-level)) // equal slices between them have elements as well
	if inAll <= uint64(c.most) {
		return c.compareIn(ctx, level, prefix)
	}
	level++
	middle := 0
	for middle < len(different) && different[middle].prefix>>(c.level-level)&1 == 0 {
		middle++
	}
	if err := c.compare(ctx, different[:middle], level, prefix<<1); err != nil {
		return err
	}
	return c.compare(ctx, different[middle:], level, prefix<<1|1)
}

// compareIn notes the names that differ in one slice. It halves the slice if an answer has no room for its elements: there
// may be any number of tombstones from before the horizon, which no digest counts.
func (c *comparison) compareIn(ctx context.Context, level uint8, prefix uint32) error {
	var theirs map[sethash.Element]bool
	var isPartial bool
	ours, _, err := c.from.elements(ctx, c.partition, level, prefix, c.horizon)
	if err == nil {
		theirs, isPartial, err = c.to.elements(ctx, c.partition, level, prefix, c.horizon)
	}
	var refused *grid.Error
	if errors.As(err, &refused) && refused.Code == grid.CodeTooLarge && level < sethash.LevelMax {
		if err = c.compareIn(ctx, level+1, prefix<<1); err == nil {
			err = c.compareIn(ctx, level+1, prefix<<1|1)
		}
		return err
	}
	if err != nil {
		return err
	}
	c.isPartial = c.isPartial || isPartial
	for e := range ours {
		if !theirs[e] {
			c.ours[e.Hash] = true
		}
	}
	for e := range theirs {
		if !ours[e] {
			c.theirs[e.Hash] = true
		}
	}
	return nil
}
