package server

import (
	"errors"
	"net/http"
	"strconv"
	"time"

	"martlet/object-server/device"
)

// repairer is what is needed of a device here.
type repairer interface {
	Repair(policy int, partition uint32, apply bool) (*device.Repaired, error)
}

// repair repairs one partition, as a POST asks for with device=NAME, policy=N and partition=N; without apply=true it
// only says what is to be done. Requests to that partition wait meanwhile, others do not.
func (s *Server) repair(x *exchange) (any, error) {
	query := x.r.URL.Query()
	name := query.Get("device")
	if !isDeviceName(name) {
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
	found, err := s.devices.acquire(name)
	if err != nil {
		return nil, err
	}
	defer found.release()
	x.extendWriteDeadline(time.Time{}) // the answer may take minutes
	d, ok := found.store.(repairer)
	if !ok {
		return nil, errors.ErrUnsupported
	}
	repaired, err := d.Repair(policy, uint32(partition), query.Get("apply") == "true")
	if err != nil {
		return nil, repairFailure(err)
	}
	return repaired, nil
}

// repairFailure tells the cause, which failureOf would keep from clients: an operator asks.
func repairFailure(err error) *failure {
	f := failureOf(err)
	if errors.Is(err, device.ErrInvalid) {
		f = fail(http.StatusBadRequest, "")
	}
	f.text, f.cause = err.Error(), err
	return f
}
