package server

import (
	"errors"
	"net/http"
	"sync"

	"martlet/object-server/bundle/format"
	"martlet/object-server/device"
	"martlet/object-server/server/devices"
	"martlet/object-server/server/message"
)

// conditionLocks let one conditional write of a name compare and write before the next one compares. Names of a device share
// locks, devices share none: a disk that hangs delays no other. Writes without a condition take none: they are ordered by
// their timestamps alone.
type conditionLocks struct {
	devices sync.Map // of names, to *[256]sync.Mutex
}

func (l *conditionLocks) of(device string, hash format.Hash) *sync.Mutex {
	locks, isKnown := l.devices.Load(device)
	if !isKnown {
		locks, _ = l.devices.LoadOrStore(device, &[256]sync.Mutex{})
	}
	return &locks.(*[256]sync.Mutex)[hash[len(hash)-1]]
}

var errCondition = errors.New("records were lost, so a condition cannot be compared")

// isConditionalWrite reports whether a PUT or DELETE depends on what is stored.
func (x *exchange) isConditionalWrite() bool {
	return x.header(message.IfTimestamp) != "" || x.in.Method == http.MethodPut && x.header(message.IfNoneMatch) != ""
}

// underCondition calls write. If the request has a condition, it compares what is stored first, and no other conditional
// write of the name comes between.
func (s *Server) underCondition(x *exchange, from devices.Store, timestamp format.Timestamp, write func() error) error {
	if !x.isConditionalWrite() {
		return write()
	}
	lock := s.conditions.of(x.in.Device, x.at.Hash)
	lock.Lock()
	defer lock.Unlock()
	if err := s.checkStored(x, from, timestamp); err != nil {
		return err
	}
	return write()
}

// checkIfTimestamp compares the timestamp of the current object with X-Backend-If-Timestamp; m is nil if there is none.
func checkIfTimestamp(x *exchange, m *format.Metadata, since format.Timestamp) error {
	value := x.header(message.IfTimestamp)
	if value == "" {
		return nil
	}
	wanted, err := format.ParseTimestamp(value)
	if err != nil {
		return fail(http.StatusBadRequest, "Bad X-Backend-If-Timestamp header value")
	}
	if m == nil {
		return unmet()
	}
	if since.IsZero() {
		since = m.Timestamp
	}
	if since != wanted {
		return unmet()
	}
	if m.Doubtful {
		return &device.DoubtError{Timestamp: since, Cause: errCondition}
	}
	return nil
}

// unlessExpired is m, nil if it has expired.
func unlessExpired(m *format.Metadata, now format.Timestamp) *format.Metadata {
	if isExpired(m, now) {
		return nil
	}
	return m
}

func unmet() error {
	return fail(http.StatusPreconditionFailed, "A precondition for this request was not met.")
}
