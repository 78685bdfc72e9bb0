package partpower

import (
	"fmt"

	"martlet/object-server/bundle"
	"martlet/object-server/bundle/format"
)

// State says of which part power the partitions of a storage policy are on a
// device: a partition is the first so many bits of a name's hash. Devices that
// were never told have none: where a name lies is then as requests say.
type State struct {
	Power     uint8  // of the partitions below From, of all if Next is 0
	Next      uint8  // Power + 1 while it is being raised, else 0
	Splitting bool   // partitions are being split, from the last to the first
	From      uint64 // partitions of Power from here on have been split
	First     uint8  // what Power was when it was first written down
}

// Max is the highest part power there is.
const Max = 32

// Of is the bundle that a name lies in. Partitions of Power are all below From, those of
// Next at 2 * From or above: no number is in use for both.
func (p State) Of(policy int, hash format.Hash) bundle.ID {
	if partition := hash.Bits(p.Power); !p.hasSplit(partition) {
		return bundle.ID{Policy: policy, Partition: partition, Power: p.Tag(p.Power)}
	}
	return bundle.ID{Policy: policy, Partition: hash.Bits(p.Next), Power: p.Tag(p.Next)}
}

func (p State) hasSplit(partition uint32) bool { return p.Next != 0 && uint64(partition) >= p.From }

// Tag is a power as IDs have it: so those of a device stay as they are when its
// power is first written down.
func (p State) Tag(power uint8) uint8 {
	if power == p.First {
		return 0
	}
	return power
}

// Bundle is what the directory of a partition holds; false if it is what a crash
// has left of a split, or no partition at all.
func (p State) Bundle(policy int, partition uint32) (id bundle.ID, ok bool) {
	n := uint64(partition)
	switch {
	case p.Next == 0 && n < 1<<p.Power || p.Next != 0 && n < p.From:
		return bundle.ID{Policy: policy, Partition: partition, Power: p.Tag(p.Power)}, true
	case p.Next != 0 && n >= 2*p.From && n < 1<<p.Next:
		return bundle.ID{Policy: policy, Partition: partition, Power: p.Tag(p.Next)}, true
	}
	return bundle.ID{}, false
}

// String says it as part of a sentence.
func (p State) String() string {
	switch {
	case p.Next == 0:
		return fmt.Sprintf("that of the device %d", p.Power)
	case p.Splitting:
		return fmt.Sprintf("the device is being split from %d to %d", p.Power, p.Next)
	}
	return fmt.Sprintf("the device is prepared to go from %d to %d", p.Power, p.Next)
}
