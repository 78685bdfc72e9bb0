package server

import (
	"crypto/md5"
	"encoding/hex"
	"errors"
	"hash"
	"hash/crc32"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"martlet/object-server/server/message"
)

// bufferBytes is how many bytes of a body are read at a time.
const bufferBytes = 64 << 10

var (
	buffers = sync.Pool{New: func() any { return new([bufferBytes]byte) }}
	hashes  = sync.Pool{New: func() any { return md5.New() }}
)

// castagnoli is the polynomial of CRC32C.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// receivedBody is what arrived in the body of a PUT.
type receivedBody struct {
	size    int64
	etag    string            // hexadecimal MD5
	crc     uint32            // CRC32C, in place of etag as long as the sender has not told that
	footers map[string]string // metadata sent after the object, by canonical name
}

// receive copies the body of a PUT to target. Reading its first byte makes the client send it (100 Continue).
func (s *Server) receive(x *exchange, target io.Writer) (*receivedBody, error) {
	if body, ok := x.carrier.whole(); ok {
		return s.takeBody(x, target, body)
	}
	body := s.bodyOf(x)
	var received *receivedBody
	var err error
	if x.flag(message.MetadataFooter) {
		received, err = s.receiveWithFooters(x, body, target)
	} else {
		told, isTold := x.toldChecksum()
		received, err = s.copyBody(target, body, x.in.Length, isTold)
		if err == nil && isTold {
			err = received.trustETag(x.header(message.ETag), told)
		}
	}
	body.end(err)
	if err != nil {
		return nil, err
	}
	return received, nil
}

// takeBody is receive for a body in memory.
func (s *Server) takeBody(x *exchange, target io.Writer, body []byte) (*receivedBody, error) {
	if x.flag(message.MetadataFooter) {
		return nil, fail(http.StatusBadRequest, "Metadata come as headers here.")
	}
	x.bytesIn = int64(len(body))
	received := &receivedBody{size: int64(len(body))}
	if told, is := x.toldChecksum(); is {
		received.crc = crc32.Checksum(body, castagnoli)
		if err := received.trustETag(x.header(message.ETag), told); err != nil {
			return nil, err
		}
	} else {
		digest := hashes.Get().(hash.Hash)
		defer hashes.Put(digest)
		digest.Reset()
		digest.Write(body)
		received.etag = sumOf(digest)
	}
	if _, err := target.Write(body); err != nil {
		return nil, err
	}
	return received, nil
}

// toldChecksum is the CRC32C of the body that came as a header, in hexadecimal digits, if one came.
func (x *exchange) toldChecksum() (string, bool) {
	return strings.CutPrefix(x.header(message.BodyChecksum), crc32cName+"=")
}

func sumOf(digest hash.Hash) string {
	var sum [md5.Size]byte
	return hex.EncodeToString(digest.Sum(sum[:0]))
}

// copyBody copies body to target; size is -1 if unknown. With onlyCRC it takes a CRC32C, which costs a tenth of an MD5.
func (s *Server) copyBody(target io.Writer, body io.Reader, size int64, onlyCRC bool) (*receivedBody, error) {
	buffer := buffers.Get().(*[bufferBytes]byte)
	defer buffers.Put(buffer)
	digest := hashes.Get().(hash.Hash)
	defer hashes.Put(digest)
	digest.Reset()
	received := &receivedBody{}
	for size < 0 || received.size < size {
		n, err := body.Read(buffer[:])
		received.size += int64(n)
		if received.size > s.config.Limits.FileSizeMax {
			return nil, fail(http.StatusRequestEntityTooLarge, "Your request is too large.")
		}
		if onlyCRC {
			received.crc = crc32.Update(received.crc, castagnoli, buffer[:n])
		} else {
			digest.Write(buffer[:n])
		}
		if _, writeErr := target.Write(buffer[:n]); writeErr != nil {
			return nil, writeErr
		}
		if errors.Is(err, io.EOF) && (size < 0 || received.size == size) {
			break
		}
		if err != nil {
			return nil, bodyFailure(err)
		}
	}
	if !onlyCRC {
		received.etag = sumOf(digest)
	}
	return received, nil
}

// timedBody reads a request body with a timeout for each piece, and a deadline for all of it.
type timedBody struct {
	x        *exchange
	timeout  time.Duration // for each read
	deadline time.Time     // for the whole
	count    int64
}

func (s *Server) bodyOf(x *exchange) *timedBody {
	return &timedBody{x: x, timeout: s.config.ClientTimeout, deadline: x.received.Add(s.config.MaxUploadTime)}
}

// Read implements io.Reader.
func (b *timedBody) Read(p []byte) (int, error) {
	now := time.Now()
	if now.After(b.deadline) {
		return 0, fail(http.StatusRequestTimeout, "The upload took longer than max_upload_time.")
	}
	b.x.setReadDeadline(now.Add(b.timeout))
	n, err := b.x.carrier.Read(p)
	b.count += int64(n)
	return n, err
}

// end is called after the last read; err says why the body was not read to its end.
func (b *timedBody) end(err error) {
	b.x.bytesIn = b.count
	if now := time.Now(); now.Sub(b.x.received) > b.timeout/8 {
		b.x.extendWriteDeadline(now.Add(b.timeout)) // the deadline counts from the start of the request
	}
	if err != nil {
		b.x.setReadDeadline(time.Now()) // the rest of the body is not awaited
		return
	}
	b.x.setReadDeadline(time.Time{}) // the connection will be used again
}

// setReadDeadline sets when reads of the request's body fail; the zero time means never.
func (x *exchange) setReadDeadline(at time.Time) {
	if x.in.Length != 0 {
		x.carrier.setReadDeadline(at)
	}
}

func (x *exchange) extendWriteDeadline(until time.Time) {
	x.carrier.setWriteDeadline(until)
}
