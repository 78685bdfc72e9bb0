package server

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"martlet/object-server/bundle/format"
	"martlet/object-server/device"
	"martlet/object-server/server/devices"
	"martlet/object-server/server/message"
	"martlet/object-server/server/ranges"
)

// get answers 200, 206, 304, 404, 412, 416, 503 or 507.
func (s *Server) get(x *exchange) error {
	now, err := x.timestampOrNow()
	if err != nil {
		return err
	}
	mount, err := s.devices.Acquire(x.in.Device)
	if err != nil {
		return err
	}
	defer mount.Release()
	found, since, err := openRequested(x, mount.Store)
	if err != nil {
		return x.absent(failureOf(err))
	}
	defer found.Close()
	m := found.Metadata()
	if isAnswered, err := s.beginAnswer(x, m, since, now); isAnswered || err != nil {
		return err
	}
	return s.sendObject(x, found, m)
}

// head answers like get, without a body and without ranges.
func (s *Server) head(x *exchange) error {
	now, err := x.timestampOrNow()
	if err != nil {
		return err
	}
	mount, err := s.devices.Acquire(x.in.Device)
	if err != nil {
		return err
	}
	defer mount.Release()
	m, since, err := headRequested(x, mount.Store)
	if err != nil {
		return x.absent(failureOf(err))
	}
	if isAnswered, err := s.beginAnswer(x, m, since, now); isAnswered || err != nil {
		return err
	}
	x.out.Length = m.Size
	x.answer(http.StatusOK)
	return nil
}

// beginAnswer describes an object in the answer's headers. It ends the exchange if a condition of the request is not met.
func (s *Server) beginAnswer(x *exchange, m *format.Metadata, since, now format.Timestamp) (isAnswered bool, err error) {
	if err := s.checkLive(x, m, now); err != nil {
		return false, err
	}
	x.since = since
	x.describe(m)
	if status := x.conditionStatus(m); status != 0 {
		x.answerUnmet(status, m)
		return true, nil
	}
	return false, nil
}

// checkLive refuses an object that has expired, or whose name is another one with the same hash.
func (s *Server) checkLive(x *exchange, m *format.Metadata, now format.Timestamp) error {
	if m.Name != x.name() {
		return fail(http.StatusForbidden, "Another object has the same hash.")
	}
	// A version that has expired stays, but is not current any more.
	if isExpired(m, now) && !x.opensExpired() && x.header(message.VersionID) == "" {
		if m.Doubtful {
			return &device.DoubtError{Timestamp: m.MetaTimestamp, Cause: errExpired}
		}
		f := fail(http.StatusNotFound, "The object has expired.").with(timestampHeader, m.MetaTimestamp.String())
		return x.absent(f)
	}
	return nil
}

// sendObject answers with the bytes that the Range header asks for. The headers about the object are already set.
func (s *Server) sendObject(x *exchange, found devices.Object, m *format.Metadata) error {
	body := &responseBody{x: x, status: http.StatusOK, timeout: s.config.ClientTimeout, renewed: x.received}
	header := x.header(message.Range)
	if header == "" || x.ignoresRange(m) {
		return s.sendRange(x, body, found, ranges.Range{End: m.Size})
	}
	wanted, ok := ranges.Parse(header, m.Size)
	switch {
	case ok && len(wanted) == 0:
		return x.notSatisfiable(m.Size)
	case !ok || m.Size == 0:
		return s.sendRange(x, body, found, ranges.Range{End: m.Size})
	case len(wanted) == 1:
		body.status = http.StatusPartialContent
		x.set("Content-Range", wanted[0].ContentRange(m.Size))
		return s.sendRange(x, body, found, wanted[0])
	default:
		body.status = http.StatusPartialContent
		return s.sendMultipart(body, found, ranges.NewMultipart(m.ContentType, m.Size, wanted))
	}
}

// notSatisfiable is a 416 with the headers about the object, except those that do not fit the text of the error.
func (x *exchange) notSatisfiable(size int64) *failure {
	f := fail(http.StatusRequestedRangeNotSatisfiable, "The requested range is not available.").
		with("Content-Range", "bytes */"+strconv.FormatInt(size, 10))
	for _, pair := range x.out.Headers {
		switch pair.Name {
		case "Content-Disposition", "Content-Encoding", "Content-Language":
		default:
			f.with(pair.Name, pair.Value)
		}
	}
	return f
}

// ignoresRange reports whether the object has a header for which the proxy wants all of it (a manifest, for example).
func (x *exchange) ignoresRange(m *format.Metadata) bool {
	for _, name := range strings.Split(x.header(message.IgnoreRangeIfPresent), ",") {
		if _, ok := lookup(m, http.CanonicalHeaderKey(strings.TrimSpace(name))); ok {
			return true
		}
	}
	return false
}

func (s *Server) sendRange(x *exchange, body *responseBody, found devices.Object, r ranges.Range) error {
	x.out.Length = r.Length()
	if r.Length() == 0 || !x.carrier.carries(r.Length()) {
		x.answer(body.status)
		return nil
	}
	return body.finish(found.WriteRange(body, r.Start, r.Length()))
}

func (s *Server) sendMultipart(body *responseBody, found devices.Object, m *ranges.Multipart) error {
	body.x.set("Content-Type", m.ContentType())
	body.x.out.Length = m.Length()
	if !body.x.carrier.carries(m.Length()) {
		body.x.answer(body.status)
		return nil
	}
	return body.finish(m.Write(body, func(r ranges.Range) error {
		return found.WriteRange(body, r.Start, r.Length())
	}))
}

// responseBody writes the body of an answer. It sends the status with the first byte, so that an object found damaged
// before that is answered with 503.
type responseBody struct {
	x       *exchange
	status  int
	timeout time.Duration // for the client to take what is written
	renewed time.Time
	failed  error // of writing to the client
}

// Write implements io.Writer. The timeout applies to each piece, not to all of p.
func (b *responseBody) Write(p []byte) (written int, err error) {
	if b.x.status == 0 {
		b.x.answer(b.status)
	}
	for written < len(p) && err == nil {
		if now := time.Now(); now.Sub(b.renewed) > b.timeout/8 {
			b.renewed = now
			b.x.extendWriteDeadline(now.Add(b.timeout))
		}
		var n int
		n, err = b.x.carrier.Write(p[written:min(written+bufferBytes, len(p))])
		written += n
	}
	b.x.bytesOut += int64(written)
	if err != nil {
		b.failed = err
	}
	return written, err
}

// finish handles the end of the body. After the first byte, only closing the connection tells the client of an error.
func (b *responseBody) finish(err error) error {
	if err == nil {
		return nil
	}
	if b.x.status == 0 {
		return err
	}
	if b.failed == nil {
		b.x.cause = err
	} else {
		b.x.status = statusClientClosed
	}
	return errAborted
}
