package server

import (
	"net"
	"net/http"
	"sync"
)

// unused are the connections without a request yet. On shutdown net/http waits five seconds for them, because the first
// request may be on its way; a client that has sent none loses nothing.
type unused struct {
	mu        sync.Mutex
	open      map[net.Conn]struct{} // guarded by mu
	isStopped bool                  // guarded by mu
}

// note is the ConnState of a server.
func (u *unused) note(connection net.Conn, state http.ConnState) {
	u.mu.Lock()
	defer u.mu.Unlock()
	switch {
	case state != http.StateNew:
		delete(u.open, connection)
	case u.isStopped:
		_ = connection.Close() // never used
	default:
		if u.open == nil {
			u.open = map[net.Conn]struct{}{}
		}
		u.open[connection] = struct{}{}
	}
}

// stop closes all of them, and those that come later.
func (u *unused) stop() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.isStopped = true
	for connection := range u.open {
		_ = connection.Close() // never used
	}
}
