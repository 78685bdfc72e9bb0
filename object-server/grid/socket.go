package grid

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"

	"martlet/object-server/grid/frame"

	"github.com/gobwas/ws"
)

const (
	readBuffer = 64 << 10
	// keptMax bounds the buffers that a connection keeps between messages.
	keptMax = 512 << 10
	// controlMax is RFC 6455's bound of a control frame.
	controlMax = 125
	// headRoom is the size of the longest header of a WebSocket frame.
	headRoom = ws.MaxHeaderSize
)

// unmasked is the mask of what a connector sends: the payload is as it was, and no pass over its bytes is needed. RFC
// 6455, section 5.3, wants random masks, for pages in a browser that choose bytes to mislead a cache on the way. Here
// both sides have proved that they are servers of the cluster (doc/decisions/0022-masks-of-zeros.md).
var unmasked [4]byte

// socket is a WebSocket connection. One goroutine reads, one writes.
type socket struct {
	conn   net.Conn
	in     *bufio.Reader
	state  ws.State             // our side
	limit  int                  // bytes of a message that is read
	ours   frame.Options        // that the handshake tells the peer
	ponged func(payload []byte) // answers a PING of RFC 6455; nil: none is answered

	message []byte // that was read last
}

// newSocket takes a connection after the upgrade; early has what was read beyond the response or request.
func newSocket(conn net.Conn, early *bufio.Reader, state ws.State) *socket {
	var source io.Reader = conn
	if early != nil && early.Buffered() > 0 {
		b, _ := early.Peek(early.Buffered())
		source = io.MultiReader(bytes.NewReader(bytes.Clone(b)), conn)
	}
	return &socket{conn: conn, in: bufio.NewReaderSize(source, readBuffer), state: state, limit: frame.HandshakeMax}
}

func (s *socket) masks() bool { return s.state.ClientSide() }

// read returns the next binary message. It is valid until the next call. Errors: ErrProtocol, and those of the
// connection; io.EOF if the peer closed it.
func (s *socket) read() ([]byte, error) {
	if cap(s.message) > keptMax {
		s.message = nil
	}
	s.message = s.message[:0]
	state := s.state
	for {
		h, err := ws.ReadHeader(s.in)
		if err != nil {
			return nil, wrongHeader(err)
		}
		if err := ws.CheckHeader(h, state); err != nil {
			return nil, protocolError("WebSocket: %w", err)
		}
		if h.OpCode.IsControl() {
			if err := s.control(h); err != nil {
				return nil, err
			}
			continue
		}
		if h.OpCode == ws.OpText {
			return nil, protocolError("a text message")
		}
		if err := s.part(h); err != nil {
			return nil, err
		}
		if h.Fin {
			return s.message, nil
		}
		state = state.Set(ws.StateFragmented)
	}
}

func wrongHeader(err error) error {
	if errors.Is(err, ws.ErrHeaderLengthMSB) || errors.Is(err, ws.ErrHeaderLengthUnexpected) {
		return protocolError("WebSocket: %w", err)
	}
	return err
}

// part adds the payload of one frame to the message.
func (s *socket) part(h ws.Header) error {
	start := len(s.message)
	if h.Length > int64(s.limit-start) {
		return protocolError("a message of more than %d bytes", s.limit)
	}
	s.message = grow(s.message, int(h.Length))
	if _, err := io.ReadFull(s.in, s.message[start:]); err != nil {
		return err
	}
	unmask(s.message[start:], h)
	return nil
}

// unmask reverses a mask. A mask of zeros, which our connectors send, changes nothing.
func unmask(payload []byte, h ws.Header) {
	if h.Mask != unmasked {
		ws.Cipher(payload, h.Mask, 0)
	}
}

// grow adds n bytes of any value.
func grow(b []byte, n int) []byte {
	if have := len(b) + n; have <= cap(b) {
		return b[:have]
	}
	longer := make([]byte, len(b)+n, max(len(b)+n, 4<<10))
	copy(longer, b)
	return longer
}

func (s *socket) control(h ws.Header) error {
	var payload [controlMax]byte // CheckHeader bounds the length
	b := payload[:h.Length]
	if _, err := io.ReadFull(s.in, b); err != nil {
		return err
	}
	unmask(b, h)
	switch h.OpCode {
	case ws.OpClose:
		return io.EOF
	case ws.OpPing:
		if s.ponged != nil {
			s.ponged(b)
		}
	}
	return nil
}

// write sends one message. The payload begins at headRoom of b; what is before it is overwritten.
func (s *socket) write(b []byte, op ws.OpCode) error {
	_, err := s.conn.Write(b[s.seal(b, op):])
	return err
}

// seal puts the header before the payload. It returns where the header begins.
func (s *socket) seal(b []byte, op ws.OpCode) int {
	payload := b[headRoom:]
	start, maskBit := headRoom, byte(0)
	if s.masks() {
		start -= len(unmasked)
		copy(b[start:], unmasked[:])
		maskBit = 0x80
	}
	switch n := len(payload); {
	case n < 126:
		start -= 2
		b[start+1] = maskBit | byte(n)
	case n <= 0xffff:
		start -= 4
		b[start+1] = maskBit | 126
		binary.BigEndian.PutUint16(b[start+2:], uint16(n))
	default:
		start -= 10
		b[start+1] = maskBit | 127
		binary.BigEndian.PutUint64(b[start+2:], uint64(n))
	}
	b[start] = 0x80 | byte(op)
	return start
}
