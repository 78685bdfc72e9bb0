package server

import (
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	"martlet/object-server/device"
	"martlet/object-server/ring"
)

// The steps of raising the part power that servers take, by the names that Swift's relinker has for them.
const (
	StepRelink  = "relink"  // before the ring is raised: be ready for both part powers
	StepCleanup = "cleanup" // after it: be of the new one
)

// RelinkAnswer tells how far the part power of policies has been raised on devices.
type RelinkAnswer struct {
	Policies int                                `json:"policies"` // whose rings ask for the step
	Devices  map[string]map[string]RelinkDevice `json:"devices"`  // by device and policy index; null: none was ever told
	Workers  map[string]any                     `json:"workers"`  // null: Swift's relinker has some
}

// RelinkDevice tells it of one policy on one device.
type RelinkDevice struct {
	PartPower     uint8  `json:"part_power"`
	NextPartPower *uint8 `json:"next_part_power"` // null: it is not being raised
	IsSplitting   bool   `json:"splitting"`
	PartsDone     int    `json:"parts_done"` // partitions that were split since the device was opened
	PartsLeft     int    `json:"parts_left"` // about; -1: not known
	Error         string `json:"error,omitempty"`
}

// raiser is what is needed of a device here.
type raiser interface {
	PrepareIncrease(policy int, power uint8) error
	RaisePartPower(policy int, power uint8) error
	RingPower(policy int, power uint8)
	Progress() map[int]device.SplitProgress
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

// Relink takes a step on the devices named, of the policies given; nil stands for all. What it begins goes on in the
// background: Relinked tells how far it is.
func (s *Server) Relink(step string, policies []int, names []string) (*RelinkAnswer, error) {
	asked := 0
	failed := map[string]map[int]string{}
	if names == nil {
		var err error
		if names, err = s.devices.present(); err != nil {
			return nil, err
		}
	}
	for policy := range s.config.Policies {
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
			if err := s.relinkDevice(step, policy, uint8(r.PartPower()), name); err != nil {
				if failed[name] == nil {
					failed[name] = map[int]string{}
				}
				failed[name][policy] = err.Error()
			}
		}
	}
	answer := s.Relinked()
	answer.Policies = asked
	for name, causes := range failed {
		for policy, cause := range causes {
			answer.add(name, policy, func(d *RelinkDevice) { d.Error = cause })
		}
	}
	return answer, nil
}

func (s *Server) relinkDevice(step string, policy int, power uint8, name string) error {
	if !isDeviceName(name) {
		return fail(http.StatusBadRequest, "Invalid device name.")
	}
	found, err := s.devices.acquire(name)
	if err != nil {
		return err
	}
	defer found.release()
	d, ok := found.store.(raiser)
	if !ok {
		return errors.ErrUnsupported
	}
	if step == StepRelink {
		return d.PrepareIncrease(policy, power)
	}
	return d.RaisePartPower(policy, power)
}

// Relinked tells how far all open devices are.
func (s *Server) Relinked() *RelinkAnswer {
	answer := &RelinkAnswer{}
	for _, found := range s.devices.all() {
		d, ok := found.store.(raiser)
		if !ok {
			continue
		}
		for policy, p := range d.Progress() {
			answer.add(found.name, policy, func(one *RelinkDevice) {
				one.PartPower, one.IsSplitting, one.PartsDone, one.PartsLeft, one.Error = p.Power, p.Splitting, p.Split, p.Left, p.Error
				if p.Next != 0 {
					one.NextPartPower = &p.Next
				}
				if err := found.store.Err(); err != nil {
					one.Error = err.Error()
				}
			})
		}
	}
	return answer
}

func (a *RelinkAnswer) add(name string, policy int, set func(*RelinkDevice)) {
	if a.Devices == nil {
		a.Devices = map[string]map[string]RelinkDevice{}
	}
	if a.Devices[name] == nil {
		a.Devices[name] = map[string]RelinkDevice{}
	}
	one := a.Devices[name][strconv.Itoa(policy)]
	set(&one)
	a.Devices[name][strconv.Itoa(policy)] = one
}

// takeStep takes the step of a POST: ?step=relink or cleanup, and any number of policy=N and device=NAME.
func (s *Server) takeStep(x *exchange) (any, error) {
	query := x.r.URL.Query()
	step := query.Get("step")
	if step != StepRelink && step != StepCleanup {
		return nil, fail(http.StatusBadRequest, "The step is neither relink nor cleanup.")
	}
	var policies []int
	for _, value := range query["policy"] {
		policy, err := strconv.Atoi(value)
		if err != nil || !s.config.Policies[policy] {
			return nil, fail(http.StatusBadRequest, "No policy with index %q.", value)
		}
		policies = append(policies, policy)
	}
	return s.Relink(step, policies, query["device"])
}

// prepare makes a device take the steps that the others took while it was not there.
func (s *Server) prepare(d raiser, path string) {
	known := d.Progress()
	for policy := range s.config.Policies {
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
