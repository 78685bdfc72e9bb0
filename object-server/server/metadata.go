package server

import (
	"maps"
	"net/http"
	"net/textproto"
	"strconv"
	"strings"

	"martlet/object-server/bundle/format"
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

// allowedHeaders are the plain headers that may be stored with an object, by canonical name.
type allowedHeaders map[string]bool

func newAllowedHeaders(names []string) allowedHeaders {
	allowed := allowedHeaders{}
	for _, name := range names {
		switch name = textproto.CanonicalMIMEHeaderKey(name); name {
		case "Content-Length", "Content-Type", "Deleted", "Etag", "":
		default:
			allowed[name] = true
		}
	}
	return allowed
}

// collect copies the headers that are metadata into m, except the content type: those that a POST keeps into System,
// those that it replaces into User and DeleteAt. With isPost, System does not change. X-Delete-At is already checked.
func (a allowedHeaders) collect(header http.Header, m *format.Metadata, isPost bool) {
	for name, values := range header {
		switch {
		case strings.HasPrefix(name, systemPrefix):
			if !isPost {
				put(&m.System, name, values)
			}
		case strings.HasPrefix(name, metaPrefix), strings.HasPrefix(name, transientPrefix):
			put(&m.User, name, values)
		case !a[name]:
		case name == deleteAtHeader:
			m.DeleteAt = deleteAt(values[0])
		case name == largeHeader:
			if !isPost {
				put(&m.System, name, values)
			}
		default:
			put(&m.User, name, values)
		}
	}
	for _, name := range strings.Fields(header.Get("X-Backend-Replication-Headers")) {
		name = textproto.CanonicalMIMEHeaderKey(name)
		if values, ok := header[name]; ok && !isEngineHeader(name) && !strings.HasPrefix(name, systemPrefix) {
			put(&m.User, name, values)
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

func put(headers *format.Headers, name string, values []string) {
	if *headers == nil {
		*headers = format.Headers{}
	}
	(*headers)[name] = strings.Join(values, ",")
}

// collectFooters adds the metadata that came after the body; they override the headers.
func (a allowedHeaders) collectFooters(footers map[string]string, m *format.Metadata) {
	for name, value := range footers {
		switch {
		case strings.HasPrefix(name, systemPrefix):
			put(&m.System, name, []string{value})
		case strings.HasPrefix(name, metaPrefix), strings.HasPrefix(name, transientPrefix):
			put(&m.User, name, []string{value})
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
	header := x.w.Header()
	header["Content-Type"] = []string{m.ContentType}
	header["Etag"] = []string{`"` + m.ETag + `"`}
	header["Last-Modified"] = []string{lastModified(m).Format(http.TimeFormat)}
	for name, value := range m.System {
		header[name] = []string{value}
	}
	for name, value := range m.User {
		header[name] = []string{value}
	}
	if m.DeleteAt != 0 {
		header[deleteAtHeader] = []string{strconv.FormatInt(m.DeleteAt, 10)}
	}
	data := []string{m.Timestamp.String()}
	header["X-Timestamp"] = []string{m.MetaTimestamp.Normal()}
	header[timestampHeader] = []string{m.MetaTimestamp.String()}
	header["X-Backend-Data-Timestamp"] = data
	header["X-Backend-Durable-Timestamp"] = data
	x.describeVersion(m, x.since)
	if m.Doubtful {
		header[doubtHeader] = []string{doubtStale}
	}
}

// systemHeaders returns the stored X-Object-Sysmeta-* headers.
func systemHeaders(m *format.Metadata) map[string]string {
	headers := maps.Clone(map[string]string(m.System))
	maps.DeleteFunc(headers, func(name, _ string) bool { return !strings.HasPrefix(name, systemPrefix) })
	return headers
}
