package server

import (
	"net/http"
	"strings"
	"time"

	"martlet/object-server/bundle/format"
	"martlet/object-server/server/message"
)

// etagSet is the value of an If-Match or If-None-Match header.
type etagSet map[string]bool

func parseETags(header string) etagSet {
	if header == "" {
		return nil
	}
	tags := etagSet{}
	for _, tag := range strings.Split(header, ",") {
		if tag = strings.TrimSpace(tag); tag != "" {
			tags[unquote(tag)] = true
		}
	}
	return tags
}

func (s etagSet) matches(etag string) bool { return s["*"] || s[unquote(etag)] }

func unquote(tag string) string {
	if len(tag) >= 2 && tag[0] == '"' && tag[len(tag)-1] == '"' {
		return tag[1 : len(tag)-1]
	}
	return tag
}

// lastModified is the time of the last write, rounded up to seconds so that it is never before the write.
func lastModified(m *format.Metadata) time.Time {
	ticks := m.MetaTimestamp.Ticks + format.TicksPerSecond - 1
	return time.Unix(int64(ticks/format.TicksPerSecond), 0).UTC()
}

// conditionalETag is the ETag that conditions are compared with: that of the object, or a stored header that
// X-Backend-Etag-Is-At names if the stored bytes are not those of the client (encryption, erasure codes).
func (x *exchange) conditionalETag(m *format.Metadata) string {
	for _, name := range strings.Split(x.header(message.ETagIsAt), ",") {
		if name = strings.TrimSpace(name); name == "" {
			continue
		}
		if value, ok := lookup(m, http.CanonicalHeaderKey(name)); ok && value != "" {
			return value
		}
	}
	return m.ETag
}

// conditionStatus is 304 or 412 if a condition of a GET or HEAD is not met, else 0.
func (x *exchange) conditionStatus(m *format.Metadata) int {
	ifNoneMatch, ifMatch := x.header(message.IfNoneMatch), x.header(message.IfMatch)
	if ifNoneMatch != "" || ifMatch != "" {
		etag := x.conditionalETag(m)
		if ifNoneMatch != "" && parseETags(ifNoneMatch).matches(etag) {
			return http.StatusNotModified
		}
		if ifMatch != "" && !parseETags(ifMatch).matches(etag) {
			return http.StatusPreconditionFailed
		}
	}
	if since, err := http.ParseTime(x.header(message.IfModifiedSince)); err == nil && !lastModified(m).After(since) {
		return http.StatusNotModified
	}
	if since, err := http.ParseTime(x.header(message.IfUnmodifiedSince)); err == nil && lastModified(m).After(since) {
		return http.StatusPreconditionFailed
	}
	return 0
}

// answerUnmet ends the exchange with a 304 or 412.
func (x *exchange) answerUnmet(status int, m *format.Metadata) {
	if status == http.StatusNotModified {
		// net/http leaves Content-Type out of a 304.
		x.set("X-Backend-Content-Type", m.ContentType)
	}
	x.answerEmpty(status)
}

// absent turns the 404 of a GET or HEAD into a 412 if the client sent If-Match: *.
func (x *exchange) absent(f *failure) *failure {
	if f.status == http.StatusNotFound && parseETags(x.header(message.IfMatch))["*"] {
		f.status, f.text = http.StatusPreconditionFailed, "A precondition for this request was not met."
	}
	return f
}
