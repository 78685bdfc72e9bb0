package ranges

import (
	"fmt"
	"io"
	"math/rand/v2"
)

// Multipart is the body of a 206 with several ranges: each follows its head, and tail ends the body.
type Multipart struct {
	boundary    string
	contentType string // of the object
	size        int64  // of the object
	ranges      []Range
}

// NewMultipart returns the multipart body with ranges of an object.
func NewMultipart(contentType string, size int64, ranges []Range) *Multipart {
	return &Multipart{
		boundary:    fmt.Sprintf("%016x%016x", rand.Uint64(), rand.Uint64()), // #nosec G404 -- math/rand/v2 seeds ChaCha8 from the kernel
		contentType: contentType, size: size, ranges: ranges,
	}
}

// ContentType is the media type of the body.
func (m *Multipart) ContentType() string { return "multipart/byteranges;boundary=" + m.boundary }

// head precedes the bytes of a range.
func (m *Multipart) head(r Range) string {
	return "--" + m.boundary + "\r\nContent-Type: " + m.contentType +
		"\r\nContent-Range: " + r.ContentRange(m.size) + "\r\n\r\n"
}

const partEnd = "\r\n"

// tail ends the body.
func (m *Multipart) tail() string { return "--" + m.boundary + "--" }

// Length is the Content-Length of the body.
func (m *Multipart) Length() int64 {
	total := int64(len(m.tail()))
	for _, r := range m.ranges {
		total += int64(len(m.head(r))) + r.Length() + int64(len(partEnd))
	}
	return total
}

// Write writes the body; object writes the bytes of a range.
func (m *Multipart) Write(w io.Writer, object func(Range) error) error {
	for _, r := range m.ranges {
		if _, err := io.WriteString(w, m.head(r)); err != nil {
			return err
		}
		if err := object(r); err != nil {
			return err
		}
		if _, err := io.WriteString(w, partEnd); err != nil {
			return err
		}
	}
	_, err := io.WriteString(w, m.tail())
	return err
}
