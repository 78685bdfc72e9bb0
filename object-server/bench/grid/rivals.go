package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"

	"martlet/object-server/grid"
	"martlet/object-server/grid/auth"
	"martlet/object-server/grid/frame"
)

// pieceSize is what a stream is given at a time.
const pieceSize = 64 << 10

func listen() net.Listener {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check(err)
	return listener
}

// newGrids returns two servers; the second one can reach the first one at the address.
func newGrids(mux *grid.Mux, hasChecksum bool) (connector *grid.Grid, address string, end func()) {
	secrets, err := auth.NewSecrets(strings.Repeat("benchmark", 4))
	check(err)
	grids := make([]*grid.Grid, 2)
	for i := range grids {
		grids[i], err = grid.New(grid.Config{Secrets: secrets, Mux: mux, Log: slog.New(slog.DiscardHandler), Options: frame.Options{Checksum: hasChecksum}})
		check(err)
	}
	listener := listen()
	server := &http.Server{Handler: grids[0]}
	go server.Serve(listener)
	return grids[1], listener.Addr().String(), func() {
		server.Close()
		grids[1].Close()
		grids[0].Close()
	}
}

func gridRequests(size int, hasChecksum bool) (rival, func()) {
	mux := &grid.Mux{}
	mux.HandleRaw("echo", func(_ context.Context, payload, answer []byte) ([]byte, error) {
		return append(answer, payload...), nil
	})
	connector, address, end := newGrids(mux, hasChecksum)
	return rival{"grid", func() (func() error, func()) {
		peer, payload, answer := connector.Peer(address), make([]byte, size), make([]byte, 0, size)
		return func() (err error) {
			answer, err = peer.Do(context.Background(), grid.Request{Name: "echo", Payload: payload}, answer[:0])
			if err == nil && len(answer) != size {
				err = fmt.Errorf("an answer of %d bytes", len(answer))
			}
			return err
		}, func() {}
	}}, end
}

// httpRequests sends POST requests with net/http's client to net/http's server; each caller has a connection.
func httpRequests(size, callers int) (rival, func()) {
	listener := listen()
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body := make([]byte, r.ContentLength)
		if _, err := io.ReadFull(r.Body, body); err == nil {
			_, _ = w.Write(body) // the caller sees an answer that is too short
		}
	})}
	go server.Serve(listener)
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: callers, DisableCompression: true}}
	url := "http://" + listener.Addr().String() + "/echo"
	newCaller := func() (func() error, func()) {
		payload, answer := make([]byte, size), make([]byte, size)
		return func() error {
			response, err := client.Post(url, "application/octet-stream", bytes.NewReader(payload))
			if err != nil {
				return err
			}
			defer response.Body.Close()
			if _, err := io.ReadFull(response.Body, answer); err != nil {
				return err
			}
			_, err = io.Copy(io.Discard, response.Body)
			return err
		}, func() {}
	}
	return rival{"http", newCaller}, func() {
		client.CloseIdleConnections()
		server.Close()
	}
}

// gridStream moves pieces over one stream, to the acceptor or from it. A call is done when its piece is accepted by the
// stream, or has come out of it.
func gridStream(hasChecksum, toAcceptor bool) (rival, func()) {
	mux := &grid.Mux{}
	mux.HandleStream("sink", func(_ context.Context, s *grid.Stream, _ []byte) error {
		for {
			if _, err := s.Receive(); err != nil {
				return nil
			}
		}
	})
	mux.HandleStream("source", func(_ context.Context, s *grid.Stream, _ []byte) error {
		for piece := make([]byte, pieceSize); ; {
			if err := s.Send(piece); err != nil {
				return nil
			}
		}
	})
	connector, address, end := newGrids(mux, hasChecksum)
	newCaller := func() (func() error, func()) {
		name := "source"
		if toAcceptor {
			name = "sink"
		}
		s, err := connector.Peer(address).Open(context.Background(), name, nil)
		check(err)
		if toAcceptor {
			piece := make([]byte, pieceSize)
			return func() error { return s.Send(piece) }, s.Cancel
		}
		return func() error {
			piece, err := s.Receive()
			if err == nil && len(piece) != pieceSize {
				err = fmt.Errorf("a piece of %d bytes", len(piece))
			}
			return err
		}, s.Cancel
	}
	return rival{"grid", newCaller}, end
}

// tcpStream moves pieces over a bare connection.
func tcpStream() (rival, func()) {
	listener := listen()
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				piece := make([]byte, pieceSize)
				for {
					if _, err := io.ReadFull(conn, piece); err != nil {
						return
					}
				}
			}()
		}
	}()
	newCaller := func() (func() error, func()) {
		conn, err := net.Dial("tcp", listener.Addr().String())
		check(err)
		piece := make([]byte, pieceSize)
		return func() error {
			_, err := conn.Write(piece)
			return err
		}, func() { conn.Close() }
	}
	return rival{"tcp", newCaller}, func() { listener.Close() }
}
