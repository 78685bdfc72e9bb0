package message

import (
	"errors"
	"fmt"
	"net/textproto"
	"net/url"
	"strings"
	"unicode/utf8"

	"github.com/tinylib/msgp/msgp"
)

// BodyMax is the largest body in a payload, in bytes, of a request to this server and of an answer to a GET.
const BodyMax = 64 << 10

// requestElements is how many elements a request has at least: device, partition, path, headers and body.
const requestElements = 5

// ReadPayload sets everything but Remote from the payload of a request of the grid, and returns its body, which is a part
// of the payload. An error says why the payload is refused. A path that cannot be unquoted is no such error: IsMalformed
// says so. Memory of Others is used again.
func (r *Request) ReadPayload(method string, payload []byte) (body []byte, err error) {
	head, body, err := cutPayload(payload)
	if err != nil {
		return nil, err
	}
	*r = Request{
		Method: method, IsPartition: true, HeadBytes: len(head), Length: int64(len(body)), HasLength: true,
		Others: r.Others[:0],
	}
	return body, r.readHead(headReader{left: head, text: string(head)})
}

// cutPayload checks the form of a payload, and returns its elements before the body, and the body.
func cutPayload(payload []byte) (head, body []byte, err error) {
	count, rest, err := msgp.ReadArrayHeaderBytes(payload)
	if err != nil {
		return nil, nil, err
	}
	if count < requestElements {
		return nil, nil, fmt.Errorf("%d elements where %d are needed", count, requestElements)
	}
	head = rest
	if _, rest, err = msgp.ReadStringZC(rest); err != nil {
		return nil, nil, fmt.Errorf("the device: %w", err)
	}
	if _, rest, err = msgp.ReadUint32Bytes(rest); err != nil {
		return nil, nil, fmt.Errorf("the partition: %w", err)
	}
	if _, rest, err = msgp.ReadStringZC(rest); err != nil {
		return nil, nil, fmt.Errorf("the path: %w", err)
	}
	headers, rest, err := msgp.ReadMapHeaderBytes(rest)
	for left := 2 * uint64(headers); left > 0 && err == nil; left-- {
		_, rest, err = msgp.ReadStringZC(rest)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("the headers: %w", err)
	}
	head = head[:len(head)-len(rest)]
	if body, rest, err = msgp.ReadBytesZC(rest); err != nil {
		return nil, nil, fmt.Errorf("the body: %w", err)
	}
	for left := count - requestElements; left > 0 && err == nil; left-- {
		rest, err = msgp.Skip(rest)
	}
	if err == nil && len(rest) > 0 {
		err = fmt.Errorf("%d bytes follow the array", len(rest))
	}
	return head, body, err
}

// headReader reads the elements that cutPayload has checked. The strings that it returns are parts of text, which is one
// piece of memory for all.
type headReader struct {
	left []byte
	text string // what left was at first
}

func (h *headReader) string() string {
	s, rest, _ := msgp.ReadStringZC(h.left)
	h.left = rest
	end := len(h.text) - len(rest)
	return h.text[end-len(s) : end]
}

var errUTF8 = errors.New("a string is not UTF-8")

func (r *Request) readHead(h headReader) error {
	r.Device = h.string()
	r.Partition, h.left, _ = msgp.ReadUint32Bytes(h.left)
	path := h.string()
	if !utf8.ValidString(r.Device) {
		return errUTF8
	}
	if !isQuoted(path) {
		return errors.New("the path is not quoted")
	}
	r.readPath(path)
	var count uint32
	count, h.left, _ = msgp.ReadMapHeaderBytes(h.left)
	for ; count > 0; count-- {
		if err := r.addHeader(h.string(), h.string()); err != nil {
			return err
		}
	}
	return r.checkOnce()
}

// readPath unquotes /account/container/object?query.
func (r *Request) readPath(path string) {
	path, r.Query, _ = strings.Cut(path, "?")
	path, err := url.PathUnescape(path) // the same string if nothing is quoted
	if r.IsMalformed = err != nil; !r.IsMalformed {
		r.Name = path
		r.splitName(path[1:])
	}
}

// isQuoted reports whether a path begins with a slash and has printable ASCII alone.
func isQuoted(path string) bool {
	for i := range len(path) {
		if c := path[i]; c <= ' ' || c >= 0x7f {
			return false
		}
	}
	return strings.HasPrefix(path, "/")
}

// addHeader takes a header from the wire.
func (r *Request) addHeader(name, value string) error {
	if !isToken(name) || strings.Contains(name, "_") { // as a variable of WSGI, "_" and "-" would be the same
		return fmt.Errorf("%.64q is not the name of a header", name)
	}
	value, err := readValue(value)
	if err != nil {
		return fmt.Errorf("%.64s: %w", name, err)
	}
	f, ok := FieldOf(name)
	if !ok {
		name = textproto.CanonicalMIMEHeaderKey(name) // the same string if it is canonical
		f, ok = FieldOf(name)
	}
	switch {
	case isOfConnection(name):
		return fmt.Errorf("%s is a header of a connection", name)
	case !ok:
		r.Others = append(r.Others, Header{Name: name, Value: value})
		return nil
	case r.Has(f):
		return fmt.Errorf("%s comes twice", name)
	}
	r.values[f] = value
	r.has |= 1 << f
	return nil
}

// isOfConnection reports whether a header is about the connection, and has no place in the grid.
func isOfConnection(name string) bool {
	switch name {
	case "Connection", "Content-Length", "Date", "Expect", "Host", "Transfer-Encoding":
		return true
	}
	return false
}

// fewOthers is how many names are compared with each other; a map is faster for more.
const fewOthers = 32

// checkOnce refuses a name that Others has twice.
func (r *Request) checkOnce() error {
	if len(r.Others) > fewOthers {
		seen := make(map[string]struct{}, len(r.Others))
		for i := range r.Others {
			seen[r.Others[i].Name] = struct{}{}
		}
		if len(seen) < len(r.Others) {
			return errors.New("a header comes twice")
		}
		return nil
	}
	for i := range r.Others {
		for j := range i {
			if r.Others[i].Name == r.Others[j].Name {
				return fmt.Errorf("%.64s comes twice", r.Others[i].Name)
			}
		}
	}
	return nil
}

// readValue turns the characters of a value into its bytes.
func readValue(text string) (string, error) {
	isPlain := true
	for i := range len(text) {
		c := text[i]
		if c < ' ' && c != '\t' || c == 0x7f {
			return "", errors.New("the value has a control character")
		}
		isPlain = isPlain && c < utf8.RuneSelf
	}
	if text != "" && (isBlank(text[0]) || isBlank(text[len(text)-1])) {
		return "", errors.New("the value begins or ends with a blank")
	}
	if isPlain {
		return text, nil
	}
	value := make([]byte, 0, len(text))
	for _, c := range text {
		if c > 0xff { // what is not UTF-8 is U+FFFD here
			return "", errors.New("the value has a character that is no byte")
		}
		value = append(value, byte(c))
	}
	return string(value), nil
}

func isBlank(c byte) bool { return c == ' ' || c == '\t' }

// isToken reports whether a name is a token of RFC 9110.
func isToken(name string) bool {
	for i := range len(name) {
		if c := name[i]; c >= utf8.RuneSelf || !tokenBytes[c] {
			return false
		}
	}
	return name != ""
}

var tokenBytes = func() (is [utf8.RuneSelf]bool) {
	for c := range is {
		isAlphanumeric := '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
		is[c] = isAlphanumeric || strings.IndexByte("!#$%&'*+-.^_`|~", byte(c)) >= 0
	}
	return is
}()
