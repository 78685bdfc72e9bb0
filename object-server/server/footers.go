package server

import (
	"crypto/md5"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"mime/multipart"
	"net/http"
	"strings"

	"martlet/object-server/server/message"
)

// footerAgreed is the header by which the server accepts metadata after the object.
const footerAgreed = "X-Obj-Metadata-Footer"

// footerBytesMax bounds the metadata after the object, in bytes of JSON.
const footerBytesMax = 128 << 10

// receiveWithFooters reads a MIME document of two parts: the object, and JSON with its metadata.
func (s *Server) receiveWithFooters(x *exchange, body *timedBody, target io.Writer) (*receivedBody, error) {
	boundary := x.header(message.MIMEBoundary)
	if boundary == "" || len(boundary) > 200 {
		return nil, fail(http.StatusBadRequest, "no MIME boundary")
	}
	if x.header(message.Expect) != "" {
		// The proxy sends footers only to a server that accepts them in its 100 Continue.
		x.carrier.proceed(footerAgreed, "yes")
	}
	parts := multipart.NewReader(body, boundary)
	part, err := parts.NextRawPart()
	if err != nil {
		return nil, partFailure(err, "couldn't find the object's MIME doc")
	}
	received, err := s.copyBody(target, part, -1)
	if err != nil {
		return nil, err
	}
	if announced := x.sizeHint(); announced >= 0 && announced != received.size {
		return nil, fail(statusClientClosed, "The body has %d bytes, %d were announced.", received.size, announced)
	}
	if part, err = parts.NextRawPart(); err != nil {
		return nil, partFailure(err, "couldn't find footer MIME doc")
	}
	if received.footers, err = readFooters(part); err != nil {
		return nil, err
	}
	if _, err = parts.NextRawPart(); !errors.Is(err, io.EOF) {
		return nil, partFailure(err, "a MIME doc follows the footers")
	}
	_, err = io.Copy(io.Discard, body) // reads the end of the chunks, so that the connection can be used again
	if err != nil {
		return nil, bodyFailure(err)
	}
	return received, nil
}

// partFailure maps an error of reading a part: the body ended early, or lacks the part.
func partFailure(err error, missing string) *failure {
	if err == nil || errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return fail(http.StatusBadRequest, "%s", missing)
	}
	return bodyFailure(err)
}

func readFooters(part *multipart.Part) (map[string]string, error) {
	content, err := io.ReadAll(io.LimitReader(part, footerBytesMax+1))
	if err != nil {
		return nil, bodyFailure(err)
	}
	if len(content) > footerBytesMax {
		return nil, fail(http.StatusRequestEntityTooLarge, "footers longer than %d bytes", footerBytesMax)
	}
	announced := part.Header.Get("Content-MD5")
	if announced == "" {
		return nil, fail(http.StatusBadRequest, "no Content-MD5 in footer")
	}
	if sum := md5.Sum(content); !strings.EqualFold(announced, hex.EncodeToString(sum[:])) {
		return nil, fail(http.StatusUnprocessableEntity, "footer MD5 mismatch")
	}
	var values map[string]any
	if err := json.Unmarshal(content, &values); err != nil {
		return nil, fail(http.StatusBadRequest, "invalid JSON for footer doc")
	}
	footers := make(map[string]string, len(values))
	for name, value := range values {
		switch value := value.(type) {
		case string:
			footers[http.CanonicalHeaderKey(name)] = value
		case nil:
		default:
			return nil, fail(http.StatusBadRequest, "footer %.64s is not text", name)
		}
	}
	return footers, nil
}
