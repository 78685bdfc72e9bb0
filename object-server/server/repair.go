package server

import (
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"martlet/object-server/device"
	"martlet/object-server/server/devices"
)

// repairer is the part of device.Device that repairs.
type repairer interface {
	Repair(policy int, partition uint32, apply bool) (*device.Repaired, error)
}

// repair handles a POST with device=NAME, policy=N and partition=N: it repairs that partition. Without apply=true it only
// reports what it would do. Requests to that partition wait until it ends, others do not.
func (s *Server) repair(x *exchange) (any, error) {
	query, _ := url.ParseQuery(x.in.Query) // pairs that are malformed are left out
	name := query.Get("device")
	if !devices.IsName(name) {
		return nil, fail(http.StatusBadRequest, "Invalid device name.")
	}
	policy, err := strconv.Atoi(query.Get("policy"))
	if err != nil || !s.config.Policies[policy] {
		return nil, fail(http.StatusBadRequest, "No policy with index %q.", query.Get("policy"))
	}
	partition, err := strconv.ParseUint(query.Get("partition"), 10, 32)
	if err != nil {
		return nil, fail(http.StatusBadRequest, "No partition %q.", query.Get("partition"))
	}
	found, err := s.devices.Acquire(name)
	if err != nil {
		return nil, err
	}
	defer found.Release()
	x.extendWriteDeadline(time.Time{}) // the answer may take minutes
	d, ok := found.Store.(repairer)
	if !ok {
		return nil, errors.ErrUnsupported
	}
	repaired, err := d.Repair(policy, uint32(partition), query.Get("apply") == "true")
	if err != nil {
		return nil, repairFailure(err)
	}
	return repaired, nil
}

// repairFailure shows the cause, which failureOf hides from clients: the caller is an operator.
func repairFailure(err error) *failure {
	f := failureOf(err)
	if errors.Is(err, device.ErrInvalid) {
		f = fail(http.StatusBadRequest, "")
	}
	f.text, f.cause = err.Error(), err
	return f
}

// damagesShown is how many of the newest damages of each device are shown.
const damagesShown = 20

// deviceDamages are the known damages of one device.
type deviceDamages struct {
	Device string          `json:"device"`
	Count  int             `json:"count"`  // all of them
	Newest []device.Damage `json:"newest"` // the newest first
}

// knownDamages lists the damages of the open devices; "bundle damages" lists all.
func (s *Server) knownDamages() []deviceDamages {
	all := []deviceDamages{}
	for _, found := range s.devices.All() {
		d, ok := found.Store.(interface {
			Damages() (all []device.Damage, more int)
		})
		if !ok {
			continue
		}
		known, more := d.Damages()
		one := deviceDamages{Device: found.Name, Count: len(known) + more, Newest: known[max(0, len(known)-damagesShown):]}
		slices.Reverse(one.Newest)
		all = append(all, one)
	}
	slices.SortFunc(all, func(a, b deviceDamages) int { return strings.Compare(a.Device, b.Device) })
	return all
}
