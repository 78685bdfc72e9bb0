// Package grid exchanges small requests and flow-controlled streams between two servers, over one authenticated
// connection for each pair. doc/formats/grid.md rules the wire.
//
// A Grid accepts connections (it is the http.Handler of GET /grid) and makes them (Peer). Both kinds are a Conn, and
// either side of a Conn may send requests. A Mux has the handlers.
//
// Invariants:
//   - a request ends at its deadline, at the end of its context, or with its connection, whichever comes first;
//   - an answer reaches the request of its id and no other one;
//   - the memory for a peer is bounded by the options of the handshake, also if the peer is slow, stalled or hostile;
//   - nothing that a peer sends before its proof holds costs more than a frame of 4 KiB and a few seconds.
//
// Frames that are queued while a write is under way go as one message. The WebSocket library is github.com/gobwas/ws: it
// leaves buffers and masks to us, so a message is written at once and as it is; github.com/coder/websocket writes a
// masked message in pieces of 4 KiB.
//
// Files: conn.go is a connection and its end, receive.go the frames that come, outbox.go the messages that go; calls.go
// is the requester's side and serve.go the responder's; stream.go; handshake.go, acceptor.go and peer.go make
// connections; socket.go is WebSocket. It stands on packages frame and auth. Only servers use it.
package grid
