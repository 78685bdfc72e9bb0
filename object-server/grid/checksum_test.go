package grid

import (
	"testing"

	"martlet/object-server/grid/frame"
)

func TestChecksumsBeginAndEndWithNewConnections(t *testing.T) {
	server, client := newNode(t, Config{}), newNode(t, Config{})
	echoes := func(r *raw, id uint64) {
		t.Helper()
		r.send(frame.AppendRequest(nil, id, "echo", 0, 0, []byte("x")))
		if f := r.expect(frame.Answer); f.ID != id || string(f.Payload) != "x" {
			t.Errorf("%d %q", f.ID, f.Payload)
		}
	}
	plain := rawConnector(t, server, Config{})
	server.UseChecksum(true)
	summed := rawConnector(t, server, Config{})
	if plain.sums || !summed.sums {
		t.Errorf("checksums before and after: %v, %v", plain.sums, summed.sums)
	}
	echoes(plain, 1) // it keeps its messages as they were
	echoes(summed, 1)
	server.UseChecksum(false)
	echoes(summed, 3)
	if again := rawConnector(t, server, Config{}); again.sums {
		t.Error("a connection after the option was taken back has checksums")
	} else {
		echoes(again, 1)
	}

	// The side that connects may ask for them, too.
	client.UseChecksum(true)
	answer, err := client.Peer(server.address).Do(background(t), Request{Name: "echo", Payload: []byte("y")}, nil)
	check(t, err)
	if string(answer) != "y" || !client.onlyConnection(t).hasChecksums {
		t.Errorf("%q, checksums: %v", answer, client.onlyConnection(t).hasChecksums)
	}
}
