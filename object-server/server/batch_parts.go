package server

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"strings"
)

// Limits of a batch. All of it is in memory before the first request is served.
const (
	batchBytesMax     = 1 << 20 // of the whole
	batchPartsMax     = 1024
	batchPartBytesMax = 64 << 10 // of the body of one request
)

var endOfHead = []byte("\r\n\r\n")

// splitBatch returns the requests of a batch in their order; their bodies are parts of message. headMax bounds the head
// of each, in bytes. One request that is malformed, or must not be part of a batch, fails the batch.
func splitBatch(message []byte, headMax int) ([]*http.Request, error) {
	var parts []*http.Request
	source := bytes.NewReader(nil)
	reader := bufio.NewReader(source)
	for len(message) > 0 {
		end := bytes.Index(message[:min(len(message), headMax)], endOfHead)
		if len(parts) == batchPartsMax || end < 0 {
			return nil, badPart(len(parts))
		}
		end += len(endOfHead)
		source.Reset(message[:end])
		reader.Reset(source)
		part, err := http.ReadRequest(reader)
		if err != nil || reader.Buffered() > 0 || source.Len() > 0 || !mayBePart(part) {
			return nil, badPart(len(parts))
		}
		message = message[end:]
		if part.ContentLength > int64(len(message)) {
			return nil, badPart(len(parts))
		}
		part.Body = io.NopCloser(bytes.NewReader(message[:part.ContentLength]))
		message = message[part.ContentLength:]
		parts = append(parts, part)
	}
	if len(parts) == 0 {
		return nil, badPart(0)
	}
	return parts, nil
}

func badPart(number int) *failure {
	return fail(http.StatusBadRequest, "Request %d of the batch is malformed, or cannot be part of one.", number)
}

// mayBePart reports whether a request may be part of a batch: a small write whose body is in the batch.
func mayBePart(r *http.Request) bool {
	switch {
	case r.Method != http.MethodPut && r.Method != http.MethodDelete:
		return false
	case !r.ProtoAtLeast(1, 1), len(r.TransferEncoding) > 0, r.Header["Expect"] != nil:
		return false
	case r.ContentLength < 0, r.ContentLength > batchPartBytesMax:
		return false
	}
	for name, values := range r.Header {
		if strings.Contains(name, " ") { // http.ReadRequest accepts such names, a connection does not
			return false
		}
		for _, value := range values {
			if !isHeaderValue(value) {
				return false
			}
		}
	}
	return true
}

// isHeaderValue refuses the control characters that net/http refuses of a request on a connection.
func isHeaderValue(value string) bool {
	for i := range len(value) {
		if c := value[i]; c < ' ' && c != '\t' || c == 0x7f {
			return false
		}
	}
	return true
}
