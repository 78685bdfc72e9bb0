package message

import (
	"encoding/binary"
	"net/http"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/tinylib/msgp/msgp"
)

// answerElements: status, headers and body.
const answerElements = 3

// AppendHead appends what comes before the body in the payload of an answer. It leaves out what net/http leaves out, and
// headers of a connection; with tellsLength it adds Content-Length. Names are in lower case.
func (a *Answer) AppendHead(b []byte, status int, tellsLength bool) []byte {
	count := uint32(0)
	for i := range a.Headers {
		if isSent(a.Headers[i].Name, status) {
			count++
		}
	}
	tellsLength = tellsLength && a.Length >= 0
	if tellsLength {
		count++
	}
	b = msgp.AppendArrayHeader(b, answerElements)
	b = msgp.AppendUint(b, uint(status))
	b = msgp.AppendMapHeader(b, count)
	for i := range a.Headers {
		if pair := &a.Headers[i]; isSent(pair.Name, status) {
			b = appendValue(appendLower(b, pair.Name), pair.Value)
		}
	}
	if tellsLength {
		b = msgp.AppendString(b, "content-length")
		var digits [20]byte
		b = msgp.AppendStringFromBytes(b, strconv.AppendInt(digits[:0], a.Length, 10))
	}
	return b
}

// isSent reports whether a header is written.
func isSent(name string, status int) bool {
	return isToken(name) && !isOfConnection(name) && (status != http.StatusNotModified || name != "Content-Type")
}

// AppendBodyHead appends what comes before the bytes of a body. Nothing else must follow them.
func AppendBodyHead(b []byte, length int) []byte {
	switch {
	case length <= 0xff:
		return append(b, 0xc4, byte(length))
	case length <= 0xffff:
		return binary.BigEndian.AppendUint16(append(b, 0xc5), uint16(length))
	default:
		return binary.BigEndian.AppendUint32(append(b, 0xc6), uint32(length))
	}
}

// AppendNoBody appends what stands for a body that is left out.
func AppendNoBody(b []byte) []byte { return msgp.AppendNil(b) }

func appendStringHead(b []byte, length int) []byte {
	switch {
	case length < 32:
		return append(b, 0xa0|byte(length))
	case length <= 0xff:
		return append(b, 0xd9, byte(length))
	case length <= 0xffff:
		return binary.BigEndian.AppendUint16(append(b, 0xda), uint16(length))
	default:
		return binary.BigEndian.AppendUint32(append(b, 0xdb), uint32(length))
	}
}

// appendLower appends a name in lower case.
func appendLower(b []byte, name string) []byte {
	b = appendStringHead(b, len(name))
	for i := range len(name) {
		c := name[i]
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		b = append(b, c)
	}
	return b
}

// appendValue appends a character for each byte of a value. What HTTP does not allow becomes a blank: it can come from the
// metadata that followed a body.
func appendValue(b []byte, value string) []byte {
	length, isClean := len(value), true
	for i := range len(value) {
		c := value[i]
		if c >= utf8.RuneSelf {
			length++
		}
		isClean = isClean && (c >= ' ' && c != 0x7f || c == '\t')
	}
	if !isClean || value != "" && (isBlank(value[0]) || isBlank(value[len(value)-1])) {
		return appendClean(b, value)
	}
	b = appendStringHead(b, length)
	if length == len(value) {
		return append(b, value...)
	}
	for i := range len(value) {
		b = utf8.AppendRune(b, rune(value[i]))
	}
	return b
}

func appendClean(b []byte, value string) []byte {
	clean := []byte(value)
	for i, c := range clean {
		if c < ' ' && c != '\t' || c == 0x7f {
			clean[i] = ' '
		}
	}
	return appendValue(b, strings.Trim(string(clean), " \t"))
}
