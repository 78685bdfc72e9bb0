package message

import (
	"net/http"
	"strconv"
	"strings"
)

// ReadHTTP sets everything from a request of net/http.
func (r *Request) ReadHTTP(h *http.Request) {
	*r = Request{Method: h.Method, Remote: h.RemoteAddr, Path: h.URL.Path, Query: h.URL.RawQuery, Length: h.ContentLength}
	r.HasLength = h.ContentLength != 0 || len(h.Header["Content-Length"]) > 0
	r.splitPath()
	for name, values := range h.Header {
		if len(values) == 0 {
			continue
		}
		f, ok := FieldOf(name)
		if !ok {
			if r.Others == nil {
				r.Others = make([]Header, 0, len(h.Header))
			}
			r.Others = append(r.Others, Header{name, values[0], values[1:]})
			continue
		}
		r.values[f] = values[0]
		r.has |= 1 << f
		if len(values) > 1 {
			r.repeated = append(r.repeated, Header{name, values[0], values[1:]})
		}
	}
}

// splitPath cuts the path into its parts.
func (r *Request) splitPath() {
	rest, ok := strings.CutPrefix(r.Path, "/")
	if !ok {
		return
	}
	r.Device, rest, _ = strings.Cut(rest, "/")
	partition, rest, ok := strings.Cut(rest, "/")
	number, err := strconv.ParseUint(partition, 10, 32)
	r.Partition, r.IsPartition = uint32(number), err == nil
	if ok {
		r.Name = r.Path[len(r.Path)-len(rest)-1:]
		r.splitName(rest)
	}
}
