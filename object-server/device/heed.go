package device

import (
	"errors"
	"fmt"

	"martlet/object-server/device/partpower"
)

// RingPower says of which part power the ring of a policy was when the device was
// opened. A request that is of the next one then tells a device that was not
// prepared that the ring was raised. Otherwise its objects would not be found,
// and new names would get among those of other partitions, from which no split
// could part them.
func (d *Device) RingPower(policy int, power uint8) { d.splitter.expected.Store(policy, power) }

// IsOfPower is nil if partitions of a policy are of a part power, as far as is known.
// ErrPartPower if they are of another one, or some are not of it yet.
func (d *Device) IsOfPower(policy int, power uint8) error {
	s := &d.splitter
	if p, isTold := s.power(policy); isTold {
		if p.Power != power || p.Next != 0 {
			return fmt.Errorf("%w: the ring is of %d, %s", ErrPartPower, power, p)
		}
		return nil
	}
	if expected, ok := s.expected.Load(policy); ok && expected.(uint8) != power {
		return fmt.Errorf("%w: the ring is of %d, that of the device was of %d", ErrPartPower, power, expected)
	}
	return nil
}

// heed prepares a device that was not told of a raised part power before a request
// is of the new one.
func (s *splitter) heed(at Location) error {
	if _, isTold := s.power(at.Policy); isTold {
		return nil
	}
	expected, ok := s.expected.Load(at.Policy)
	if !ok {
		return nil
	}
	power := expected.(uint8)
	if power >= partpower.Max || at.Hash.Bits(power) == at.Partition || at.Hash.Bits(power+1) != at.Partition {
		return nil
	}
	s.marking.Lock()
	defer s.marking.Unlock()
	if _, isTold := s.power(at.Policy); isTold {
		return nil
	}
	log := s.device.options.Logger.With("device", s.device.root, "policy", at.Policy, "part_power", power+1)
	log.Warn("requests are of a raised part power that relink has not prepared the device for; it prepares itself")
	err := s.prepareIncrease(at.Policy, power)
	if errors.Is(err, ErrPartPower) { // where a name lies is as requests say, as before
		log.Error("the device is not ready for the next part power", "error", err)
		s.expected.Delete(at.Policy)
		return nil
	}
	return err
}
