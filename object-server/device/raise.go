package device

import (
	"errors"
	"fmt"

	"martlet/object-server/bundle"
	"martlet/object-server/device/partpower"
)

// ErrPartPower says that the part power of a ring does not go with that of the
// device.
var ErrPartPower = errors.New("device: part power")

// PrepareIncrease tells the device that the part power of a policy will be raised
// by one. From then on it finds what it holds by the names alone, whichever
// partition a request says. Nothing is moved. It may be repeated, and taken back
// with RaisePartPower.
func (d *Device) PrepareIncrease(policy int, power uint8) error {
	if power >= partpower.Max {
		return fmt.Errorf("%w: %d is the highest", ErrPartPower, partpower.Max)
	}
	if err := d.enter(); err != nil {
		return err
	}
	defer d.leave()
	d.splitter.marking.Lock()
	defer d.splitter.marking.Unlock()
	return d.splitter.prepareIncrease(policy, power)
}

// prepareIncrease is PrepareIncrease; marking is held.
func (s *splitter) prepareIncrease(policy int, power uint8) error {
	p, ok := s.power(policy)
	if !ok {
		fits, err := s.fits(policy, power)
		if err != nil {
			return err
		}
		if !fits[0] {
			return s.mismatch(policy, power)
		}
		p = partpower.State{Power: power, First: power}
	}
	switch {
	case p.Power == power && p.Next == power+1:
		return nil
	case p.Power != power || p.Next != 0:
		return fmt.Errorf("%w: the ring is about to go from %d to %d, %s", ErrPartPower, power, power+1, p)
	}
	p.Next, p.From = power+1, 1<<power
	return s.mark(policy, p)
}

// RaisePartPower makes the device be of the part power that the ring now is of: it
// begins to split its partitions, in the background and again after a restart,
// until Progress says that all is done; or it takes back what was prepared, if
// the ring was not raised.
func (d *Device) RaisePartPower(policy int, power uint8) error {
	if err := d.enter(); err != nil {
		return err
	}
	defer d.leave()
	s := &d.splitter
	s.marking.Lock()
	defer s.marking.Unlock()
	p, ok := s.power(policy)
	if !ok {
		var err error
		if p, err = s.guess(policy, power); err != nil {
			return err
		}
	}
	switch {
	case p.Next == power && power > 0:
		p.Splitting = true
	case p.Next == 0 && p.Power+1 == power: // it was not prepared, but it finds everything by the names already
		p.Next, p.From, p.Splitting = power, 1<<p.Power, true
	case p.Power == power && !p.Splitting:
		p.Next, p.From = 0, 0
	default:
		return fmt.Errorf("%w: that of the ring is %d, %s", ErrPartPower, power, p)
	}
	if now, ok := s.power(policy); !ok || now != p {
		if err := s.mark(policy, p); err != nil {
			return err
		}
	}
	s.wakeUp()
	return nil
}

// mark writes a part power down before it counts. marking is held.
func (s *splitter) mark(policy int, p partpower.State) (err error) {
	d := s.device
	if f := s.files[policy]; f != nil {
		if err = f.Write(p); err != nil {
			d.takeOut(err) // a restart may find either
			return err
		}
	} else if s.files[policy], err = partpower.Create(d.fs, d.root, policy, p); err != nil {
		delete(s.files, policy)
		return err
	}
	s.show(policy, p)
	return nil
}

// guess finds out the part power of the partitions of a device that was not
// prepared: the power that the ring has now, or the one before.
func (s *splitter) guess(policy int, power uint8) (partpower.State, error) {
	if power == 0 {
		return partpower.State{}, nil
	}
	fits, err := s.fits(policy, power, power-1)
	switch {
	case err != nil:
		return partpower.State{}, err
	case fits[1]:
		return partpower.State{Power: power - 1, Next: power, From: 1 << (power - 1), First: power - 1}, nil
	case fits[0]:
		return partpower.State{Power: power, First: power}, nil
	}
	return partpower.State{}, s.mismatch(policy, power)
}

func (s *splitter) mismatch(policy int, power uint8) error {
	return fmt.Errorf("%w: that of the ring is %d, but %s holds partitions that are not of it", ErrPartPower, power,
		s.device.pathOf(policy, 0)[:len(s.device.pathOf(policy, 0))-2])
}

// fits tells for each of the powers whether all partitions may be of it, going by
// one record of each.
func (s *splitter) fits(policy int, powers ...uint8) ([]bool, error) {
	all := make([]bool, len(powers))
	for i := range all {
		all[i] = true
	}
	partitions, err := s.device.partitions(policy)
	if err != nil {
		return nil, err
	}
	for _, n := range partitions {
		hash, ok, err := s.device.files.Sample(bundle.ID{Policy: policy, Partition: n})
		if err != nil {
			return nil, err
		}
		for i, power := range powers {
			all[i] = all[i] && (!ok || hash.Bits(power) == n)
		}
	}
	return all, nil
}
