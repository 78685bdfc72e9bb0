package format

import (
	"errors"
	"slices"

	"github.com/tinylib/msgp/msgp"
)

// headersMax bounds the entries of one Headers read from disk, so that a
// forged count allocates nothing.
const headersMax = 4096

var errHeadersMax = errors.New("bundle: too many headers in metadata")

// Headers holds header values by canonical header name. It is encoded in the
// order of its names, so that equal metadata has equal bytes on every replica.
type Headers map[string]string

// MarshalMsg appends h to b as a MessagePack map.
func (h Headers) MarshalMsg(b []byte) ([]byte, error) {
	if len(h) > headersMax {
		return b, errHeadersMax
	}
	var space [32]string
	names := space[:0]
	for name := range h {
		names = append(names, name)
	}
	slices.Sort(names)
	b = msgp.AppendMapHeader(b, uint32(len(names)))
	for _, name := range names {
		b = msgp.AppendString(b, name)
		b = msgp.AppendString(b, h[name])
	}
	return b, nil
}

// UnmarshalMsg reads a MessagePack map from the start of b and returns the rest.
// An empty map leaves h nil.
func (h *Headers) UnmarshalMsg(b []byte) ([]byte, error) {
	count, b, err := msgp.ReadMapHeaderBytes(b)
	if err != nil {
		return b, err
	}
	if count > headersMax {
		return b, errHeadersMax
	}
	*h = nil
	if count > 0 {
		*h = make(Headers, min(int(count), len(b)/2))
	}
	for range count {
		var name, value string
		if name, b, err = msgp.ReadStringBytes(b); err != nil {
			return b, err
		}
		if value, b, err = msgp.ReadStringBytes(b); err != nil {
			return b, err
		}
		(*h)[name] = value
	}
	return b, nil
}

// Msgsize is an upper bound of the encoded length in bytes.
func (h Headers) Msgsize() int {
	size := msgp.MapHeaderSize
	for name, value := range h {
		size += 2*msgp.StringPrefixSize + len(name) + len(value)
	}
	return size
}
