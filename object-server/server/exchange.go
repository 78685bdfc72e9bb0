package server

import (
	"errors"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"martlet/object-server/bundle/format"
	"martlet/object-server/device"
	"martlet/object-server/server/devices"
	"martlet/object-server/server/message"
	"martlet/object-server/server/option"
)

// exchange is one request and its answer.
type exchange struct {
	in       message.Request
	out      message.Answer
	carrier  carrier
	received time.Time

	at device.Location // from the path and X-Backend-Storage-Policy-Index

	since      format.Timestamp // when the version became current, if that is not its own timestamp
	status     int              // 0 until answered
	bytesIn    int64            // of the body
	bytesOut   int64
	updateWait time.Duration // for container servers
	cause      error         // to be logged
}

// name is "/account/container/object".
func (x *exchange) name() string { return x.in.Name }

// header returns the first value of a request header, "" if absent.
func (x *exchange) header(f message.Field) string { return x.in.Get(f) }

// flag reports whether a header has one of Swift's words for yes.
func (x *exchange) flag(f message.Field) bool { return option.IsTrue(x.in.Get(f)) }

// opensExpired reports whether the request may see an expired object.
func (x *exchange) opensExpired() bool {
	return x.flag(message.Replication) || x.flag(message.OpenExpired)
}

// elapsed is the time since the head of the request had come.
func (x *exchange) elapsed() time.Duration { return time.Since(x.received) }

// parsePath checks /device/partition/account/container/object and finds the object's location. It refuses a part that
// could lead elsewhere in the file system, or that no proxy sends.
func (s *Server) parsePath(x *exchange) error {
	if x.in.IsMalformed {
		return fail(http.StatusBadRequest, "The path is malformed.")
	}
	if !utf8.ValidString(x.in.Path) || !utf8.ValidString(x.in.Name) {
		return fail(http.StatusPreconditionFailed, "The path is not UTF-8.")
	}
	if x.in.Object == "" || x.in.Container == "" || x.in.Account == "" {
		return fail(http.StatusBadRequest, "The path is not /device/partition/account/container/object.")
	}
	if !devices.IsName(x.in.Device) {
		return fail(http.StatusBadRequest, "Invalid device name.")
	}
	if !x.in.IsPartition {
		return fail(http.StatusBadRequest, "The partition is not a number.")
	}
	if err := checkReservedNames(x.in.Account, x.in.Container, x.in.Object); err != nil {
		return err
	}
	x.at.Partition = x.in.Partition
	var err error
	if x.at.Policy, err = s.policyIndex(x); err != nil {
		return err
	}
	x.at.Hash = format.Hash(s.hasher.Object(x.in.Account, x.in.Container, x.in.Object))
	return nil
}

// deviceOf returns the first part of /device/partition/..., "" for a path of another form.
func deviceOf(path string) string {
	rest, ok := strings.CutPrefix(path, "/")
	device, rest, found := strings.Cut(rest, "/")
	partition, _, _ := strings.Cut(rest, "/")
	if !ok || !found || partition == "" || strings.Trim(partition, "0123456789") != "" || !devices.IsName(device) {
		return ""
	}
	return device
}

func (s *Server) policyIndex(x *exchange) (int, error) {
	value := x.header(message.PolicyIndex)
	if value == "" {
		return 0, nil
	}
	index, err := strconv.Atoi(value)
	if err != nil || !s.config.Policies[index] {
		return 0, fail(http.StatusServiceUnavailable, "No policy with index %q.", value)
	}
	return index, nil
}

// timestamp reads X-Timestamp, which every write needs.
func (x *exchange) timestamp() (format.Timestamp, error) {
	value := x.header(message.Timestamp)
	if value == "" {
		return format.Timestamp{}, fail(http.StatusBadRequest, "Missing X-Timestamp header.")
	}
	timestamp, err := format.ParseTimestamp(value)
	if err != nil || timestamp.IsZero() {
		return format.Timestamp{}, fail(http.StatusBadRequest, "Invalid X-Timestamp header %q.", value)
	}
	return timestamp, nil
}

// timestampOrNow is for reads, which may have no X-Timestamp.
func (x *exchange) timestampOrNow() (format.Timestamp, error) {
	if x.header(message.Timestamp) == "" {
		return format.Timestamp{Ticks: uint64(x.received.UnixMicro() / 10)}, nil
	}
	return x.timestamp()
}

// unixSeconds is the whole seconds of a timestamp.
func unixSeconds(t format.Timestamp) int64 { return int64(t.Ticks / format.TicksPerSecond) }

// isExpired reports whether an object with metadata m has expired at a time. A locked one does not.
func isExpired(m *format.Metadata, at format.Timestamp) bool {
	return m.DeleteAt != 0 && m.DeleteAt <= unixSeconds(at) && !m.Lock.Protects(at.Ticks, false)
}

// set sets a header of the answer by its canonical name.
func (x *exchange) set(name, value string) { x.out.Set(name, value) }

// answer sends the status and the headers; a body may follow.
func (x *exchange) answer(status int) {
	x.status = status
	x.carrier.begin(status, &x.out)
}

// answerEmpty ends the exchange with an empty body.
func (x *exchange) answerEmpty(status int) {
	if status != http.StatusNoContent && status != http.StatusNotModified {
		x.out.Length = 0
	}
	x.answer(status)
}

// answerFailure ends the exchange with an error. It removes the headers that were set for a success.
func (x *exchange) answerFailure(f *failure) {
	x.cause = f.cause
	x.out.Reset()
	for _, pair := range f.header {
		x.set(pair.Name, pair.Value)
	}
	body := f.text + "\n"
	x.set("Content-Type", "text/plain; charset=utf-8")
	x.out.Length = int64(len(body))
	x.answer(f.status)
	if x.in.Method != http.MethodHead {
		n, _ := x.carrier.Write([]byte(body)) // fails only if the client has gone
		x.bytesOut = int64(n)
	}
}

func isNetwork(err error) bool {
	var network *net.OpError
	return errors.As(err, &network)
}
