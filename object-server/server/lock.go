package server

import (
	"net/http"
	"strings"
	"time"

	"martlet/object-server/bundle/format"
	"martlet/object-server/device"
	"martlet/object-server/server/devices"
	"martlet/object-server/server/message"
)

// Modes of retention. With lockNone a POST ends the retention.
const (
	lockGovernance = "GOVERNANCE"
	lockCompliance = "COMPLIANCE"
	lockNone       = "NONE"
)

// lockedHeader says that a refusal is due to a lock; the proxy trusts one replica that knows it.
const lockedHeader = "X-Backend-Locked"

func lockedFailure() *failure {
	return fail(http.StatusForbidden, "The object is locked.").with(lockedHeader, "true")
}

// ticksNow is the time by the clock of this host.
func ticksNow() uint64 { return uint64(max(time.Now().UnixMicro()/10, 0)) }

// isProtected reports whether a lock forbids a removal at a time. It holds as long as one of two clocks is before its end:
// that of this host and that of the request.
func isProtected(l *format.Lock, timestamp format.Timestamp, bypass bool) bool {
	return l.Protects(min(ticksNow(), timestamp.Ticks), bypass)
}

// checkUnlocked refuses the removal of a locked version.
func checkUnlocked(m *format.Metadata, timestamp format.Timestamp, bypass bool) error {
	if isProtected(m.Lock, timestamp, bypass) {
		return device.ErrLocked
	}
	return nil
}

// refuseLocked refuses the removal of a locked version before anything is hidden for it.
func (x *exchange) refuseLocked(at devices.Store, id format.VersionID, timestamp format.Timestamp) error {
	m, err := headVersion(at, x.at, id)
	if err != nil { // the removal itself tells
		return nil
	}
	return checkUnlocked(m, timestamp, x.flag(message.LockBypass))
}

// removeAs removes a version, in spite of governance if the request may bypass it.
func (x *exchange) removeAs(at devices.Store, id format.VersionID, timestamp format.Timestamp) (device.State, error) {
	if x.flag(message.LockBypass) {
		return at.BypassVersion(x.at, id, timestamp, x.name())
	}
	return at.DeleteVersion(x.at, id, timestamp, x.name())
}

// lockChange is what a request asks for.
type lockChange struct {
	mode      string // empty: the retention stays
	until     uint64 // ticks
	hold      string // "on", "off"; empty: it stays
	bypass    bool
	timestamp format.Timestamp
}

// readLock reads the headers of a lock.
func (x *exchange) readLock(timestamp format.Timestamp) (lockChange, error) {
	c := lockChange{
		mode: x.header(message.LockMode), hold: strings.ToLower(x.header(message.LockHold)),
		bypass: x.flag(message.LockBypass), timestamp: timestamp,
	}
	switch c.mode {
	case "", lockNone:
	case lockGovernance, lockCompliance:
		until, err := format.ParseTimestamp(x.header(message.LockUntil))
		if err != nil || until.Ticks == 0 {
			return c, fail(http.StatusBadRequest, "Invalid %s header.", message.LockUntil.Name())
		}
		c.until = until.Ticks
	default:
		return c, fail(http.StatusBadRequest, "Invalid %s header.", message.LockMode.Name())
	}
	if c.hold != "" && c.hold != "on" && c.hold != "off" {
		return c, fail(http.StatusBadRequest, "Invalid %s header.", message.LockHold.Name())
	}
	return c, nil
}

// newLock is the lock of a new version; nil without one.
func (x *exchange) newLock(timestamp format.Timestamp) (*format.Lock, error) {
	c, err := x.readLock(timestamp)
	if err != nil || c.mode == "" && c.hold == "" {
		return nil, err
	}
	lock := new(format.Lock)
	c.set(lock)
	return lock, nil
}

// set makes the change.
func (c *lockChange) set(lock *format.Lock) {
	switch c.mode {
	case lockCompliance:
		lock.Compliance = max(lock.Compliance, c.until)
		lock.Governance, lock.Governed = 0, c.timestamp
	case lockGovernance:
		lock.Governance, lock.Governed = c.until, c.timestamp
	case lockNone:
		lock.Governance, lock.Governed = 0, c.timestamp
	}
	if c.hold != "" {
		lock.Hold, lock.Held = c.hold == "on", c.timestamp
	}
}

// apply changes the lock of m under the object's lock; an error leaves it as it is.
func (c *lockChange) apply(m *format.Metadata) error {
	var lock format.Lock
	if m.Lock != nil {
		lock = *m.Lock
	}
	isLate := c.mode != "" && c.timestamp.Compare(lock.Governed) < 0 || c.hold != "" && c.timestamp.Compare(lock.Held) < 0
	if isLate {
		return fail(http.StatusConflict, "The lock was changed later.").with(timestampHeader, max(lock.Governed.String(), lock.Held.String()))
	}
	if c.mode != "" && !c.isAllowed(&lock) {
		return device.ErrLocked
	}
	c.set(&lock)
	m.Lock = &lock
	return nil
}

// isAllowed reports whether the retention may become what the request asks for. It may always get longer. While it lasts,
// only a bypass makes one of governance shorter or changes its mode, and nothing one of compliance.
func (c *lockChange) isAllowed(lock *format.Lock) bool {
	retention := format.Lock{Compliance: lock.Compliance}
	if isProtected(&retention, c.timestamp, false) {
		return c.mode == lockCompliance && c.until >= lock.Compliance
	}
	retention = format.Lock{Governance: lock.Governance}
	if isProtected(&retention, c.timestamp, c.bypass) {
		return c.mode == lockGovernance && c.until >= lock.Governance
	}
	return true
}

// postLock answers a POST that changes the lock of a version: 202, 400, 403, 404, 409, 503 or 507.
func (s *Server) postLock(x *exchange) error {
	timestamp, err := x.timestamp()
	if err != nil {
		return err
	}
	change, err := x.readLock(timestamp)
	if err != nil {
		return err
	}
	id, _, err := x.version()
	if err != nil {
		return err
	}
	mount, err := s.devices.Acquire(x.in.Device)
	if err != nil {
		return err
	}
	defer mount.Release()
	var after *format.Lock
	edit := func(m *format.Metadata) error {
		if m.Name != x.name() {
			return fail(http.StatusForbidden, "Another object has the same hash.")
		}
		err := change.apply(m)
		after = m.Lock
		return err
	}
	_, err = postRequested(x, mount.Store, edit)
	if isAlias(mount.Store, x.at, id, err) {
		err = mount.Store.PostVersion(x.at, format.VersionID{}, edit)
	}
	if err != nil {
		return err
	}
	x.describeLock(after)
	x.answerEmpty(http.StatusAccepted)
	return nil
}

// describeLock sets the headers of an answer about a lock.
func (x *exchange) describeLock(lock *format.Lock) {
	if lock == nil {
		return
	}
	now := ticksNow()
	mode, until := lockCompliance, lock.Compliance
	isOver := lock.Compliance <= now && lock.Governance > lock.Compliance
	if lock.Compliance == 0 || isOver {
		mode, until = lockGovernance, lock.Governance
	}
	if until > 0 {
		x.set(message.LockMode.Name(), mode)
		x.set(message.LockUntil.Name(), format.Timestamp{Ticks: until}.Normal())
	}
	if !lock.Held.IsZero() {
		hold := "off"
		if lock.Hold {
			hold = "on"
		}
		x.set(message.LockHold.Name(), hold)
	}
}
