package message

import (
	"strconv"
	"strings"
)

// Header is a request header that is no Field.
type Header struct {
	Name  string // canonical
	Value string
	More  []string // the values behind the first, if it came more than once
}

// Joined returns all values, with commas between them.
func (h *Header) Joined() string {
	if len(h.More) == 0 {
		return h.Value
	}
	return h.Value + "," + strings.Join(h.More, ",")
}

// Request is one request, without its body.
type Request struct {
	Method string
	Remote string // the address of the client

	// The path, unquoted. Path is all of it over HTTP, and empty over the grid. Of a path that lacks parts the last ones
	// are empty. Name is "/account/container/object".
	Path                       string
	Query                      string
	Device, Name               string
	Account, Container, Object string
	Partition                  uint32
	IsPartition                bool // the partition is a number
	IsMalformed                bool // the path cannot be read; only over the grid

	HeadBytes int   // what the request has before its body; only over the grid
	Length    int64 // of the body; -1: not known
	HasLength bool  // the request says how long its body is, or that it has none

	Others []Header // those that are no Field

	values   [fieldCount]string
	has      uint64   // a bit for each field
	repeated []Header // fields that came more than once
}

// Get returns the first value of a field, "" if the request does not have it.
func (r *Request) Get(f Field) string { return r.values[f] }

// Has reports whether the request has the field, be it empty.
func (r *Request) Has(f Field) bool { return r.has&(1<<f) != 0 }

// Set replaces all values of a field.
func (r *Request) Set(f Field, value string) {
	r.Unset(f)
	r.values[f] = value
	r.has |= 1 << f
}

// Unset removes a field.
func (r *Request) Unset(f Field) {
	r.values[f] = ""
	r.has &^= 1 << f
	for i := range r.repeated {
		if r.repeated[i].Name == names[f] {
			r.repeated[i] = Header{}
		}
	}
}

// Joined returns all values of a field with commas between them; ok is false if the request does not have it.
func (r *Request) Joined(f Field) (value string, ok bool) {
	for i := range r.repeated {
		if r.repeated[i].Name == names[f] {
			return r.repeated[i].Joined(), true
		}
	}
	return r.values[f], r.Has(f)
}

// Lookup returns all values of a header by its canonical name, joined, be it a Field or not.
func (r *Request) Lookup(name string) (value string, ok bool) {
	if f, is := FieldOf(name); is {
		return r.Joined(f)
	}
	for i := range r.Others {
		if r.Others[i].Name == name {
			return r.Others[i].Joined(), true
		}
	}
	return "", false
}

// TooLong returns the name of a header whose first value has more than max bytes, "" if there is none.
func (r *Request) TooLong(max int) string {
	for f := range r.values {
		if len(r.values[f]) > max {
			return names[f]
		}
	}
	for i := range r.Others {
		if len(r.Others[i].Value) > max {
			return r.Others[i].Name
		}
	}
	return ""
}

// FullPath returns /device/partition/account/container/object, as far as the request has it.
func (r *Request) FullPath() string {
	if !r.IsOfGrid() {
		return r.Path
	}
	return r.Place() + r.Name
}

// Place returns /device/partition of a request over the grid.
func (r *Request) Place() string {
	return "/" + r.Device + "/" + strconv.FormatUint(uint64(r.Partition), 10)
}

// IsOfGrid reports whether the request came over the grid and names an object.
func (r *Request) IsOfGrid() bool {
	return r.Path == "" && r.Name != ""
}

// splitName sets the parts of the name from "account/container/object".
func (r *Request) splitName(path string) {
	r.Account, path, _ = strings.Cut(path, "/")
	r.Container, r.Object, _ = strings.Cut(path, "/")
}
