package relink

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	"martlet/object-server/device"
	"martlet/object-server/ring"
	"martlet/object-server/server/devices"
)

// The steps of raising the part power that servers take, by the names that Swift's relinker has for them.
const (
	StepRelink  = "relink"  // before the ring is raised: be ready for both part powers
	StepCleanup = "cleanup" // after it: be of the new one
)

// Answer is how far the devices are with raising the part power of policies.
type Answer struct {
	Policies int                          `json:"policies"` // whose rings ask for the step
	Devices  map[string]map[string]Device `json:"devices"`  // by device and policy index; null: no device has learned of one
	Workers  map[string]any               `json:"workers"`  // always null: the workers of Swift's relinker
}

// Device is how far one device is with one policy.
type Device struct {
	PartPower     uint8  `json:"part_power"`
	NextPartPower *uint8 `json:"next_part_power"` // null: it is not being raised
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
	rings    rings
	policies map[int]bool // indexes of the storage policies
	devices  *devices.Set
	logger   *slog.Logger
}

// New returns a relinker for rings in swiftDir.
func New(swiftDir string, policies map[int]bool, all *devices.Set, logger *slog.Logger) *Relinker {
	return &Relinker{rings: rings{directory: swiftDir}, policies: policies, devices: all, logger: logger}
}

// rings keeps the object rings that were read last.
type rings struct {
	directory string
	mu        sync.Mutex
	read      map[int]readRing // guarded by mu
}

type readRing struct {
	*ring.Ring
	modified time.Time
	size     int64
}

// load reads the ring of a policy unless it is as it was; nil if there is none.
func (r *rings) load(policy int) (*ring.Ring, error) {
	name := "object.ring.gz"
	if policy > 0 {
		name = fmt.Sprintf("object-%d.ring.gz", policy)
	}
	path := filepath.Join(r.directory, name)
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if known, ok := r.read[policy]; ok && known.modified.Equal(info.ModTime()) && known.size == info.Size() {
		return known.Ring, nil
	}
	loaded, err := ring.Load(path)
	if err != nil {
		return nil, err
	}
	if r.read == nil {
		r.read = map[int]readRing{}
	}
	r.read[policy] = readRing{loaded, info.ModTime(), info.Size()}
	return loaded, nil
}

// Take takes a step on the devices named, of the policies given; nil stands for all. What it begins goes on in the
// background: Progress tells how far it is.
func (s *Relinker) Take(step string, policies []int, names []string) (*Answer, error) {
	asked := 0
	failed := map[string]map[int]string{}
	if names == nil {
		var err error
		if names, err = s.devices.Names(); err != nil {
			return nil, err
		}
	}
	for policy := range s.policies {
		if policies != nil && !slices.Contains(policies, policy) {
			continue
		}
		r, err := s.rings.load(policy)
		if err != nil {
			return nil, err
		}
		if r == nil || r.NextPartPower < 0 || (step == StepCleanup) != (r.NextPartPower == r.PartPower()) {
			continue
		}
		asked++
		for _, name := range names {
			if err := s.take(step, policy, uint8(r.PartPower()), name); err != nil {
				if failed[name] == nil {
					failed[name] = map[int]string{}
				}
				failed[name][policy] = err.Error()
			}
		}
	}
	answer := s.Progress()
	answer.Policies = asked
	for name, causes := range failed {
		for policy, cause := range causes {
			answer.add(name, policy, func(d *Device) { d.Error = cause })
		}
	}
	return answer, nil
}

func (s *Relinker) take(step string, policy int, power uint8, name string) error {
	if !devices.IsName(name) {
		return errors.New("invalid device name")
	}
	found, err := s.devices.Acquire(name)
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

// Progress tells how far all open devices are.
func (s *Relinker) Progress() *Answer {
	answer := &Answer{}
	for _, found := range s.devices.All() {
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
func (s *Relinker) Prepare(d *device.Device, path string) {
	known := d.Progress()
	for policy := range s.policies {
		r, err := s.rings.load(policy)
		p, isKnown := known[policy]
		switch {
		case err != nil || r == nil:
		case r.NextPartPower < 0:
			d.RingPower(policy, uint8(r.PartPower()))
			if isKnown && int(p.Power)+1 == r.PartPower() { // it was away until all others were split
				err = d.RaisePartPower(policy, p.Power+1)
			}
		case r.NextPartPower == r.PartPower()+1:
			err = d.PrepareIncrease(policy, uint8(r.PartPower()))
		case !isKnown: // requests are of the new one already
			err = d.RaisePartPower(policy, uint8(r.PartPower()))
		}
		if err != nil {
			s.logger.Error("device is not ready for the next part power", "device", path, "policy", policy, "error", err)
		}
	}
}
