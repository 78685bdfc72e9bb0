package server

import (
	"maps"
	"net/http"
	"net/textproto"
	"strconv"
	"strings"

	"martlet/object-server/bundle/format"
	"martlet/object-server/server/message"
)

// Prefixes of the headers that become metadata.
const (
	metaPrefix      = "X-Object-Meta-"
	systemPrefix    = "X-Object-Sysmeta-"
	transientPrefix = "X-Object-Transient-Sysmeta-"
)

const (
	deleteAtHeader = "X-Delete-At"
	largeHeader    = "X-Static-Large-Object"
)

// allowedHeaders are the plain headers that may be stored with an object.
type allowedHeaders struct {
	names  map[string]bool // canonical
	fields []message.Field // those that the server reads, too
}

func newAllowedHeaders(names []string) allowedHeaders {
	allowed := allowedHeaders{names: map[string]bool{}}
	for _, name := range names {
		switch name = textproto.CanonicalMIMEHeaderKey(name); name {
		case "Content-Length", "Content-Type", "Deleted", "Etag", "":
		default:
			if f, ok := message.FieldOf(name); ok {
				allowed.fields = append(allowed.fields, f)
			} else {
				allowed.names[name] = true
			}
		}
	}
	return allowed
}

// collect copies the headers that are metadata into m, except the content type: those that a POST keeps into System,
// those that it replaces into User and DeleteAt. With isPost, System does not change. X-Delete-At is already checked.
func (a allowedHeaders) collect(in *message.Request, m *format.Metadata, isPost bool) {
	for i := range in.Others {
		header := &in.Others[i]
		switch name := header.Name; {
		case strings.HasPrefix(name, systemPrefix):
			if !isPost {
				put(&m.System, name, header.Joined())
			}
		case strings.HasPrefix(name, metaPrefix), strings.HasPrefix(name, transientPrefix):
			put(&m.User, name, header.Joined())
		case !a.names[name]:
		case name == largeHeader:
			if !isPost {
				put(&m.System, name, header.Joined())
			}
		default:
			put(&m.User, name, header.Joined())
		}
	}
	for _, f := range a.fields {
		if f == message.DeleteAt {
			m.DeleteAt = deleteAt(in.Get(f)) // 0 without it
		} else if value, ok := in.Joined(f); ok {
			put(&m.User, f.Name(), value)
		}
	}
	for _, name := range strings.Fields(in.Get(message.ReplicationHeaders)) {
		name = textproto.CanonicalMIMEHeaderKey(name)
		if isEngineHeader(name) || strings.HasPrefix(name, systemPrefix) {
			continue
		}
		if value, ok := in.Lookup(name); ok {
			put(&m.User, name, value)
		}
	}
}

// isEngineHeader reports whether a header has its own field in the metadata, or is stored apart from the others.
func isEngineHeader(name string) bool {
	switch name {
	case "Content-Length", "Content-Type", "Etag", "X-Timestamp", deleteAtHeader, largeHeader, "Deleted", "Name":
		return true
	}
	return false
}

func put(headers *format.Headers, name, value string) {
	if *headers == nil {
		*headers = format.Headers{}
	}
	(*headers)[name] = value
}

// collectFooters adds the metadata that came after the body; they override the headers.
func (a allowedHeaders) collectFooters(footers map[string]string, m *format.Metadata) {
	for name, value := range footers {
		switch {
		case strings.HasPrefix(name, systemPrefix):
			put(&m.System, name, value)
		case strings.HasPrefix(name, metaPrefix), strings.HasPrefix(name, transientPrefix):
			put(&m.User, name, value)
		}
	}
}

// lookup finds a stored header by canonical name.
func lookup(m *format.Metadata, name string) (string, bool) {
	if value, ok := m.System[name]; ok {
		return value, true
	}
	if value, ok := m.User[name]; ok {
		return value, true
	}
	if name == deleteAtHeader && m.DeleteAt != 0 {
		return strconv.FormatInt(m.DeleteAt, 10), true
	}
	return "", false
}

// describe sets the headers of a GET's or HEAD's answer.
func (x *exchange) describe(m *format.Metadata) {
	x.set("Content-Type", m.ContentType)
	x.set("Etag", `"`+m.ETag+`"`)
	x.set("Last-Modified", lastModified(m).Format(http.TimeFormat))
	for name, value := range m.System {
		x.set(name, value)
	}
	for name, value := range m.User {
		x.set(name, value)
	}
	if m.DeleteAt != 0 {
		x.set(deleteAtHeader, strconv.FormatInt(m.DeleteAt, 10))
	}
	x.describeLock(m.Lock)
	data, meta := m.Timestamp.String(), m.MetaTimestamp.String()
	x.set("X-Timestamp", m.MetaTimestamp.Normal())
	x.set(timestampHeader, meta)
	x.set(dataTimestampHeader, data)
	x.set("X-Backend-Durable-Timestamp", data)
	x.describeVersion(m, x.since)
	if m.Doubtful {
		x.set(doubtHeader, doubtStale)
	}
}

// systemHeaders returns the stored X-Object-Sysmeta-* headers.
func systemHeaders(m *format.Metadata) map[string]string {
	headers := maps.Clone(map[string]string(m.System))
	maps.DeleteFunc(headers, func(name, _ string) bool { return !strings.HasPrefix(name, systemPrefix) })
	return headers
}
