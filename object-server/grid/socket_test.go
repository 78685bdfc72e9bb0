package grid

import (
	"bytes"
	"net"
	"testing"

	"github.com/gobwas/ws"
)

// A connector's message is masked with zeros, in one frame and one write.
func TestMaskOfZeros(t *testing.T) {
	payload := []byte("heron")
	s := newSocket(nil, nil, ws.StateClientSide)
	b := append(make([]byte, headRoom), payload...)
	sent := b[s.seal(b, ws.OpBinary):]
	if want := append([]byte{0x82, 0x80 | 5, 0, 0, 0, 0}, payload...); !bytes.Equal(sent, want) {
		t.Errorf("sent % x, not % x", sent, want)
	}
}

// An acceptor takes any mask: those of the Python services are random.
func TestAnyMaskIsTaken(t *testing.T) {
	for _, mask := range [][4]byte{{}, {1, 2, 3, 4}, {0, 0, 0, 9}, {0xff, 0, 0xff, 0}} {
		ours, theirs := net.Pipe()
		s := newSocket(ours, nil, ws.StateServerSide)
		go func() {
			payload := []byte("heron and crane")
			f := ws.MaskFrameInPlaceWith(ws.NewFrame(ws.OpBinary, true, payload), mask)
			_ = ws.WriteFrame(theirs, f)
		}()
		got, err := s.read()
		check(t, err)
		if string(got) != "heron and crane" {
			t.Errorf("mask % x: read %q", mask, got)
		}
		check(t, ours.Close())
		check(t, theirs.Close())
	}
}
