package relink

import (
	"errors"
	"log/slog"
	"slices"
	"strconv"

	"martlet/object-server/device"
	"martlet/object-server/ring"
	"martlet/object-server/server/devices"
)

// The steps of a server when the part power is raised, by the names of Swift's relinker.
const (
	StepRelink  = "relink"  // before the ring is raised: be ready for both part powers
	StepCleanup = "cleanup" // after it: split the partitions
)

// Answer is how far the devices are with raising the part power of policies.
type Answer struct {
	Policies int                          `json:"policies"` // number of policies whose rings ask for the step
	Devices  map[string]map[string]Device `json:"devices"`  // by device and policy index; null: no device has learned of one
	Workers  map[string]any               `json:"workers"`  // always null: the workers of Swift's relinker
}

// Device is how far one device is with one policy.
type Device struct {
	PartPower     uint8  `json:"part_power"`
	NextPartPower *uint8 `json:"next_part_power"` // null: the power is not being raised
	IsSplitting   bool   `json:"splitting"`
	PartsDone     int    `json:"parts_done"` // partitions that were split since the device was opened
	PartsLeft     int    `json:"parts_left"` // about; -1: not known
	Error         string `json:"error,omitempty"`
}

// raiser is the part of device.Device that raises the part power.
type raiser interface {
	PrepareIncrease(policy int, power uint8) error
	RaisePartPower(policy int, power uint8) error
	RingPower(policy int, power uint8)
	Progress() map[int]device.SplitProgress
}

// Relinker raises the part power of the devices of one server. Safe for concurrent use.
type Relinker struct {
	rings    ring.Files
	policies map[int]bool // indexes of the storage policies
	devices  *devices.Set
	logger   *slog.Logger
}

// New returns a relinker for rings in swiftDir.
func New(swiftDir string, policies map[int]bool, all *devices.Set, logger *slog.Logger) *Relinker {
	return &Relinker{rings: ring.Files{Directory: swiftDir}, policies: policies, devices: all, logger: logger}
}

// Take takes a step on the devices and policies given; nil means all. The work goes on in the background: Progress
// shows its state.
func (r *Relinker) Take(step string, policies []int, names []string) (*Answer, error) {
	asked := 0
	failed := map[string]map[int]string{}
	if names == nil {
		var err error
		if names, err = r.devices.Names(); err != nil {
			return nil, err
		}
	}
	for policy := range r.policies {
		if policies != nil && !slices.Contains(policies, policy) {
			continue
		}
		current, err := r.rings.Intact(policy)
		if err != nil {
			return nil, err
		}
		if current == nil || current.NextPartPower < 0 || (step == StepCleanup) != (current.NextPartPower == current.PartPower()) {
			continue
		}
		asked++
		for _, name := range names {
			if err := r.take(step, policy, uint8(current.PartPower()), name); err != nil {
				if failed[name] == nil {
					failed[name] = map[int]string{}
				}
				failed[name][policy] = err.Error()
			}
		}
	}
	answer := r.Progress()
	answer.Policies = asked
	for name, causes := range failed {
		for policy, cause := range causes {
			answer.add(name, policy, func(d *Device) { d.Error = cause })
		}
	}
	return answer, nil
}

func (r *Relinker) take(step string, policy int, power uint8, name string) error {
	if !devices.IsName(name) {
		return errors.New("invalid device name")
	}
	found, err := r.devices.Acquire(name)
	if err != nil {
		return err
	}
	defer found.Release()
	d, ok := found.Store.(raiser)
	if !ok {
		return errors.ErrUnsupported
	}
	if step == StepRelink {
		return d.PrepareIncrease(policy, power)
	}
	return d.RaisePartPower(policy, power)
}

// Progress returns the state of all open devices.
func (r *Relinker) Progress() *Answer {
	answer := &Answer{}
	for _, found := range r.devices.All() {
		d, ok := found.Store.(raiser)
		if !ok {
			continue
		}
		for policy, p := range d.Progress() {
			answer.add(found.Name, policy, func(one *Device) {
				one.PartPower, one.IsSplitting, one.PartsDone, one.PartsLeft, one.Error = p.Power, p.Splitting, p.Split, p.Left, p.Error
				if p.Next != 0 {
					one.NextPartPower = &p.Next
				}
				if err := found.Store.Err(); err != nil {
					one.Error = err.Error()
				}
			})
		}
	}
	return answer
}

func (a *Answer) add(name string, policy int, set func(*Device)) {
	if a.Devices == nil {
		a.Devices = map[string]map[string]Device{}
	}
	if a.Devices[name] == nil {
		a.Devices[name] = map[string]Device{}
	}
	one := a.Devices[name][strconv.Itoa(policy)]
	set(&one)
	a.Devices[name][strconv.Itoa(policy)] = one
}

// Prepare makes a device take the steps that the others took while it was away. It is called before the device is used.
func (r *Relinker) Prepare(d *device.Device, path string) {
	known := d.Progress()
	for policy := range r.policies {
		current, err := r.rings.Intact(policy)
		p, isKnown := known[policy]
		switch {
		case err != nil || current == nil:
		case current.NextPartPower < 0:
			d.RingPower(policy, uint8(current.PartPower()))
			if isKnown && int(p.Power)+1 == current.PartPower() { // the device was away until all others were split
				err = d.RaisePartPower(policy, p.Power+1)
			}
		case current.NextPartPower == current.PartPower()+1:
			err = d.PrepareIncrease(policy, uint8(current.PartPower()))
		case !isKnown: // requests already use the new part power
			err = d.RaisePartPower(policy, uint8(current.PartPower()))
		}
		if err != nil {
			r.logger.Error("device is not ready for the next part power", "device", path, "policy", policy, "error", err)
		}
	}
}
