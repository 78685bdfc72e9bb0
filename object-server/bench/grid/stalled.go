package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"martlet/object-server/grid"
	"martlet/object-server/grid/frame"
)

// relay passes bytes to the address until it is closed; from stop on it passes nothing more.
func relay(address string) (via string, stop, end func()) {
	listener := listen()
	var isStopped atomic.Bool
	var ends sync.Map
	pass := func(from, to net.Conn) {
		ends.Store(from, nil)
		b := make([]byte, 64<<10)
		for {
			n, err := from.Read(b)
			if err != nil || isStopped.Load() {
				return // both connections stay open
			}
			if _, err := to.Write(b[:n]); err != nil {
				return
			}
		}
	}
	go func() {
		for {
			here, err := listener.Accept()
			if err != nil {
				return
			}
			there, err := net.Dial("tcp", address)
			check(err)
			go pass(here, there)
			go pass(there, here)
		}
	}()
	return listener.Addr().String(), func() { isStopped.Store(true) }, func() {
		listener.Close()
		ends.Range(func(conn, _ any) bool { conn.(io.Closer).Close(); return true })
	}
}

// stalled sends requests of 64 KiB with a timeout of 50 ms again and again, and a stream without end, to a server that
// stops reading. It prints the memory and the goroutines of the process as time passes, and the longest that a request
// took.
func stalled(callers int, span time.Duration) {
	mux := &grid.Mux{}
	mux.HandleRaw("echo", func(_ context.Context, payload, answer []byte) ([]byte, error) {
		return append(answer, payload...), nil
	})
	mux.HandleStream("sink", func(_ context.Context, s *grid.Stream, _ []byte) error {
		_, err := io.Copy(io.Discard, s)
		return err
	})
	connector, address, end := newGrids(mux, true)
	defer end()
	via, stop, endRelay := relay(address)
	defer endRelay()
	conn, err := connector.Peer(via).Conn(context.Background())
	check(err)
	ctx, cancel := context.WithCancel(context.Background())
	stream, err := conn.Open(ctx, "sink", nil)
	check(err)
	var all sync.WaitGroup
	var sent, answered, longest atomic.Int64
	all.Add(callers + 1)
	go func() {
		defer all.Done()
		for piece := make([]byte, frame.DataMax); stream.Send(piece) == nil; {
		}
	}()
	for range callers {
		go func() {
			defer all.Done()
			payload := make([]byte, 64<<10)
			for ctx.Err() == nil {
				began := time.Now()
				_, err := conn.Do(ctx, grid.Request{Name: "echo", Payload: payload, Timeout: 50 * time.Millisecond}, nil)
				sent.Add(1)
				if err == nil {
					answered.Add(1)
				}
				if took := int64(time.Since(began)); took > longest.Load() {
					longest.Store(took)
				}
			}
		}()
	}
	fmt.Printf("%9s %10s %11s %10s %10s %13s\n", "stalled", "heap MiB", "goroutines", "requests", "answered", "longest, ms")
	for i := range 6 {
		if i > 0 {
			time.Sleep(span / 5)
		}
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		fmt.Printf("%8.1fs %10.1f %11d %10d %10d %13.0f\n", (span * time.Duration(i) / 5).Seconds(), float64(m.HeapAlloc)/(1<<20),
			runtime.NumGoroutine(), sent.Load(), answered.Load(), float64(longest.Swap(0))/1e6)
		if i == 0 {
			stop()
		}
	}
	cancel()
	all.Wait()
}
